#include "sim/search/advice/dependencies.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/units.h"

namespace foretrain {
namespace {

// A quantity that a forecast may get wrong: a part of the step, as a fraction of it, or the memory,
// as a fraction of the device.
struct Dependency {
  const char* name;
  double (*share)(const RankedPlan& plan, double memory_bytes);
};
double Part(const RankedPlan& plan, double seconds) { return seconds / plan.estimate.step_s; }

constexpr std::array kDependencies = {
    Dependency{"computing",
               [](const RankedPlan& p, double) { return Part(p, p.estimate.parts.compute_s); }},
    Dependency{
        "overlapped communication",
        [](const RankedPlan& p, double) { return Part(p, p.estimate.parts.communication_s); }},
    Dependency{"the pipeline's bubble",
               [](const RankedPlan& p, double) { return Part(p, p.estimate.parts.bubble_s); }},
    Dependency{"gradient reductions",
               [](const RankedPlan& p, double) { return Part(p, p.estimate.parts.sums_s); }},
    Dependency{"the update",
               [](const RankedPlan& p, double) { return Part(p, p.estimate.parts.update_s); }},
    Dependency{"memory",
               [](const RankedPlan& p, double memory) {
                 return static_cast<double>(p.device.Needed()) / memory;
               }},
};
constexpr double kUnlike = 0.02;  // smaller excesses over the minimum do not count

std::string TextOf(const Dependency& part, double share, const RankedPlan& plan,
                   std::int64_t memory) {
  if (std::string_view(part.name) == "memory") {
    return fmt::format("memory: {} of {}", FormatBytes(plan.device.Needed()), FormatBytes(memory));
  }
  return fmt::format("{}: {:.0f} % of the step", part.name, 100 * share);
}

}  // namespace

// Greedy, from the fastest plan on: each takes the part in which it exceeds the minimum over all
// tied plans most, among those not taken yet. So plans that are shown as tied differ in the risk
// they name.
void MarkDependencies(std::vector<RankedPlan>& plans, std::int64_t memory_bytes) {
  const auto memory = static_cast<double>(memory_bytes);
  std::vector<RankedPlan*> tied;
  for (RankedPlan& plan : plans) {
    if (plan.tied) tied.push_back(&plan);
  }
  if (tied.size() < 2) return;
  std::array<bool, kDependencies.size()> taken{};
  for (RankedPlan* plan : tied) {
    std::size_t max = kDependencies.size();
    double by = kUnlike;
    for (std::size_t b = 0; b < kDependencies.size(); ++b) {
      if (taken[b]) continue;
      double min = 1;
      for (const RankedPlan* other : tied)
        min = std::min(min, kDependencies[b].share(*other, memory));
      const double more = kDependencies[b].share(*plan, memory) - min;
      if (more > by) by = more, max = b;
    }
    if (max == kDependencies.size()) continue;
    taken[max] = true;
    plan->depends_most_on =
        TextOf(kDependencies[max], kDependencies[max].share(*plan, memory), *plan, memory_bytes);
  }
}

}  // namespace foretrain
