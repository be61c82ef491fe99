// Seconds and bytes of a block's passes, worked out once for each distinct block of a search.
// Leaves out what a block's place in the pipeline and its data-parallel peers add (state_table.h).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <unordered_map>

#include "sim/cost/cost_model.h"
#include "sim/memory/peak_memory.h"
#include "sim/program/blocks/blocks.h"
#include "sim/search/plan_key.h"

namespace foretrain {

// One pass of one block by itself. Bytes are those of StepMemory: at the fullest moment and behind
// the last op, relative to before the first.
struct PassFigures {
  double span_s = 0;     // from first start to last end
  double compute_s = 0;  // on the compute queue
  // Of it, behind the op that makes what the neighbouring block waits for; all where none does.
  double tail_s = 0;
  std::int64_t peak_bytes = 0;
  std::int64_t end_bytes = 0;
};

// Passes that the block has not are zero. `input` and `weight` are filled where the schedule splits
// backwards, `again` where the block is recomputed in full.
struct BlockFigures {
  PassFigures forward, backward, input, weight, again;
  bool has_halves = false;  // `input` and `weight` are filled
  bool has_bytes = false;   // of the passes but the halves
  bool has_bytes_of_halves = false;
  // A layer's input and saved tensors: what offloaded activations move.
  std::int64_t kept_bytes = 0;
};

// Which of a plan's blocks.
struct BlockChoice {
  BlockKind kind = BlockKind::kLayer;
  RecomputeKind recompute = RecomputeKind::kNone;
  bool global = false;        // attention sees all tokens
  bool shared_table = false;  // embedding and tied head lie on one rank
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

// A plan's part of the keys of its blocks.
// Of layers without experts, those with, and embedding and head.
struct BlockKeys {
  std::uint64_t dense = 0, experts = 0, ends = 0;
};

// Not safe from several threads: each has its own.
class BlockTable {
 public:
  BlockTable(const ModelSpec& model, BlockTimes& times, const VaryingFields& varying);

  BlockKeys KeysOf(const Plan& plan);
  // `keys` are the plan's. Without `bytes` those of the passes may be 0: working them out takes as
  // long as all else.
  const BlockFigures& Find(const Plan& plan, const BlockChoice& choice, const BlockKeys& keys,
                           bool bytes = true);
  std::size_t size() const { return figures_.size(); }
  void Clear() { figures_ = {}; }

 private:
  const ModelSpec& model_;
  BlockTimes& times_;
  PlanKey expert_key_, dense_key_, end_key_;
  std::unordered_map<std::uint64_t, BlockFigures> figures_;
};

}  // namespace foretrain
