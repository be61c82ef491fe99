#include "sim/search/evaluate/bound_table.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/hash.h"
#include "sim/program/ir/precision.h"

namespace foretrain {
namespace {

// True if some plan with these blocks and state is valid. Fields that are in no key get their most
// permissive values, so the answer does not depend on which plan asks first.
bool IsPossible(Plan plan, const ModelSpec& model) {
  plan.schedule = ScheduleKind::k1f1b;
  plan.slots = {};
  plan.vpp = 1;
  return ValidatePlan(plan, model).has_value();
}

void AddChunk(const ChunkClass& chunk, StableHash& key) {
  key.Add(chunk.embedding).Add(chunk.head);
  for (const int layers : chunk.layers) key.Add(layers);
}

// Keeps the minimum of each cost. A minimum per field is below every plan, even if no single plan
// has all of them.
void Keep(const StateCosts& other, StateCosts& least) {
  for (std::size_t c = 0; c < least.device.size(); ++c) {
    least.device[c] = std::min(least.device[c], other.device[c]);
  }
  for (std::int64_t StateCosts::*bytes :
       {&StateCosts::host_bytes, &StateCosts::nvme_bytes, &StateCosts::gathered_bytes,
        &StateCosts::whole_gradient_bytes}) {
    least.*bytes = std::min(least.*bytes, other.*bytes);
  }
  std::vector<std::int64_t>& shared = least.shared_gradient_bytes;
  shared.resize(std::min(shared.size(), other.shared_gradient_bytes.size()));
  for (std::size_t c = 0; c < shared.size(); ++c) {
    shared[c] = std::min(shared[c], other.shared_gradient_bytes[c]);
  }
  for (std::size_t kind = 0; kind < kBlockKindCount; ++kind) {
    least.gather_s[kind] = std::min(least.gather_s[kind], other.gather_s[kind]);
    least.reduce_s[kind] = std::min(least.reduce_s[kind], other.reduce_s[kind]);
  }
}

void Keep(const ClassCosts& other, ClassCosts& least) {
  for (std::size_t pass = 0; pass < kChunkPassCount; ++pass) {
    least.seconds[pass] = std::min(least.seconds[pass], other.seconds[pass]);
    least.peak[pass] = std::min(least.peak[pass], other.peak[pass]);
  }
  least.compute_s = std::min(least.compute_s, other.compute_s);
  least.held_s = std::min(least.held_s, other.held_s);
  least.fill_s = std::min(least.fill_s, other.fill_s);
  // Tails are subtracted from the bound, so their maximum is the safe side.
  least.forward_tail_s = std::max(least.forward_tail_s, other.forward_tail_s);
  least.backward_tail_s = std::max(least.backward_tail_s, other.backward_tail_s);
  least.saved = std::min(least.saved, other.saved);
  least.owed = std::min(least.owed, other.owed);
}

// The same chunk if the plan recomputes all of its layers, or none.
ChunkClass With(const ChunkClass& chunk, bool recomputes) {
  ChunkClass out = chunk;
  for (std::size_t traits = 0; traits < kLayerTraitCount; ++traits) {
    if ((traits & kRecomputes) != 0) continue;
    const int layers = chunk.layers[traits] + chunk.layers[traits | kRecomputes];
    out.layers[traits] = recomputes ? 0 : layers;
    out.layers[traits | kRecomputes] = recomputes ? layers : 0;
  }
  return out;
}

}  // namespace

// The left-out fields change blocks but no state, so they are not enumerated. Combinations with
// equal state keys are evaluated once.
const StateCosts* BoundTable::StateOf(const Plan& plan, const PlanFamily& family,
                                      const PipelineForm& pipeline, int composition) {
  StableHash key;
  key.Add(states_.KeyOf(plan)).Add(family.key);
  const int pp = pipeline.examples()[static_cast<std::size_t>(composition)];
  for (const int number : pipeline.ranks()[static_cast<std::size_t>(pp)].chunks) {
    AddChunk(pipeline.classes()[static_cast<std::size_t>(number)], key);
  }
  if (const auto known = state_costs_.find(key.Value()); known != state_costs_.end()) {
    return &known->second;
  }
  Plan plain = plan;
  const PlanFamily read = Restricted(
      family,
      [](std::string_view field) {
        return field != "tp_tiles" && field != "recompute" && field != "offload_activations";
      },
      plain);
  std::set<std::uint64_t> seen;
  StateCosts least;
  ForEach(read, plain, [&](const Plan& one) {
    const std::uint64_t of_one = states_.KeyOf(one);
    if (seen.contains(of_one) || !IsPossible(one, model_)) return;
    const StateCosts& figures = states_.Find(one, of_one, pipeline, composition);
    if (seen.empty()) least = figures;
    seen.insert(of_one);
    Keep(figures, least);
  });
  if (seen.empty()) return nullptr;
  return &(state_costs_[key.Value()] = least);
}

// Enumerates only fields that blocks read, and keeps one combination per distinct key. Equal keys
// mean equal costs, so the minimum over keys is the minimum over plans.
const BoundTable::Blocks* BoundTable::BlocksOf(const Plan& plan, const PlanFamily& family,
                                               Figures figures) {
  const BlockKeys keys = blocks_.KeysOf(plan);
  StableHash key;
  key.Add(figures);
  key.Add(keys.experts).Add(keys.ends).Add(chunks_.KeyOf(plan)).Add(family.key);
  const auto [found, is_new] = blocks_of_.try_emplace(key.Value());
  Blocks& out = found->second;
  if (!is_new) return &out;
  // Gathered parameters may have another format, and blocks read it. So zero_stage matters then.
  const bool reads_zero = ActivationFormat(plan) != WeightFormat(plan);
  Plan plain = plan;
  const PlanFamily read = Restricted(
      family,
      [&](std::string_view field) {
        const bool adds_time = field == "recompute" || field == "offload_activations";
        return field != "offload_optimizer" && (field != "zero_stage" || reads_zero) &&
               (figures == Figures::kAll || !adds_time);
      },
      plain);
  for (const SearchChoice& choice : read.free) out.fields.push_back(choice.field);
  out.figures = figures;
  out.recompute = plain.recompute;
  out.offload_activations = plain.offload_activations;
  std::set<std::uint64_t> seen;
  StableHash all;
  all.Add(figures);
  ForEach(read, plain, [&](const Plan& one) {
    const BlockKeys of_one = blocks_.KeysOf(one);
    StableHash hash;
    hash.Add(of_one.experts).Add(of_one.ends).Add(chunks_.KeyOf(one));
    if (seen.contains(hash.Value()) || !IsPossible(one, model_)) return;
    seen.insert(hash.Value());
    all.Add(hash.Value());
    out.all.push_back({of_one, {}});
    for (const PlanField* field : out.fields) out.all.back().values.push_back(field->get(one));
  });
  out.key = all.Value();
  if (!out.all.empty()) return &out;
  // Validity also depends on fields outside the key, so a later plan may find combinations.
  blocks_of_.erase(found);
  return nullptr;
}

// Minimum over the family's distinct blocks; independent of state, so states share the entry.
ClassCosts BoundTable::Without(const Plan& plan, const Blocks& blocks, const ChunkClass& chunk) {
  StableHash key;
  key.Add(blocks.key).Add(plan.SplitsBackward());
  AddChunk(With(chunk, false), key);
  const auto [found, is_new] = class_costs_.try_emplace(key.Value());
  if (!is_new) return found->second;
  Plan one = plan;
  const bool bytes = blocks.figures == Figures::kAll;
  if (!bytes) {
    one.recompute = blocks.recompute;
    one.offload_activations = blocks.offload_activations;
  }
  const StateCosts none;
  for (const Blocks::One& some : blocks.all) {
    for (std::size_t f = 0; f < blocks.fields.size(); ++f) {
      blocks.fields[f]->set(one, some.values[f]);
    }
    const ChunkClass its = With(chunk, one.recompute != RecomputeKind::kNone);
    const ClassCosts figures = chunks_.Of(one, its, none, some.keys, bytes);
    if (&some == &blocks.all.front()) found->second = figures;
    Keep(figures, found->second);
  }
  return found->second;
}

// A pass takes at least as long as the gathers and reductions that overlap it. Adding both minima
// would not be a bound where they overlap, so the maximum is taken.
ClassCosts BoundTable::ClassOf(const Plan& plan, const Blocks& blocks, const ChunkClass& chunk,
                               const StateCosts& state) {
  ClassCosts out = Without(plan, blocks, chunk);
  double gathers_s = 0, gathers_back_s = 0, sums_s = 0;
  const auto add = [&](BlockKind kind, int count) {
    const auto at = static_cast<std::size_t>(kind);
    gathers_s += count * state.gather_s[at];
    if (kind != BlockKind::kEmbedding) gathers_back_s += count * state.gather_s[at];
    sums_s += count * state.reduce_s[at];
  };
  if (chunk.embedding) add(BlockKind::kEmbedding, 1);
  if (chunk.head) add(BlockKind::kHead, 1);
  for (std::size_t traits = 0; traits < kLayerTraitCount; ++traits) {
    add(KindOf(traits), chunk.layers[traits]);
  }
  const auto no_less = [&](ChunkPass pass, double seconds) {
    out.seconds[pass] = std::max(out.seconds[pass], seconds);
  };
  for (const ChunkPass pass : {kF, kPairF}) no_less(pass, gathers_s);
  const double back_s = plan.prefetch_depth > 0 ? gathers_back_s + sums_s : gathers_back_s;
  for (const ChunkPass pass : {kB, kPairB}) no_less(pass, back_s);
  no_less(kI, gathers_back_s);
  if (plan.SplitsBackward()) no_less(kW, sums_s);
  return out;
}

}  // namespace foretrain
