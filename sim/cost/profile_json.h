// A device profile as JSON text. docs: each field is named as in device_profile.h; sizes that are 0
// and flags that are false are left out. Leaves out files: callers read and write them.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "sim/cost/device_profile.h"

namespace foretrain {

// The text of `profile`, one value a line; reads back to an equal profile. O(points).
std::string ProfileToJson(const DeviceProfile& profile);

// The profile in `text`, checked by ValidateProfile.
//
//   file  names the text in messages
//
// Errors: kCorruptInput, not JSON; kInvalidArgument, a field that is missing, unknown or out of
// range, named with file, value and remedy; another schema than 1. O(points).
Result<DeviceProfile> ProfileFromJson(std::string_view text, std::string_view file);

}  // namespace foretrain
