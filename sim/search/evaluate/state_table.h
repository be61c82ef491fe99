// Costs of a rank's state and of its data-parallel communication, computed once per distinct set of
// blocks and way of sharding. If no two layers share a bucket, each layer adds the same, so costs
// of short stages give those of long ones. Leaves out activations (block_table.h) and the order of
// steps.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "sim/program/ir/category_bytes.h"
#include "sim/program/lower/layout/layout_sizes.h"
#include "sim/program/lower/rank/skeleton.h"
#include "sim/search/evaluate/block_table.h"
#include "sim/search/evaluate/pipeline_table.h"
#include "sim/search/evaluate/plan_key.h"

namespace foretrain {

struct StateCosts {
  CategoryBytes device{};
  std::int64_t host_bytes = 0;  // pinned and pageable
  std::int64_t nvme_bytes = 0;
  // Peak of the gather of the largest block, wire format included; and max whole gradients of one
  // micro-batch that live at once, without shared_gradient_bytes. 0 if there are none.
  std::int64_t gathered_bytes = 0;
  std::int64_t whole_gradient_bytes = 0;
  // By chunk c: whole gradients of one micro-batch in buckets that chunks up to c share with later
  // ones. They live from the first of these backwards to the last. Empty if there are none.
  std::vector<std::int64_t> shared_gradient_bytes;
  // By kind of block, the mean per block and micro-batch: gathers of one use; gradient reductions.
  std::array<double, kBlockKindCount> gather_s{}, reduce_s{};
};

// Seconds of a rank's instructions that run once per step. Bounds do not need them, so they are
// kept apart from StateCosts: a search prices them only for plans that it evaluates to the end.
struct UpdateCosts {
  // Gradient reductions, and those after the last layer's backward, which at most the embedding's
  // hides; norm and updates; gathers of updated parameters, and the first of them; offloaded
  // updates with copies.
  double sums_s = 0, last_sum_s = 0, update_s = 0, updated_gathers_s = 0, first_gather_s = 0;
  double offload_s = 0;
  // Collectives over several stages, of gradients and of scalars. Their time depends on the number
  // of stages, so StateTable::SecondsOverStages prices them.
  std::vector<Block> sums_over_stages, scalars_over_stages;
  std::uint64_t number = 0;  // of this entry in the table
};

// Not safe from several threads: each has its own.
class StateTable {
 public:
  StateTable(const ModelSpec& model, BlockTimes& times, const VaryingFields& varying);

  // Hash of the plan for all ranks; Find adds a rank's blocks.
  std::uint64_t KeyOf(const Plan& plan);
  // Costs of a rank of `pipeline` that has the composition; `key` and `pipeline` are the plan's.
  const StateCosts& Find(const Plan& plan, std::uint64_t key, const PipelineForm& pipeline,
                         int composition) {
    return FindIn(states_, plan, key, pipeline, composition);
  }
  const UpdateCosts& FindUpdate(const Plan& plan, std::uint64_t key, const PipelineForm& pipeline,
                                int composition);
  // Seconds of the steps of `costs` that span stages, in the plan's pipeline.
  struct OverStages {
    double sums_s = 0, update_s = 0;
  };
  OverStages SecondsOverStages(const Plan& plan, const UpdateCosts& costs);
  void Clear() { sizes_ = {}, states_ = {}, updates_ = {}, apart_ = {}, over_stages_ = {}; }

 private:
  // Number of blocks of a rank by kind; layers of a kind are interchangeable.
  struct Holding {
    bool embedding = false, head = false;
    int dense = 0, experts = 0;
  };
  // Hash of the plan for all of its ranks, and the pipeline rank to evaluate.
  struct Whole {
    std::uint64_t key = 0;
    int pp = 0;
  };
  template <class Costs>
  struct Memo {
    std::unordered_map<std::uint64_t, Costs> whole;
    std::unordered_map<std::uint64_t, Costs> small;  // stages of at most two layers of a kind
  };
  template <class Costs>
  Costs& FindIn(Memo<Costs>& memo, const Plan& plan, std::uint64_t key,
                const PipelineForm& pipeline, int composition);
  std::uint64_t KeyBy(const PlanKey& fields, const Plan& plan);
  bool AreApart(const Plan& plan, const Whole& whole);
  Stage StageWith(const Plan& plan, const Holding& holding) const;
  template <class Costs>
  Costs Make(Memo<Costs>& memo, const Plan& plan, const Whole& whole, const Holding& holding);
  template <class Costs>
  const Costs& Small(Memo<Costs>& memo, const Plan& plan, const Whole& whole,
                     const Holding& holding);
  template <class Costs>
  Costs Of(const Plan& plan, const Whole& whole, const Stage& stage);
  const ParameterSizes& SizesFor(const Plan& plan);

  const ModelSpec& model_;
  BlockTimes& times_;
  PlanKey key_, layers_key_, sizes_key_;
  std::unordered_map<std::uint64_t, ParameterSizes> sizes_;
  Memo<StateCosts> states_;
  Memo<UpdateCosts> updates_;
  std::unordered_map<std::uint64_t, OverStages> over_stages_;
  std::unordered_map<std::uint64_t, bool> apart_;  // true: no two layers share a bucket
};

}  // namespace foretrain
