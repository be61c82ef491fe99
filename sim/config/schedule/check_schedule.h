// Checks that a pipeline schedule works: each pass is there once, after those that it needs, on a
// placement of stages that foretrain knows, and no ranks wait for each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/schedule/schedule_draft.h"
#include "sim/config/schedule/slot_order.h"

namespace foretrain {

enum class ScheduleFault : std::uint8_t { kStages, kMissing, kDoubled, kOrder, kDeadlock };
std::string_view Name(ScheduleFault fault);  // "stages", "missing", "doubled", "order", "deadlock"

// An action of a draft: ranks[rank][action].
struct ActionPlace {
  int rank = 0;
  int action = 0;

  bool operator==(const ActionPlace&) const = default;
};

struct ScheduleFinding {
  ScheduleFault fault = ScheduleFault::kOrder;
  std::vector<ActionPlace> places{};  // the actions it is about; may be empty
  std::string text{};                 // one sentence that names ranks and actions
};

// Findings that are described; the others are counted.
inline constexpr std::size_t kMaxScheduleFindings = 100;

// When an action runs if forward and both halves of a backward take one unit each on every stage,
// a backward two, and transfers none.
struct ActionTimes {
  double start = 0;
  double end = 0;
};

struct ScheduleReport {
  std::vector<ScheduleFinding> findings{};
  std::size_t finding_count = 0;

  StageShape shape = StageShape::kLine;  // of the stages, if no finding is kStages
  int stages = 0;
  int micro_batches = 0;
  int chunks = 1;  // stages of a rank

  // Maximum of activations that a rank holds, by rank: each is one micro-batch's on one stage, from
  // its forward to the end of its backward. Weight halves count. Known if no finding is kStages,
  // kMissing or kDoubled.
  std::vector<int> peak_live{};
  // Known if nothing was found. A pair runs its actions one after the other.
  std::vector<std::vector<ActionTimes>> times{};  // [rank][action]
  double makespan = 0;                            // units
  double bubble = 0;                              // idle share of ranks times makespan, in [0, 1)

  bool Works() const { return finding_count == 0; }
};

// Checks in three stages, each only if the one before found nothing: stages and passes; order on
// each rank; a play of all ranks, which finds deadlocks. Rules:
//
//   - rank r of p holds stage r; or r, r + p, ...; or r and 2p - 1 - r; or, with even p and
//     micro-batches, r and p - 1 - r, of which the second half of the micro-batches goes up
//   - each stage has, for each micro-batch from 0 on, a forward and either a backward or both
//   halves
//   - forward, then backward or input half, then weight half
//   - weight gradients of a stage are added in ascending order of micro-batch, so that each order
//     gives the same sums
//   - where a rank holds the first and the last stage, the last one's weight gradients start first
//   - two ranks that hold the same stages end their weight gradients in the same order
//   - a pair is a forward and a backward
//
// O(actions log actions); safe from any thread.
ScheduleReport CheckSchedule(const ScheduleDraft& draft);

}  // namespace foretrain
