// Seconds and bytes of the passes of a chunk of layers, from those of its blocks and what its
// data-parallel peers add to each micro-batch. Leaves out when they run (pipeline_table.h).
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "sim/search/block_table.h"
#include "sim/search/pipeline_table.h"
#include "sim/search/state_table.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

// Of one micro-batch.
struct ClassFigures {
  PassSeconds seconds{};
  double compute_s = 0, held_s = 0;  // of all passes (PassFigures)
  double fill_s = 0;  // held_s of what comes before and behind all that the next rank does
  // Of held_s of the last block of a forward or backward what no other rank waits for, at most.
  double forward_tail_s = 0, backward_tail_s = 0;
  std::int64_t saved = 0, owed = 0;                  // behind a forward; behind an input half
  std::array<std::int64_t, kChunkPassCount> peak{};  // over what was there before
};

// Not safe from several threads: each has its own.
class ChunkFigures {
 public:
  // Borrows all but `varying`.
  ChunkFigures(const ModelSpec& model, BlockTimes& times, BlockTable& blocks,
               const VaryingFields& varying);

  // `state` is of a rank that has the chunk; `keys` are the plan's. Without `bytes` those are 0.
  ClassFigures Of(const Plan& plan, const ChunkClass& chunk, const StateFigures& state,
                  const BlockKeys& keys, bool bytes = true);
  // Of what it reads of a plan beside its blocks, its state and the shape of its pipeline.
  std::uint64_t KeyOf(const Plan& plan) const;
  // What goes from one stage to the next.
  double SendSeconds(const Plan& plan);

 private:
  void AddBlocks(const Plan& plan, BlockKind kind, const BlockFigures& block, int count,
                 const StateFigures& state, double kept_s, ClassFigures& out) const;
  double KeptSeconds(const Plan& plan, std::int64_t bytes);

  const ModelSpec& model_;
  BlockTimes& times_;
  BlockTable& blocks_;
  PlanKey send_key_;
  std::unordered_map<std::uint64_t, double> sends_, kept_;
};

}  // namespace foretrain
