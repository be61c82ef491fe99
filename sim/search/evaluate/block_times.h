// Seconds of one pass of one block by itself, on one machine. block_table.h decides which blocks a
// plan has.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <unordered_map>

#include "sim/config/plan/plan.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/network/group_place.h"
#include "sim/program/ir/op.h"
#include "sim/search/evaluate/plan_key.h"

namespace foretrain {

// Costs of one pass of one block by itself. Bytes are relative to those before its first op, as in
// StepMemory.
struct PassCosts {
  double span_s = 0;     // from first start to last end
  double compute_s = 0;  // sum over the ops of the compute queue.
  // From the start of the first to the end of the last op on the compute queue, counting only waits
  // that follow from the block's own computing. No other pass computes in this time, except the
  // other half of a pair. So sums of held_s over a rank's passes bound its step from below.
  double held_s = 0;
  // Part of held_s after the op that makes the boundary tensor for the neighbouring block; all of
  // held_s if no op makes one.
  double tail_s = 0;
  std::int64_t peak_bytes = 0;  // at the fullest op
  std::int64_t end_bytes = 0;   // after the last op
};

// Seconds of blocks on one machine with all ranks of a plan at work. Not safe from several threads:
// each has its own.
class BlockTimes {
 public:
  BlockTimes(const CostModel& costs, const VaryingFields& varying);

  // Plays the block's ops on their queues in issue order. An op starts when its queue is free and
  // its inputs are written. The span is at least the sum of launch times. On accelerators,
  // computation slows down while communication overlaps it. Bytes stay 0. O(ops).
  PassCosts Of(const Block& block, const Plan& plan);
  double SpanOf(const Block& block, const Plan& plan) { return Of(block, plan).span_s; }
  // Factor by which computation slows down while communication overlaps it.
  double slowdown() const { return slowdown_; }
  // True if full recomputation runs the whole forward again.
  bool whole_recompute() const { return costs_.profile().system.whole_recompute; }
  // True if a stage waits until its sends to other stages have ended.
  bool blocking_sends() const { return costs_.profile().system.blocking_sends; }
  // Hash of all plan fields that decide where its ranks lie.
  std::uint64_t KeyOfPlan(const Plan& plan) const { return place_key_.Of(plan).Value(); }
  // Hash of the places of all groups within a stage: tp, cp and ep.
  std::uint64_t KeyOfPlaces(const Plan& plan);
  // Same without ep, for blocks without experts.
  std::uint64_t KeyOfNearPlaces(const Plan& plan);
  // Same for the groups that reduce gradients and gather parameters.
  std::uint64_t KeyOfDataPlaces(const Plan& plan);
  // Place of the group that contains the plan's first rank; empty for kNone. For kNext and kPrev,
  // that of the slowest transfers between stages.
  GroupPlace PlaceOf(const Plan& plan, GroupKind group);

 private:
  // Hash of the places of `groups`, memoized in `known`.
  std::uint64_t KeyOf(const Plan& plan, std::initializer_list<GroupKind> groups,
                      std::unordered_map<std::uint64_t, std::uint64_t>& known);

  const CostModel& costs_;
  PlanKey place_key_;
  double slowdown_ = 1, gap_s_ = 0, wake_s_ = 0;
  std::unordered_map<std::uint64_t, GroupPlace> places_;
  std::unordered_map<std::uint64_t, std::uint64_t> keys_of_places_, keys_of_near_places_,
      keys_of_data_places_;
};

}  // namespace foretrain
