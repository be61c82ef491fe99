// A device profile as JSON. Fields have the names of device_profile.h; sizes of 0 and false flags
// are omitted.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "sim/cost/profile/device_profile.h"

namespace foretrain {

// The text of `profile`; reads back to an equal profile. O(points).
std::string ProfileToJson(const DeviceProfile& profile);

// Parses a profile and checks it by ValidateProfile.
//
//   file  names the text in messages
//
// Errors: kCorruptInput, not JSON. kInvalidArgument, with file, value and remedy: a missing,
// unknown or out-of-range field, or another schema than 1. O(points).
Result<DeviceProfile> ProfileFromJson(std::string_view text, std::string_view file);

}  // namespace foretrain
