#include "sim/check/slower_machine.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/result.h"
#include "sim/learn/learned_constants.h"

namespace foretrain {
namespace {

// Constants of a part, and whether they are rates, which fall, or times, which grow.
struct PartConstant {
  std::string_view name;
  double sign = 1;
};

std::vector<PartConstant> ConstantsOf(SlowPart part) {
  switch (part) {
    case SlowPart::kClocks:
      return {{"product_rate"}, {"score_efficiency"}, {"attention"}, {"kernel_s", -1}};
    case SlowPart::kMemory:
      return {{"memory_efficiency"}};
    case SlowPart::kLinks:
      return {{"link_bytes_per_s"}};
    case SlowPart::kNetwork:
      return {{"network_bytes_per_s"}};
  }
  return {};
}

std::size_t IndexOf(std::string_view name) {
  const auto& constants = LearnedConstants();
  const auto found = std::find_if(constants.begin(), constants.end(),
                                  [&](const LearnedConstant& one) { return one.name == name; });
  FT_CHECK(found != constants.end());
  return static_cast<std::size_t>(found - constants.begin());
}

}  // namespace

std::string_view Name(SlowPart part) {
  constexpr std::array<std::string_view, kSlowParts.size()> kNames = {"clocks", "HBM", "links",
                                                                      "network"};
  return kNames[static_cast<std::size_t>(part)];
}

DeviceProfile WithSlower(const DeviceProfile& profile, SlowPart part, double factor) {
  ConstantMoves by{};
  for (const PartConstant& one : ConstantsOf(part))
    by[IndexOf(one.name)] = one.sign * std::log(factor);
  DeviceProfile out = profile;
  MoveConstants(by, out);
  return out;
}

}  // namespace foretrain
