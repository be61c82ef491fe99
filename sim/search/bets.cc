#include "sim/search/bets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/units.h"

namespace foretrain {
namespace {

// Shares of a step that a forecast may get wrong, each for reasons of its own; of memory the share
// of the device.
struct Bet {
  const char* name;
  double (*share)(const RankedPlan& plan, double memory_bytes);
};
double Part(const RankedPlan& plan, double seconds) { return seconds / plan.estimate.step_s; }

constexpr std::array kBets = {
    Bet{"computing", [](const RankedPlan& p, double) { return Part(p, p.estimate.parts.compute_s); }},
    Bet{"communication beside it",
        [](const RankedPlan& p, double) { return Part(p, p.estimate.parts.communication_s); }},
    Bet{"the pipeline's bubble",
        [](const RankedPlan& p, double) { return Part(p, p.estimate.parts.bubble_s); }},
    Bet{"sums of gradients",
        [](const RankedPlan& p, double) { return Part(p, p.estimate.parts.sums_s); }},
    Bet{"the update", [](const RankedPlan& p, double) { return Part(p, p.estimate.parts.update_s); }},
    Bet{"memory",
        [](const RankedPlan& p, double memory) {
          return static_cast<double>(p.device.Needed()) / memory;
        }},
};
constexpr double kUnlike = 0.02;  // shares that differ by less are the same bet

std::string TextOf(const Bet& bet, double share, const RankedPlan& plan, std::int64_t memory) {
  if (std::string_view(bet.name) == "memory") {
    return fmt::format("memory: {} of {}", FormatBytes(plan.device.Needed()), FormatBytes(memory));
  }
  return fmt::format("{}: {:.0f} % of the step", bet.name, 100 * share);
}

}  // namespace

void MarkBets(std::vector<RankedPlan>& plans, std::int64_t memory_bytes) {
  const auto memory = static_cast<double>(memory_bytes);
  std::vector<RankedPlan*> tied;
  for (RankedPlan& plan : plans) {
    if (plan.tied) tied.push_back(&plan);
  }
  if (tied.size() < 2) return;
  std::array<bool, kBets.size()> taken{};
  for (RankedPlan* plan : tied) {
    std::size_t most = kBets.size();
    double by = kUnlike;
    for (std::size_t b = 0; b < kBets.size(); ++b) {
      if (taken[b]) continue;
      double least = 1;
      for (const RankedPlan* other : tied) least = std::min(least, kBets[b].share(*other, memory));
      const double more = kBets[b].share(*plan, memory) - least;
      if (more > by) by = more, most = b;
    }
    if (most == kBets.size()) continue;
    taken[most] = true;
    plan->bet = TextOf(kBets[most], kBets[most].share(*plan, memory), *plan, memory_bytes);
  }
}

}  // namespace foretrain
