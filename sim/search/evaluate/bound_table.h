// Lower bounds for a family of plans: the minimum of each cost over its states and its chunks.
// Computed once per distinct set of blocks, chunk and way of sharding state.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/search/evaluate/block_table.h"
#include "sim/search/evaluate/chunk_costs.h"
#include "sim/search/evaluate/pipeline_table.h"
#include "sim/search/evaluate/plan_family.h"
#include "sim/search/evaluate/state_table.h"

namespace foretrain {

// Not safe from several threads: each has its own.
class BoundTable {
 public:
  // Borrows all arguments.
  BoundTable(const ModelSpec& model, BlockTable& blocks, StateTable& states, ChunkCosts& chunks)
      : model_(model), blocks_(blocks), states_(states), chunks_(chunks) {}

  // Minimum of each cost over the family's plans. `plan` is one of the family, `pipeline` its own.
  // Null if no combination is valid.
  const StateCosts* StateOf(const Plan& plan, const PlanFamily& family,
                            const PipelineForm& pipeline, int composition);
  // Costs that are wanted of the family's blocks. For seconds alone, no recomputation and no
  // offloaded activations are the minimum if these fields are free, so they need no visit.
  enum class Figures { kAll, kSeconds };
  // Distinct sets of blocks of the family's plans; null if no combination is valid.
  struct Blocks;
  const Blocks* BlocksOf(const Plan& plan, const PlanFamily& family, Figures figures);
  // Lower bound of a chunk's costs. `blocks` belong to the plan's family; `state` is StateOf a rank
  // that has the chunk.
  ClassCosts ClassOf(const Plan& plan, const Blocks& blocks, const ChunkClass& chunk,
                     const StateCosts& state);

  void Clear(bool states) {
    blocks_of_ = {}, class_costs_ = {};
    if (states) state_costs_ = {};
  }

  struct Blocks {
    // One combination of values that has blocks of its own.
    struct One {
      BlockKeys keys;
      std::vector<std::int64_t> values;  // by `fields`
    };
    std::vector<const PlanField*> fields;
    std::vector<One> all;
    Figures figures = Figures::kAll;
    // Values for plans when only seconds are wanted.
    RecomputeKind recompute = RecomputeKind::kNone;
    OffloadTarget offload_activations = OffloadTarget::kNone;
    std::uint64_t key = 0;
  };

 private:
  // ClassOf without the gathers and reductions of any state.
  ClassCosts Without(const Plan& plan, const Blocks& blocks, const ChunkClass& chunk);

  const ModelSpec& model_;
  BlockTable& blocks_;
  StateTable& states_;
  ChunkCosts& chunks_;
  std::unordered_map<std::uint64_t, StateCosts> state_costs_;
  std::unordered_map<std::uint64_t, Blocks> blocks_of_;
  std::unordered_map<std::uint64_t, ClassCosts> class_costs_;  // without gathers and reductions
};

}  // namespace foretrain
