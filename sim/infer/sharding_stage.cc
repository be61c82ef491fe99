#include "sim/infer/sharding_stage.h"

#include <fmt/format.h>

#include <algorithm>

#include <optional>
#include <utility>
#include <vector>

namespace foretrain {
namespace {

// Collectives of data parallelism on one rank, without those of scalars.
struct Reductions {
  std::vector<std::int64_t> scatters{}, gathers{}, sums{};  // starts

  bool IsEmpty() const { return scatters.empty() && gathers.empty() && sums.empty(); }
};

// Groups that say nothing count if no group says that it is data-parallel.
Reductions ReductionsOf(const TracedStep& step, const TracedRankStep& rank) {
  const bool described =
      std::any_of(step.groups.begin(), step.groups.end(), [](const TracedGroup& group) {
        return group.described && group.op_class == OpClass::kDpComm;
      });
  Reductions out;
  for (const TracedCall& call : rank.calls) {
    const TracedGroup& group = step.groups[static_cast<std::size_t>(call.group)];
    if (group.op_class != OpClass::kDpComm || group.described != described) continue;
    if (IsScalar(call)) continue;
    if (call.kind == InstructionKind::kReduceScatter) out.scatters.push_back(call.start_ns);
    if (call.kind == InstructionKind::kAllGather) out.gathers.push_back(call.start_ns);
    if (call.kind == InstructionKind::kAllReduce) out.sums.push_back(call.start_ns);
  }
  return out;
}

// Whether parameters are gathered for the forward and again for the backward.
bool GathersForEachPass(const Reductions& reductions) {
  const auto& [first, last] = std::pair(reductions.scatters.front(), reductions.scatters.back());
  bool before = false, between = false;
  for (const std::int64_t gather : reductions.gathers) {
    before = before || gather < first;
    between = between || (gather > first && gather < last);
  }
  return before && between;
}

// Whether a forward begins after gradients were scattered: they are, for each micro-batch.
bool ScattersForEachMicroBatch(const TracedRankStep& rank, const Reductions& reductions) {
  return std::any_of(rank.compute.begin(), rank.compute.end(), [&](const TracedCompute& op) {
    return op.pass == Pass::kForward && op.start_ns > reductions.scatters.front();
  });
}

}  // namespace

// Rajbhandari et al. 2020, s. 5: stage 1 sums gradients over the whole step, stage 2 keeps a part
// of them and so scatters them after each micro-batch, stage 3 gathers parameters for each pass.
InferredFact ZeroStageOf(const TracedStep& step, const InferredDegrees& degrees,
                         const InferredOrder& order) {
  if (degrees.dp.value == 1 && degrees.cp.value == 1) {
    return {"", "one data-parallel rank shards nothing"};
  }
  std::optional<int> stage;
  bool each = false, all_scatter = true;
  for (const TracedRankStep& rank : step.ranks) {
    const Reductions reductions = ReductionsOf(step, rank);
    if (reductions.IsEmpty()) continue;
    int of_rank = 0;
    if (!reductions.scatters.empty() && !reductions.gathers.empty()) {
      of_rank = GathersForEachPass(reductions) ? 3 : 1;
      each = each || ScattersForEachMicroBatch(rank, reductions);
    } else if (reductions.scatters.empty() != reductions.gathers.empty()) {
      all_scatter = false;
    }
    stage = std::max(stage.value_or(0), of_rank);
  }
  if (!stage.has_value()) return {"", "no reduction of gradients is in the trace"};
  if (*stage == 3) return {"3", "parameters are gathered before and during the backward passes"};
  if (*stage == 0 && !all_scatter) {
    return {"", "gradients are scattered or parameters gathered, but not both"};
  }
  if (*stage == 0) return {"0", "gradients are all-reduced, and no parameters gathered"};
  if (each)
    return {"2", "gradients are reduce-scattered after each micro-batch, parameters gathered once"};
  if (!step.has_passes || order.micro_batches.value.empty() || order.micro_batches.value == "1") {
    return {"", "stages 1 and 2 communicate alike in a step of one micro-batch"};
  }
  return {"1", "gradients are reduce-scattered once a step, parameters gathered once"};
}

}  // namespace foretrain
