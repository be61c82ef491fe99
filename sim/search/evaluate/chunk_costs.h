// Seconds and bytes of the passes of a chunk of layers. They come from its blocks and from the
// gathers and reductions that data parallelism adds per micro-batch. Leaves out the order of passes
// (pipeline_table.h).
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/search/evaluate/block_table.h"
#include "sim/search/evaluate/pipeline_table.h"
#include "sim/search/evaluate/state_table.h"

namespace foretrain {

// Costs of a chunk for one micro-batch.
struct ClassCosts {
  PassSeconds seconds{};
  double compute_s = 0, held_s = 0;  // sums over all passes (PassCosts)
  double fill_s = 0;                 // held_s of one forward and one whole backward
  // Upper bounds on the part of held_s of a pass's last block that no other rank waits for.
  double forward_tail_s = 0, backward_tail_s = 0;
  std::int64_t saved = 0, owed = 0;                  // as in ChunkBytes
  std::array<std::int64_t, kChunkPassCount> peak{};  // as in ChunkBytes
};

// Not safe from several threads: each has its own.
class ChunkCosts {
 public:
  // Borrows all but `varying`.
  ChunkCosts(const ModelSpec& model, BlockTimes& times, BlockTable& blocks,
             const VaryingFields& varying);

  // Costs of `chunk`. `state` belongs to a rank that has the chunk, `keys` to the plan. If `bytes`
  // is false, all bytes are 0.
  ClassCosts Of(const Plan& plan, const ChunkClass& chunk, const StateCosts& state,
                const BlockKeys& keys, bool bytes = true);
  // Hash of the plan's values that Of reads besides blocks, state and the pipeline's shape.
  std::uint64_t KeyOf(const Plan& plan) const;
  // Seconds to send one boundary tensor to the next stage; 0 without a pipeline.
  double SendSeconds(const Plan& plan);

 private:
  void AddBlocks(const Plan& plan, BlockKind kind, const BlockCosts& block, int count,
                 const StateCosts& state, ClassCosts& out) const;

  const ModelSpec& model_;
  BlockTimes& times_;
  BlockTable& blocks_;
  PlanKey send_key_;
  std::unordered_map<std::uint64_t, double> sends_;
};

}  // namespace foretrain
