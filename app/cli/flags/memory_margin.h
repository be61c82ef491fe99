// Part of a device's memory that a search keeps free, because no forecast of memory is exact.
#pragma once

#include <cstdint>
#include <string>

#include "app/cli/flags/plan_flags.h"

namespace foretrain {

struct MemoryMargin {
  std::string text = "10%";

  void Declare(Arguments& arguments);
  // Bytes that a plan may use on each device: all that --max-memory gives, or all memory of a CPU
  // rank, else the device's memory less the margin. Errors: kInvalidArgument for a margin that is
  // no percentage from 0 to 90.
  Result<std::int64_t> LimitOf(const ClusterFlags& flags, const ClusterSpec& cluster) const;
};

}  // namespace foretrain
