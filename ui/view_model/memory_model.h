// Memory of one rank over a step: its curves, what is live at each peak, and how much room is left.
// Leaves out pixels.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ui/view_model/memory_curve.h"
#include "ui/view_model/sides.h"

namespace foretrain::ui {

// One rank's curves in one space.
struct MemoryPanel {
  Space space = Space::kDevice;
  std::array<MemoryCurve, 2> curves{};  // [side]; empty where a run has none
  std::array<MemoryLevel, 2> peaks{};   // in the chosen step, with the moment of each

  bool IsEmpty() const { return curves[0].empty() && curves[1].empty(); }
  // The run whose bytes are stacked: the measured one where it has samples.
  Side Stacked() const { return curves[1].empty() ? Side::kPredicted : Side::kMeasured; }
  // The fullest moment of either curve, whatever the step.
  std::int64_t Highest() const;
};

// Of `rank` in `space`, or, where nothing is known of it there or no space is given, in the first
// space that has samples. O(samples).
MemoryPanel MakeMemoryPanel(const SidePair& sides, int rank,
                            std::optional<Space> space = std::nullopt);

// A category at the peak of each side.
struct CategoryRow {
  Category category = Category::kParameters;
  std::array<std::optional<std::int64_t>, 2>
      bytes{};  // [side]; nothing where the side has no curve

  // Measured less predicted, of both.
  std::optional<std::int64_t> ErrorBytes() const;
  std::int64_t Largest() const;
};

struct RankPeak {
  int rank = 0;
  std::int64_t bytes = 0;  // on the device in the chosen step, or of the space that is known
};

struct MemoryModel {
  int rank = -1;  // -1: no rank has memory
  MemoryPanel panel{};
  std::vector<Space> spaces;                     // of which the rank has samples
  std::vector<RankPeak> ranks;                   // that can be chosen, ascending
  std::vector<CategoryRow> rows;                 // of what is live at a peak, the largest first
  std::array<std::string, 2> at_peak{};          // [side]: what runs then: "backward layer 5 mb 2"
  std::optional<std::int64_t> capacity_bytes{};  // of the device, where that is the space
  std::vector<std::string> notices;

  // Capacity less the fullest of the sides' peaks; negative where it does not fit.
  std::optional<std::int64_t> HeadroomBytes() const;
  const MemoryLevel& Peak(Side side) const { return panel.peaks[Index(side)]; }
  bool Has(Side side) const { return !panel.curves[Index(side)].empty(); }
};

// `rank`: nothing, or one without memory: the fullest. O(samples * spaces).
MemoryModel BuildMemoryModel(const SidePair& sides, std::optional<int> rank,
                             std::optional<Space> space);

// Where the step is in a sentence's words: op and instruction that run on the compute queue of
// `rank` at `time_ns` of the run's own time; empty where nothing does. O(log n).
std::string WhatRuns(const RunView& run, int rank, std::int64_t time_ns);

}  // namespace foretrain::ui
