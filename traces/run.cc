#include "traces/run.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/result.h"

namespace foretrain {
namespace {

constexpr std::array<std::string_view, kRunKindCount> kKindNames = {"predicted", "measured",
                                                                    "resimulated", "imported"};
constexpr std::array<std::string_view, kRunStatusCount> kStatusNames = {"running", "finished",
                                                                        "interrupted", "failed"};

}  // namespace

std::string_view Name(RunKind kind) {
  FT_CHECK(static_cast<int>(kind) < kRunKindCount);
  return kKindNames[static_cast<std::size_t>(kind)];
}

std::string_view Name(RunStatus status) {
  FT_CHECK(static_cast<int>(status) < kRunStatusCount);
  return kStatusNames[static_cast<std::size_t>(status)];
}

std::optional<RunKind> ParseRunKind(std::string_view name) {
  const auto known = std::find(kKindNames.begin(), kKindNames.end(), name);
  if (known == kKindNames.end()) return std::nullopt;
  return static_cast<RunKind>(known - kKindNames.begin());
}

std::optional<double> RunInfo::Metric(std::string_view name) const {
  for (const MetricValue& metric : metrics) {
    if (metric.name == name) return metric.value;
  }
  return std::nullopt;
}

}  // namespace foretrain
