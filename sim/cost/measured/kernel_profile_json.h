// The text form of kernel profiles, and the profiles that are part of the program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/cost/measured/kernel_profile.h"

namespace foretrain {

// Parses one profile; `file` is for messages. Errors: kCorruptInput or kInvalidArgument, naming
// file and field: no JSON, a missing, unknown or repeated field, a value out of range, or lists of
// different lengths. O(bytes).
Result<KernelProfile> KernelProfileFromJson(std::string_view text, std::string_view file);

// The text of `profile`, one list or object a line. `made_by` is the command that made it, for
// readers of the file.
std::string KernelProfileToJson(const KernelProfile& profile, std::string_view made_by);

// The profiles in sim/cost/measured/devices/, in the order of their names.
Result<std::vector<KernelProfile>> BuiltInKernelProfiles();

}  // namespace foretrain
