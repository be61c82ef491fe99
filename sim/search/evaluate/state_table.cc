#include "sim/search/evaluate/state_table.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <type_traits>

#include "sim/search/evaluate/state_costs.h"

namespace foretrain {
namespace {

// Adds `count` times the difference of `more` and `less` to every cost that is a sum over layers.
// Maxima and means stay as they are.
void AddDifference(const StateCosts& more, const StateCosts& less, int count, StateCosts& out) {
  for (std::size_t c = 0; c < out.device.size(); ++c) {
    out.device[c] += count * (more.device[c] - less.device[c]);
  }
  for (std::int64_t StateCosts::*sum : {&StateCosts::host_bytes, &StateCosts::nvme_bytes}) {
    out.*sum += count * (more.*sum - less.*sum);
  }
}
void AddDifference(const UpdateCosts& more, const UpdateCosts& less, int count, UpdateCosts& out) {
  for (double UpdateCosts::*sum : {&UpdateCosts::sums_s, &UpdateCosts::update_s,
                                   &UpdateCosts::updated_gathers_s, &UpdateCosts::offload_s}) {
    out.*sum += count * (more.*sum - less.*sum);
  }
}

// True if no two layers of the stage share a bucket.
bool LayersAreApart(const Stage& stage, const BucketLayout& layout) {
  std::set<int> taken;
  for (const int block : stage.blocks) {
    if (!IsLayer(stage.KindOf(block))) continue;
    for (const int bucket : layout.buckets_of_block[stage.Local(block)]) {
      if (!taken.insert(bucket).second) return false;
    }
  }
  return true;
}

// Fields that no state depends on, but for what KeyBy adds of them.
constexpr std::string_view kNotOfState =
    "dp cp pp rank_order micro_batch sequence global_batch cp_kind schedule schedule_slots vpp "
    "stage_layers "
    "prefetch_depth recompute recompute_modules recompute_layers recompute_every loss_chunks "
    "mlp_tiles tp_tiles moe_pieces capacity_factor "
    "expert_headroom fuse attention dropout attention_dropout offload_activations";

// Fields that the sizes of parameters do not depend on, but for what SizesFor adds of them.
constexpr std::string_view kNotOfSizes =
    "dp cp pp rank_order micro_batch sequence global_batch cp_kind schedule schedule_slots vpp "
    "stage_layers "
    "prefetch_depth recompute recompute_modules recompute_layers recompute_every loss_chunks "
    "mlp_tiles tp_tiles moe_pieces zero_stage "
    "offload_activations offload_optimizer";

}  // namespace

StateTable::StateTable(const ModelSpec& model, BlockTimes& times, const VaryingFields& varying)
    : model_(model),
      times_(times),
      key_(Without(varying, kNotOfState)),
      layers_key_(Without(Without(varying, kNotOfState), "vocab_parallel")),
      sizes_key_(Without(varying, kNotOfSizes)) {}

const ParameterSizes& StateTable::SizesFor(const Plan& plan) {
  StableHash key = sizes_key_.Of(plan);
  key.Add(plan.DealsExperts()).Add(plan.ExpertsSpanTp());
  const auto [found, is_new] = sizes_.try_emplace(key.Value());
  if (is_new) found->second = SizesOf(model_, plan);
  return found->second;
}

std::uint64_t StateTable::KeyOf(const Plan& plan) { return KeyBy(key_, plan); }

// The sizes of groups replace the fields dp, cp and pp: state reads nothing else of them. Places of
// the data-parallel groups decide the time of collectives.
std::uint64_t StateTable::KeyBy(const PlanKey& fields, const Plan& plan) {
  StableHash key = fields.Of(plan);
  key.Add(plan.DataParallel()).Add(plan.StageCopies()).Add(plan.ExpertHolders());
  key.Add(plan.pp > 1).Add(plan.StepsOverlap()).Add(plan.UpdatesEachMicroBatch());
  return key.Add(times_.KeyOfDataPlaces(plan)).Value();
}

// Equal blocks mean equal state if layers are apart. If not, buckets depend on how blocks are split
// into chunks, so the chunks enter the key too.
template <class Costs>
Costs& StateTable::FindIn(Memo<Costs>& memo, const Plan& plan, std::uint64_t key,
                          const PipelineForm& pipeline, int composition) {
  const int pp = pipeline.examples()[static_cast<std::size_t>(composition)];
  Holding holding;
  StableHash chunks;
  for (const int number : pipeline.ranks()[static_cast<std::size_t>(pp)].chunks) {
    const ChunkClass& chunk = pipeline.classes()[static_cast<std::size_t>(number)];
    holding.embedding = holding.embedding || chunk.embedding;
    holding.head = holding.head || chunk.head;
    int dense = 0, experts = 0;
    for (std::size_t traits = 0; traits < kLayerTraitCount; ++traits) {
      (KindOf(traits) == BlockKind::kExpertLayer ? experts : dense) += chunk.layers[traits];
    }
    holding.dense += dense;
    holding.experts += experts;
    chunks.Add(chunk.embedding).Add(chunk.head).Add(dense).Add(experts);
  }
  const Whole whole{key, pp};
  StableHash of_rank;
  of_rank.Add(whole.key).Add(holding.embedding).Add(holding.head).Add(holding.dense);
  of_rank.Add(holding.experts);
  // Layers of both kinds that take turns begin with another kind on another rank, and ranks hold
  // layers of one stack or of both.
  const bool unlike = model_.expert_every > 1 || model_.HasEncoder();
  if (!AreApart(plan, whole)) of_rank.Add(chunks.Value()).Add(unlike ? pp : 0);
  const auto [found, is_new] = memo.whole.try_emplace(of_rank.Value());
  if (is_new) found->second = Make(memo, plan, whole, holding);
  return found->second;
}
template StateCosts& StateTable::FindIn(Memo<StateCosts>&, const Plan&, std::uint64_t,
                                        const PipelineForm&, int);

const UpdateCosts& StateTable::FindUpdate(const Plan& plan, std::uint64_t key,
                                          const PipelineForm& pipeline, int composition) {
  UpdateCosts& costs = FindIn(updates_, plan, key, pipeline, composition);
  if (costs.number == 0) costs.number = updates_.whole.size();
  return costs;
}

// Kept apart from UpdateCosts, which plans with another number of stages share.
StateTable::OverStages StateTable::SecondsOverStages(const Plan& plan, const UpdateCosts& costs) {
  const std::uint64_t key = StableHash().Add(times_.KeyOfPlan(plan)).Add(costs.number).Value();
  const auto [found, is_new] = over_stages_.try_emplace(key);
  if (!is_new) return found->second;
  for (const Block& sum : costs.sums_over_stages) {
    found->second.sums_s += times_.SpanOf(sum, plan);
  }
  for (const Block& scalar : costs.scalars_over_stages) {
    found->second.update_s += times_.SpanOf(scalar, plan);
  }
  return found->second;
}

// Checks two layers in the middle of the model; others are alike. False if costs depend on the
// order of buckets or on the rank's place in the pipeline: then whole stages are evaluated.
bool StateTable::AreApart(const Plan& plan, const Whole& whole) {
  const auto [found, is_new] = apart_.try_emplace(whole.key);
  if (!is_new) return found->second;
  found->second = false;
  if (plan.StepsOverlap() || plan.unsharded_bytes > 0 || plan.offload_fraction < 1) return false;
  const auto apart = [&](const Holding& holding) {
    const Stage stage = StageWith(plan, holding);
    return LayersAreApart(stage, LayOutSizes(SizesFor(plan), plan, stage, {.pp = whole.pp}));
  };
  // Holding counts layers with and without experts, not those of two stacks.
  if (model_.HasEncoder()) return false;
  const int dense = static_cast<int>(model_.DenseLayers());
  const int experts = static_cast<int>(model_.layers) - dense;
  return found->second = (dense < 2 || apart({false, false, 2, 0})) &&
                         (experts < 2 || apart({false, false, 0, 2}));
}

// A stage with the given numbers of blocks: the first layers of each kind or, with the head, the
// last ones.
Stage StateTable::StageWith(const Plan& plan, const Holding& holding) const {
  Stage stage = StageOf(model_, plan, 0);
  stage.blocks.clear();
  if (holding.embedding) stage.blocks.push_back(0);
  const int layers = static_cast<int>(model_.layers);
  // With the head but not the embedding, the last layers.
  const bool last = holding.head && !holding.embedding;
  int dense = holding.dense, experts = holding.experts;
  for (int i = 1; i <= layers && dense + experts > 0; ++i) {
    const int block = last ? layers + 1 - i : i;
    int& wanted = stage.KindOf(block) == BlockKind::kExpertLayer ? experts : dense;
    if (wanted == 0) continue;
    stage.blocks.push_back(block);
    --wanted;
  }
  std::sort(stage.blocks.begin(), stage.blocks.end());
  if (holding.head) stage.blocks.push_back(layers + 1);
  stage.chunks.assign(1, Chunk{stage.blocks.front(), stage.blocks.back(), 0});
  // A pipeline's rank with both ends has them in two chunks, which may share the token table.
  if (plan.pp > 1 && holding.embedding && holding.head) {
    const int back = plan.StageCopies() > 1 ? 1 : 0;
    stage.chunks = {Chunk{0, layers, 0}, Chunk{layers + 1, layers + 1, back}};
  }
  stage.shared_table = stage.tied && stage.HoldsEmbedding() && stage.HoldsHead();
  return stage;
}

// State of a few layers tells that of many: costs are linear in the layers of a kind if no two
// share a bucket. So a search works out stages of at most two layers of each kind, whatever their
// length.
template <class Costs>
Costs StateTable::Make(Memo<Costs>& memo, const Plan& plan, const Whole& whole,
                       const Holding& holding) {
  if (!AreApart(plan, whole)) return Of<Costs>(plan, whole, StageOf(model_, plan, whole.pp));
  // Stages of two layers of a kind, plus the cost of the second layer for each further one.
  Holding few = holding;
  few.dense = std::min(holding.dense, 2);
  few.experts = std::min(holding.experts, 2);
  Costs out = Small(memo, plan, whole, few);
  if (holding.dense > 2) {
    Holding less = few;
    less.dense = 1;
    AddDifference(Small(memo, plan, whole, few), Small(memo, plan, whole, less), holding.dense - 2,
                  out);
  }
  if (holding.experts > 2) {
    Holding less = few;
    less.experts = 1;
    AddDifference(Small(memo, plan, whole, few), Small(memo, plan, whole, less),
                  holding.experts - 2, out);
  }
  return out;
}

template <class Costs>
const Costs& StateTable::Small(Memo<Costs>& memo, const Plan& plan, const Whole& whole,
                               const Holding& holding) {
  // Layers have no part of the vocabulary, so all values of vocab_parallel share their entry.
  const bool ends = holding.embedding || holding.head;
  StableHash key;
  key.Add(ends ? whole.key : KeyBy(layers_key_, plan));
  key.Add(holding.embedding).Add(holding.head).Add(holding.dense);
  const auto [found, is_new] = memo.small.try_emplace(key.Add(holding.experts).Value());
  if (is_new) found->second = Of<Costs>(plan, whole, StageWith(plan, holding));
  return found->second;
}

template <class Costs>
Costs StateTable::Of(const Plan& plan, const Whole& whole, const Stage& stage) {
  const RankCoordinates at{.pp = whole.pp};
  // Ranges of shared key and value heads need the places of tensors, so sizes are not enough then.
  const BucketLayout layout = model_.kv_heads < plan.tp
                                  ? LayOutBuckets(model_, plan, stage, at)
                                  : LayOutSizes(SizesFor(plan), plan, stage, at);
  const LowerContext context{model_, plan, stage, layout, at};
  if constexpr (std::is_same_v<Costs, StateCosts>) {
    return StateCostsOf(context, times_);
  } else {
    return UpdateCostsOf(context, times_);
  }
}

}  // namespace foretrain
