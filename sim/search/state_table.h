// What a rank holds for the whole run and what its data-parallel peers cost it, worked out once for
// each distinct set of blocks and way of sharing state; where no two layers share a bucket, from
// stages of a few layers, since each adds the same. Leaves out activations (block_table.h) and
// order.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "sim/memory/peak_memory.h"
#include "sim/program/lower/layout_sizes.h"
#include "sim/program/lower/skeleton.h"
#include "sim/search/block_table.h"
#include "sim/search/pipeline_table.h"
#include "sim/search/plan_key.h"

namespace foretrain {

inline constexpr std::size_t kBlockKindCount = 4;

struct StateFigures {
  CategoryBytes device{};
  std::int64_t host_bytes = 0;  // pinned or not
  std::int64_t nvme_bytes = 0;
  // Parameters gathered for one use of the largest block with what is on the wire; whole gradients
  // of one micro-batch that are there at once, but for shared_gradient_bytes. 0 where there are
  // none.
  std::int64_t gathered_bytes = 0;
  std::int64_t whole_gradient_bytes = 0;
  // Whole gradients of one micro-batch in buckets that blocks of chunks up to c share with those of
  // chunks behind it: there from the first of their backwards to the last. By c; empty: none.
  std::vector<std::int64_t> shared_gradient_bytes;
  // Mean of the blocks of a kind, for each micro-batch: gathers of one use, sums of gradients.
  std::array<double, kBlockKindCount> gather_s{}, reduce_s{};
  // Once a step: sums of gradients, of them the last; what follows them in turn: norm and update;
  // gathers of what was updated, and the first of them; updates off the device.
  double sums_s = 0, last_sum_s = 0, update_s = 0, updated_gathers_s = 0, first_gather_s = 0;
  double away_s = 0;
};

// Not safe from several threads: each has its own.
class StateTable {
 public:
  StateTable(const ModelSpec& model, BlockTimes& times, const VaryingFields& varying);

  // The plan's part of the keys of its ranks.
  std::uint64_t KeyOf(const Plan& plan);
  // Of a rank of `pipeline` that has the composition; `key` and `pipeline` are the plan's.
  const StateFigures& Find(const Plan& plan, std::uint64_t key, const PipelineForm& pipeline,
                           int composition);
  std::size_t size() const { return figures_.size(); }
  void Clear() { sizes_ = {}, figures_ = {}, small_ = {}, apart_ = {}; }

 private:
  // Blocks of a rank, whichever of their kind.
  struct Holding {
    bool embedding = false, head = false;
    int dense = 0, experts = 0;
  };
  // Key of what is the same for all ranks of the plan, and a rank that is looked at.
  struct Whole {
    std::uint64_t key = 0;
    int pp = 0;
  };
  bool AreApart(const Plan& plan, const Whole& whole);
  Stage StageWith(const Plan& plan, const Holding& holding) const;
  StateFigures Make(const Plan& plan, const Whole& whole, const Holding& holding);
  const StateFigures& Small(const Plan& plan, const Whole& whole, const Holding& holding);
  StateFigures Of(const Plan& plan, const Whole& whole, const Stage& stage);
  const ParameterSizes& SizesFor(const Plan& plan);

  const ModelSpec& model_;
  BlockTimes& times_;
  PlanKey key_, sizes_key_;
  std::unordered_map<std::uint64_t, ParameterSizes> sizes_;
  std::unordered_map<std::uint64_t, StateFigures> figures_;
  std::unordered_map<std::uint64_t, StateFigures> small_;  // of stages of a few layers
  std::unordered_map<std::uint64_t, bool> apart_;          // no two layers share a bucket
};

}  // namespace foretrain
