// The chosen step of each run, and which ranks correspond. Leaves out what views make of them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
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

// What the views call each side's run: "predicted" or "baseline", and "measured".
using SideNames = std::array<std::string_view, 2>;

// Data computed once per run, whatever the view selects. Null if the run is missing.
struct CompareFacts {
  std::array<std::shared_ptr<const Metrics>, 2> metrics{};  // shared by models of the same input
};

CompareFacts FactsOf(const CompareInput& input);

// One run as placed in a view. Displayed time = own time of the run - offset_ns.
struct SideModel {
  const RunView* run = nullptr;      // null if missing
  const Metrics* metrics = nullptr;  // not null if run is not null
  std::vector<std::int32_t> steps;   // all steps, ascending
  std::int32_t step = -1;            // the chosen step; -1 if there is none
  std::int64_t step_start_ns = 0;    // own time: earliest start of any rank
  std::int64_t step_end_ns = 0;      // latest end of any rank
  std::int64_t step_ns = 0;          // the longest window of any rank: the step time
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
  // The measured run, or the forecast if there is none.
  Side Shown() const {
    return Of(Side::kMeasured).IsPresent() ? Side::kMeasured : Side::kPredicted;
  }
  // Whether a measured run stands where a forecast usually does, as in a comparison of two
  // measurements.
  bool HasBaseline() const {
    return Of(Side::kPredicted).IsPresent() && Of(Side::kPredicted).run->is_measurement;
  }
  SideNames Names() const { return {HasBaseline() ? "baseline" : "predicted", "measured"}; }
  std::string_view NameOf(Side side) const { return Names()[Index(side)]; }
  // What the measured run is compared with: "forecast" or "baseline".
  std::string_view Reference() const { return HasBaseline() ? "baseline" : "forecast"; }
  // The rank of `side` that represents `rank`.
  int RankOn(Side side, int rank) const;
};

// The step to show of each side. `nullopt`, or a step that the run does not have, selects the
// median one.
struct ChosenSteps {
  std::array<std::optional<std::int32_t>, 2> steps{};
};

// Both runs of `input`, which must outlive the result and stay unchanged. Displayed times are
// relative to the start of the step. O(windows).
SidePair SidesOf(const CompareInput& input, const CompareFacts& facts,
                 const ChosenSteps& chosen = {});
SidePair SidesOf(CompareInput&&, const CompareFacts&, const ChosenSteps& = {}) = delete;

// The displayed ranks: those with spans in the measured run or, without one, in the forecast; those
// with memory if there are no spans. O(ranks log n).
std::vector<int> RanksOf(const SidePair& sides);

// The ops of the chosen steps, each with its counterpart, sorted by (rank, op). For a single run no
// op has one. O(n log n).
std::vector<PairedOp> PairsOf(const SidePair& sides);

}  // namespace foretrain::ui
