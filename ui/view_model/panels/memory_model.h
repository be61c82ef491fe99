// Memory of one rank over a step: its curves, the contents of each peak, and the headroom.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ui/view_model/panels/memory_curve.h"
#include "ui/view_model/runs/sides.h"

namespace foretrain::ui {

// One rank's curves in one space.
struct MemoryPanel {
  Space space = Space::kDevice;
  std::array<MemoryCurve, 2> curves{};  // by side; empty if the run has no samples
  std::array<MemoryLevel, 2> peaks{};   // in the chosen step, each with its moment

  bool IsEmpty() const { return curves[0].empty() && curves[1].empty(); }
  // The run whose bytes are stacked: the measured one if it has samples.
  Side Stacked() const { return curves[1].empty() ? Side::kPredicted : Side::kMeasured; }
  // Highest total of either curve, in any step.
  std::int64_t Highest() const;
};

// Panel of `rank` in `space`. If that has no samples, or no space is given, the first space that
// has some is used. O(samples).
MemoryPanel MakeMemoryPanel(const SidePair& sides, int rank,
                            std::optional<Space> space = std::nullopt);

// One category at the peak of each side.
struct CategoryRow {
  Category category = Category::kParameters;
  std::array<std::optional<std::int64_t>, 2> bytes{};  // by side; nullopt if the side has no curve

  // Measured minus predicted; nullopt unless both are known.
  std::optional<std::int64_t> ErrorBytes() const;
  std::int64_t Largest() const;
};

struct RankPeak {
  int rank = 0;
  std::int64_t bytes = 0;  // on the device in the chosen step, or in the first space known
};

struct MemoryModel {
  int rank = -1;  // -1 if no rank has memory samples
  MemoryPanel panel{};
  std::vector<Space> spaces;             // spaces in which the rank has samples
  std::vector<RankPeak> ranks;           // ranks that can be chosen, ascending
  std::vector<CategoryRow> rows;         // categories in use at a peak, largest first
  std::array<std::string, 2> at_peak{};  // by side: the op at the peak, "backward layer 5 mb 2"
  std::optional<std::int64_t> capacity_bytes{};  // of the device; nullopt for other spaces
  std::vector<std::string> notices;

  // Capacity minus the higher peak of both sides; negative if it does not fit. nullopt if the
  // capacity is unknown.
  std::optional<std::int64_t> HeadroomBytes() const;
  const MemoryLevel& Peak(Side side) const { return panel.peaks[Index(side)]; }
  bool Has(Side side) const { return !panel.curves[Index(side)].empty(); }
};

// If `rank` is nullopt or has no memory samples, the fullest rank is used. O(samples * spaces).
MemoryModel BuildMemoryModel(const SidePair& sides, std::optional<int> rank,
                             std::optional<Space> space);

// Op and instruction on the compute queue of `rank` at `time_ns` of the run's own time, as text;
// empty if none runs. O(log n).
std::string WhatRuns(const RunView& run, int rank, std::int64_t time_ns);

}  // namespace foretrain::ui
