// The step of each run that is looked at, and which ranks stand beside one another. Leaves out what
// is made of them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sim/compare/pairing.h"
#include "ui/run_view.h"

namespace foretrain::ui {

enum class Side : std::uint8_t { kPredicted, kMeasured };
inline constexpr std::array<Side, 2> kSides{Side::kPredicted, Side::kMeasured};
constexpr std::size_t Index(Side side) { return static_cast<std::size_t>(side); }
constexpr Side Other(Side side) {
  return side == Side::kPredicted ? Side::kMeasured : Side::kPredicted;
}

// What is computed once a run, whatever is chosen in the view. Null where the run is missing.
struct CompareFacts {
  std::array<std::shared_ptr<const Metrics>, 2> metrics{};  // shared by models of the same input
};

CompareFacts FactsOf(const CompareInput& input);

// One run as placed in a view. Displayed time = the run's own time - offset_ns.
struct SideModel {
  const RunView* run = nullptr;      // null: missing
  const Metrics* metrics = nullptr;  // not null where run is not
  std::vector<std::int32_t> steps;   // all steps, ascending
  std::int32_t step = -1;            // the chosen one; -1 where there is none
  std::int64_t step_start_ns = 0;    // own time: the earliest start of any rank
  std::int64_t step_end_ns = 0;      // the latest end
  std::int64_t offset_ns = 0;

  bool IsPresent() const { return run != nullptr; }
  double Displayed(std::int64_t own_ns) const { return static_cast<double>(own_ns - offset_ns); }
  double Own(double displayed_ns) const { return displayed_ns + static_cast<double>(offset_ns); }
};

struct SidePair {
  CompareFacts facts{};
  std::array<SideModel, 2> sides{};

  const SideModel& Of(Side side) const { return sides[Index(side)]; }
  const Timeline& TimelineOf(Side side) const { return Of(side).run->timeline; }
  bool HasBoth() const { return sides[0].IsPresent() && sides[1].IsPresent(); }
  // The measured run, or the forecast where there is none.
  Side Shown() const {
    return Of(Side::kMeasured).IsPresent() ? Side::kMeasured : Side::kPredicted;
  }
  // The rank of `side` that stands for `rank`.
  int RankOn(Side side, int rank) const;
};

// The steps of each side to look at; nothing, or a step that the run does not have: the median one.
struct ChosenSteps {
  std::array<std::optional<std::int32_t>, 2> steps{};
};

// Both runs of `input`, which must outlive the result and stay as it is. Displayed times are since
// the step began. O(windows).
SidePair SidesOf(const CompareInput& input, const CompareFacts& facts,
                 const ChosenSteps& chosen = {});
SidePair SidesOf(CompareInput&&, const CompareFacts&, const ChosenSteps& = {}) = delete;

// The ranks that are shown: those with spans in the measured run, or, without one, in the forecast.
// O(ranks log n).
std::vector<int> RanksOf(const SidePair& sides);

// The ops of the chosen steps, each beside its twin, sorted by (rank, op). Of a run alone all ops
// are without one. O(n log n).
std::vector<PairedOp> PairsOf(const SidePair& sides);

}  // namespace foretrain::ui
