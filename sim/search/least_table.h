// What no plan of a family goes below: of its state and of its chunks the least of each figure,
// worked out once for each distinct set of blocks, chunk and way of sharing state.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "sim/search/block_table.h"
#include "sim/search/chunk_figures.h"
#include "sim/search/pipeline_table.h"
#include "sim/search/plan_family.h"
#include "sim/search/state_table.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

// Not safe from several threads: each has its own.
class LeastTable {
 public:
  // Borrows all.
  LeastTable(const ModelSpec& model, BlockTable& blocks, StateTable& states, ChunkFigures& chunks)
      : model_(model), blocks_(blocks), states_(states), chunks_(chunks) {}

  // Each figure is the least that any of the family's plans has of it (of seconds that others hide
  // behind, the most). `plan` is of the family, `pipeline` its own. Null where nothing is known: no
  // combination is valid, or the family is of those whose plans depend on more than blocks and
  // state.
  const StateFigures* StateOf(const Plan& plan, const PlanFamily& family,
                              const PipelineForm& pipeline, int composition);
  // What of the family's blocks: all figures, or seconds alone, of which recomputing nothing and
  // keeping activations on the device has the least where the family leaves that open.
  enum class Figures { kAll, kSeconds };
  // The blocks of the family's plans; null as above.
  struct Blocks;
  const Blocks* BlocksOf(const Plan& plan, const PlanFamily& family, Figures figures);
  // `blocks` are of the plan's family; `state` is the least of a rank that has the chunk.
  ClassFigures ClassOf(const Plan& plan, const Blocks& blocks, const ChunkClass& chunk,
                       const StateFigures& state);

  void Clear(bool states) {
    blocks_of_ = {}, class_figures_ = {};
    if (states) state_figures_ = {};
  }

  // Those of one combination that has blocks of its own.
  struct Blocks {
    struct One {
      BlockKeys keys;
      std::vector<std::int64_t> values;  // of `fields`
    };
    std::vector<const PlanField*> fields;
    std::vector<One> all;
    Figures figures = Figures::kAll;
    // Of seconds.
    RecomputeKind recompute = RecomputeKind::kNone;
    OffloadTarget offload_activations = OffloadTarget::kNone;
    std::uint64_t key = 0;
  };

 private:
  ClassFigures Without(const Plan& plan, const Blocks& blocks, const ChunkClass& chunk);

  const ModelSpec& model_;
  BlockTable& blocks_;
  StateTable& states_;
  ChunkFigures& chunks_;
  std::unordered_map<std::uint64_t, StateFigures> state_figures_;
  std::unordered_map<std::uint64_t, Blocks> blocks_of_;
  std::unordered_map<std::uint64_t, ClassFigures> class_figures_;  // without gathers and sums
};

}  // namespace foretrain
