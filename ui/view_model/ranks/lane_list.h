// Which lanes are shown, and in which order: ranks that do the same as one group with a
// representative, pinned ranks first. Leaves out where lanes lie (ui/view_model/timeline/layout.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ui/view_model/runs/compare_model.h"

namespace foretrain::ui {

enum class LaneSort : std::uint8_t {
  kByRank,
  kSlowestFirst,  // by compute time in the chosen step
};

// The user's choices.
struct LaneOrder {
  bool grouped = false;
  LaneSort sort = LaneSort::kByRank;
  std::vector<int> open{};    // lowest ranks of the groups that are expanded, ascending
  std::vector<int> pinned{};  // ranks that come first, in this order

  bool operator==(const LaneOrder&) const = default;
};

// One lane that is shown.
struct LaneRow {
  std::size_t lane = 0;         // index into CompareModel::lanes
  std::int64_t stands_for = 1;  // ranks, itself included
  int group = -1;               // lowest rank of its group; -1 if lanes are not grouped
  bool closed = false;          // the representative of a group that can be expanded
  bool heads = false;           // the first lane of an expanded group
  bool pinned = false;

  bool operator==(const LaneRow&) const = default;
};

struct LaneList {
  std::vector<LaneRow> rows{};
  // [lane]: index into `rows`; nullopt if another lane stands for it.
  std::vector<std::optional<std::uint32_t>> places{};
  std::vector<int> groups{};  // [lane]: lowest rank of its group; empty if lanes are not grouped
};

// More lanes than this are grouped at first.
inline constexpr std::size_t kMaxLoneLanes = 64;

// Lanes of one group have the same pipeline stage and, if a forecast simulates one rank for many,
// the same simulated rank. A closed group shows its slowest lane. O(n log n) in the lanes.
LaneList ArrangeLanes(const CompareModel& model, const LaneOrder& order);

// Expands the group with the lowest rank `group`, or closes it.
void ToggleGroup(int group, LaneOrder& order);

// Pins `rank` as the last of the pinned, or unpins it.
void TogglePin(int rank, LaneOrder& order);

// Moves `rank` to place `to` of `list`. What stood above stays above: it is pinned too.
void MoveRank(const CompareModel& model, const LaneList& list, int rank, std::size_t to,
              LaneOrder& order);

// [lane]: time that its rank computes in the chosen step of the shown run; its step window if that
// is unknown, as of spans that are not read; -1 without either. O(n log n).
std::vector<std::int64_t> ComputeNsByLane(const CompareModel& model);

// "1,016 ranks".
std::string RanksText(std::int64_t ranks);

// "rank 3 stands for 1,016 ranks of stage 0". Empty if it stands for itself.
std::string DescribeRow(const CompareModel& model, const LaneRow& row);

}  // namespace foretrain::ui
