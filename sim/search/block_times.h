// Seconds of one pass of one block by itself, on one machine. Leaves out which blocks a plan has
// (block_table.h).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <unordered_map>

#include "sim/cost/cost_model.h"
#include "sim/cost/group_place.h"
#include "sim/program/op.h"
#include "sim/search/plan_key.h"
#include "sim/spec/plan.h"

namespace foretrain {

// One pass of one block by itself. Bytes are those of StepMemory: at the fullest moment and behind
// the last op, relative to before the first.
struct PassFigures {
  double span_s = 0;     // from first start to last end
  double compute_s = 0;  // on the compute queue
  // From the first op of the compute queue to the end of its last: computing, and waits between for
  // what waits for computing before. No other pass computes meanwhile but its half of a pair.
  double held_s = 0;
  // Of it, behind the op that makes what the neighbouring block waits for; all where none does.
  double tail_s = 0;
  std::int64_t peak_bytes = 0;
  std::int64_t end_bytes = 0;
};

// Seconds of blocks on one machine with all ranks of a plan at work. Not safe from several threads:
// each has its own.
class BlockTimes {
 public:
  BlockTimes(const CostModel& costs, const VaryingFields& varying);

  // The block's ops over its queues in issue order: each starts when its queue is free and what it
  // reads is written; the whole takes no less than its launches. On accelerators compute is slowed
  // down while communication runs beside it. Bytes are left at 0.
  PassFigures Of(const Block& block, const Plan& plan);
  double SpanOf(const Block& block, const Plan& plan) { return Of(block, plan).span_s; }
  // How many times as long compute takes beside communication.
  double slowdown() const { return slowdown_; }
  // Whether full recomputation runs the whole forward again.
  bool whole_recompute() const { return costs_.profile().system.whole_recompute; }
  // Whether the system waits for what its stages send each other.
  bool blocking_sends() const { return costs_.profile().system.blocking_sends; }
  // A number for where all groups within a stage lie.
  std::uint64_t KeyOfPlaces(const Plan& plan);
  // The same without those that experts are dealt to.
  std::uint64_t KeyOfNearPlaces(const Plan& plan);
  // The same of the groups that sum and gather over data parallelism.
  std::uint64_t KeyOfDataPlaces(const Plan& plan);
  // Where the group of the plan's first rank lies.
  GroupPlace PlaceOf(const Plan& plan, GroupKind group);

 private:
  // Of the places of these groups, looked up in `known`.
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
