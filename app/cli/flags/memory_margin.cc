#include "app/cli/flags/memory_margin.h"

#include <string_view>

#include "base/text.h"

namespace foretrain {

void MemoryMargin::Declare(Arguments& arguments) {
  arguments.Option("--memory-margin", text, "PERCENT",
                   "Part of a device's memory that plans leave free; with --max-memory none");
}

// A CPU rank's memory is a share of the machine's, which is not all used anyway.
Result<std::int64_t> MemoryMargin::LimitOf(const ClusterFlags& flags,
                                           const ClusterSpec& cluster) const {
  constexpr double kMaxPercent = 90;
  std::string_view number = Trim(text);
  if (number.ends_with('%')) number.remove_suffix(1);
  FT_ASSIGN(const double percent, ParseNumber("--memory-margin", Trim(number), 0, kMaxPercent));
  const std::int64_t all = cluster.device.memory_bytes;
  if (cluster.is_cpu || !flags.max_memory.empty()) return all;
  return all - static_cast<std::int64_t>(static_cast<double>(all) * percent / 100);
}

}  // namespace foretrain
