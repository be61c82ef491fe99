// One of CUPTI's records as the plain record of base/device_api.h. Pure: no call into any library.
#pragma once

#include <cupti.h>

#include <cstdint>

#include "base/device_api.h"

namespace foretrain {

// What an external id of ours holds: which op of which rank, as a number of LabelTable, and the
// step.
struct ExternalId {
  std::uint32_t label = 0;
  std::int32_t step = 0;

  std::uint64_t Pack() const {
    return std::uint64_t{label} << 32 | static_cast<std::uint32_t>(step);
  }
  static ExternalId Unpack(std::uint64_t id) {
    return {static_cast<std::uint32_t>(id >> 32), static_cast<std::int32_t>(id & 0xFFFFFFFFU)};
  }
};

enum class ParsedRecord : std::uint8_t {
  kActivity,  // `activity` is filled; a kernel's name is the library's
  kTag,       // `activity` has the correlation, `external` what it stands for
  kNothing,   // of a kind, or of another's id, that says nothing to us
};

// Times are copied as they are: 0 where none was taken.
ParsedRecord ParseRecord(const CUpti_Activity& record, FtActivity& activity, ExternalId& external);

}  // namespace foretrain
