// Machines on which a part is slower than usual: GPUs with lower clocks, slower memory or wires.
#pragma once

#include <array>
#include <string_view>

#include "sim/cost/profile/device_profile.h"

namespace foretrain {

enum class SlowPart : std::uint8_t { kClocks, kMemory, kLinks, kNetwork };
inline constexpr std::array kSlowParts = {SlowPart::kClocks, SlowPart::kMemory, SlowPart::kLinks,
                                          SlowPart::kNetwork};
std::string_view Name(SlowPart part);  // "clocks", "HBM", "links", "network"

// A profile whose part has `factor` times its speed, in (0, 1]. Lower clocks slow down products,
// attention and the start of kernels, not memory (the constants of sim/learn/learned_constants.h).
DeviceProfile WithSlower(const DeviceProfile& profile, SlowPart part, double factor);

}  // namespace foretrain
