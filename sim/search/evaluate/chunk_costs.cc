#include "sim/search/evaluate/chunk_costs.h"

#include <algorithm>

#include "sim/program/blocks/blocks.h"
#include "sim/program/lower/rank/step_description.h"
#include "sim/program/lower/transfers/boundaries.h"
#include "sim/search/evaluate/chunk_memory.h"

namespace foretrain {
namespace {

// Length of a pass of `span_s`, of which `compute_s` compute, when `other_s` of communication or
// copies overlap it. Overlap slows computation down by `slowdown`. If the other part is longer, it
// decides.
double Beside(double span_s, double compute_s, double other_s, double slowdown) {
  return std::max(span_s + std::min(compute_s, other_s) * (slowdown - 1), other_s);
}

}  // namespace

ChunkCosts::ChunkCosts(const ModelSpec& model, BlockTimes& times, BlockTable& blocks,
                       const VaryingFields& varying)
    : model_(model),
      times_(times),
      blocks_(blocks),
      send_key_(Without(varying,
                        "vpp schedule_slots recompute zero_stage offload_optimizer "
                        "offload_activations offload_gradients offload_parameters")) {}

// Blocking sends are part of every pass, so only then the key holds what a send reads.
std::uint64_t ChunkCosts::KeyOf(const Plan& plan) const {
  StableHash key = times_.blocking_sends() ? send_key_.Of(plan) : StableHash();
  key.Add(plan.recompute).Add(plan.offload_activations).Add(plan.prefetch_depth);
  return key.Add(plan.pp == 1).Value();
}

// The send is described and priced as the lowering emits it, so both agree. All boundaries of a
// pipeline have the same size: one price serves all.
double ChunkCosts::SendSeconds(const Plan& plan) {
  if (plan.pp == 1) return 0;
  const auto [found, is_new] = sends_.try_emplace(send_key_.Of(plan).Value());
  if (is_new) {
    const Stage stage;
    const BucketLayout no_buckets;
    const SkeletonStep send = SendStep(Pass::kForward, /*block=*/0, /*micro_batch=*/0, true);
    const StepDescription step =
        send.rule->describe({model_, plan, stage, no_buckets, {}}, send.key);
    found->second = times_.SpanOf(step.make(), plan);
  }
  return found->second;
}

// Adds `count` equal blocks to each pass. With prefetch, gathers overlap other blocks; without it
// they come before their own block. Gathers and reductions of a backward share a link and add up;
// copies use other queues and overlap both. held_s and compute_s count the blocks alone: they are
// lower bounds that hold for any overlap.
void ChunkCosts::AddBlocks(const Plan& plan, BlockKind kind, const BlockCosts& block, int count,
                           const StateCosts& state, ClassCosts& out) const {
  const double slow = times_.slowdown();
  // Offloaded activations overlap one block, as gathers do.
  const double copies = plan.offload_activations == OffloadTarget::kNone   ? 0
                        : plan.offload_activations == OffloadTarget::kNvme ? block.kept_nvme_s
                                                                           : block.kept_s;
  const double gather = state.gather_s[static_cast<std::size_t>(kind)];
  const double reduce = state.reduce_s[static_cast<std::size_t>(kind)];
  const bool ahead = plan.prefetch_depth > 0;
  const double before = ahead ? 0 : gather;
  const double beside = std::max(ahead ? gather : 0, copies);
  const double n = count;
  const auto pass = [&](const PassCosts& figures, double other) {
    return Beside(figures.span_s, figures.compute_s, other, slow);
  };
  const bool embedding = kind == BlockKind::kEmbedding;
  // Recomputation precedes the backward and uses the same gathered parameters.
  const auto rebuilt = [&](PassCosts figures) {
    figures.span_s += block.again.span_s;
    figures.compute_s += block.again.compute_s;
    return figures;
  };
  // The embedding's backward reads no parameters, so it gathers none.
  const double gathers = embedding ? 0 : before;
  const double beside_b = embedding ? 0 : beside;
  const double beside_whole = std::max((embedding || !ahead ? 0 : gather) + reduce, copies);
  out.seconds[kF] += n * (before + pass(block.forward, beside));
  out.seconds[kB] += n * (gathers + pass(rebuilt(block.backward), beside_whole));
  out.seconds[kI] += n * (gathers + pass(rebuilt(block.input), beside_b));
  out.seconds[kW] += n * pass(block.weight, std::max(reduce, copies));
  // In a pair the communication of one half overlaps the computation of the other.
  const auto paired = [&](const PassCosts& figures) {
    const double exposed = std::max(0.0, figures.span_s - figures.compute_s);
    return figures.compute_s + exposed * (slow - 1);
  };
  out.seconds[kPairF] += n * (before + std::max(paired(block.forward), beside));
  out.seconds[kPairB] += n * (gathers + std::max(paired(rebuilt(block.backward)), beside_whole));
  const double back_held_s =
      plan.SplitsBackward() ? block.input.held_s + block.weight.held_s : block.backward.held_s;
  out.held_s += n * (block.forward.held_s + back_held_s + block.again.held_s);
  out.fill_s += n * (block.forward.held_s + block.backward.held_s);
  if (IsLayer(kind)) {
    out.forward_tail_s = std::max(out.forward_tail_s, block.forward.tail_s);
    out.backward_tail_s = std::max(out.backward_tail_s, block.backward.tail_s);
  }
  out.compute_s += n * (block.forward.compute_s + block.backward.compute_s + block.again.compute_s);
}

// Blocks are added in forward order, layers grouped by traits. Seconds do not depend on the order.
// Peaks may differ slightly from the true order of layers.
ClassCosts ChunkCosts::Of(const Plan& plan, const ChunkClass& chunk, const StateCosts& state,
                          const BlockKeys& keys, bool bytes) {
  ClassCosts out;
  ChunkMemory memory(model_, plan);
  const bool shared = HasTiedCopy(model_) && plan.pp == 1;
  const auto add = [&](BlockKind kind, int count, const BlockChoice& choice) {
    const BlockCosts& block = blocks_.Find(plan, choice, keys, bytes);
    AddBlocks(plan, kind, block, count, state, out);
    memory.Add(kind, block, count);
  };
  if (chunk.embedding) {
    add(BlockKind::kEmbedding, 1, {.kind = BlockKind::kEmbedding, .shared_table = shared});
  }
  for (std::size_t traits = 0; traits < kLayerTraitCount; ++traits) {
    if (chunk.layers[traits] == 0) continue;
    const BlockKind kind = KindOf(traits);
    add(kind, chunk.layers[traits],
        {.kind = kind,
         .recompute = (traits & kRecomputes) != 0 ? plan.recompute : RecomputeKind::kNone,
         .global = (traits & kSeesAll) != 0,
         .shared_table = shared});
  }
  if (chunk.head) add(BlockKind::kHead, 1, {.kind = BlockKind::kHead, .shared_table = shared});
  if (times_.blocking_sends()) {
    const double send_s = SendSeconds(plan);
    // Every pass but the weight half sends a boundary tensor.
    for (double& seconds : out.seconds) seconds += send_s;
    out.seconds[kW] -= send_s;
  }
  if (!bytes) return out;
  const ChunkBytes of_chunk = memory.Of(chunk);
  out.saved = of_chunk.saved;
  out.owed = of_chunk.owed;
  out.peak = of_chunk.peak;
  return out;
}

}  // namespace foretrain
