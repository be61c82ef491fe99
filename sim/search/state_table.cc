#include "sim/search/state_table.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "base/checked.h"
#include "sim/program/blocks/block_builder.h"
#include "sim/program/lower/offload_state.h"
#include "sim/program/lower/sharding.h"
#include "sim/program/lower/transfer_blocks.h"
#include "sim/program/precision.h"

namespace foretrain {
namespace {

// Seconds and bytes of one rank's buckets.
class Buckets {
 public:
  Buckets(const LowerContext& context, BlockTimes& times)
      : context_(context), plan_(context.plan), times_(times), sharding_(ShardingOf(plan_)) {}

  StateFigures Figures() {
    StateFigures out;
    out.device = StateBytes(context_, Space::kDevice);
    for (const Space space : {Space::kPinned, Space::kHost}) {
      out.host_bytes += Total(StateBytes(context_, space));
    }
    out.nvme_bytes = Total(StateBytes(context_, Space::kNvme));
    AddUses(out);
    AddStep(out);
    out.away_s = AwaySeconds();
    return out;
  }

 private:
  double SpanOf(const Block& block) { return times_.SpanOf(block, plan_); }

  // Buckets of equal sizes take equal times.
  template <class Make>
  double Once(int what, const Bucket& bucket, const Make& make) {
    const auto [found, is_new] =
        known_.try_emplace({what * kNumberFormatCount + static_cast<int>(bucket.weights),
                            bucket.elements, bucket.used, bucket.shards, bucket.experts});
    if (is_new) found->second = make();
    return found->second;
  }

  double SumSeconds(const Bucket& bucket) {
    return Once(0, bucket, [&] {
      const bool scatters = sharding_.optimizer;
      const GroupKind group = scatters ? ShardGroup(bucket) : SumGroup(bucket);
      const OpKind kind = scatters ? OpKind::kReduceScatter : OpKind::kAllReduce;
      CollectiveSpec spec{kind, "bucket", Queue::kReduce, group, bucket.elements, bucket.shards};
      spec.format = bucket.sums;
      return SpanOf(CollectiveBlock(spec));
    });
  }
  double ReplicaSeconds(const Bucket& bucket) {
    return Once(1, bucket, [&] {
      CollectiveSpec spec{OpKind::kAllReduce, "bucket", Queue::kReduce, GroupKind::kReplica,
                          bucket.elements / bucket.shards};
      spec.format = bucket.sums;
      return SpanOf(CollectiveBlock(spec));
    });
  }
  double UpdatedGatherSeconds(const Bucket& bucket) {
    return Once(2, bucket, [&] {
      return SpanOf(CollectiveBlock(GatherOf(bucket, bucket.weights)));
    });
  }
  double GatherSeconds(const Bucket& bucket) {
    return Once(3, bucket, [&] {
      const NumberFormat format = GatherFormatOf(plan_);
      const NumberFormat used = GatheredFormat(plan_, bucket);
      const CollectiveSpec spec = GatherOf(bucket, used);
      if (format != NumberFormat::kFp32 && bucket.weights != NumberFormat::kByte) {
        return SpanOf(QuantizedGatherBlock(
            {spec.group, spec.elements, spec.shards, format, bucket.weights, used}));
      }
      if (bucket.weights == used) return SpanOf(CollectiveBlock(spec));
      return SpanOf(CastGatherBlock(spec.group, spec.elements, spec.shards, used));
    });
  }
  static CollectiveSpec GatherOf(const Bucket& bucket, NumberFormat format) {
    CollectiveSpec spec{OpKind::kAllGather, "bucket",        Queue::kGather,
                        ShardGroup(bucket), bucket.elements, bucket.shards};
    spec.format = format;
    return spec;
  }
  double CopySeconds(Space from, Space to, std::int64_t elements, bool state,
                     NumberFormat format = NumberFormat::kFp32) {
    return SpanOf(CopyBlock({"copy", from, to, state, {elements}, {format}}));
  }

  // Of one micro-batch's gradients: their sum and, where they leave the device, the slowest of what
  // that takes.
  double ReduceSeconds(const Bucket& bucket) {
    return Once(4, bucket, [&] {
      const bool sums = plan_.DataParallel() > 1 && !IsHeldOnce(plan_, bucket);
      double slowest = sums ? SumSeconds(bucket) : 0;
      if (GradientsAreAway(plan_)) {
        const std::int64_t n = bucket.elements / (sharding_.optimizer ? bucket.shards : 1);
        slowest =
            std::max({slowest, CopySeconds(Space::kDevice, Space::kPinned, n, true, bucket.sums),
                      SpanOf(HostAddBlock(n, bucket.sums))});
      }
      return slowest;
    });
  }

  // Norm, what is not finite, and the update itself where the device does it.
  double UpdateSeconds(const Bucket& bucket, bool away) {
    return Once(away ? 5 : 6, bucket, [&] {
      const bool away_gradients = GradientsAreAway(plan_);
      const ShardRange shard = ShardOf(bucket);
      const std::int64_t elements = shard.end - shard.begin;
      const std::int64_t some = std::max<std::int64_t>(elements, 1);
      double sum = 0;
      if (plan_.clip_norm > 0) sum += SpanOf(SquaredNormBlock({some}, bucket.sums, away_gradients));
      if (plan_.loss_scale > 0) sum += SpanOf(CountNotFiniteBlock({some}, bucket.sums, away_gradients));
      if (plan_.StepsOverlap()) sum += SpanOf(KeepBlock(bucket.elements, bucket.weights));
      if (elements > 0 && !away) sum += SpanOf(OptimizerBlock(plan_, elements, elements));
      return sum;
    });
  }

  // Gathers and sums for each micro-batch; blocks that share a bucket each have a part of it.
  void AddUses(StateFigures& out) {
    const bool copies = sharding_.parameters || ParameterSpace(plan_) != Space::kDevice;
    std::vector<int> sharers(context_.layout.buckets.size(), 0);
    for (const auto& buckets : context_.layout.buckets_of_block) {
      for (const int bucket : buckets) ++sharers[static_cast<std::size_t>(bucket)];
    }
    std::array<int, kBlockKindCount> blocks{};
    for (const int block : context_.stage.blocks) {
      const auto kind = static_cast<std::size_t>(context_.stage.KindOf(block));
      ++blocks[kind];
      std::int64_t gathered = 0, whole = 0;
      for (const int number : context_.BucketsOf(block)) {
        const Bucket& bucket = context_.BucketAt(number);
        const double share = 1.0 / sharers[static_cast<std::size_t>(number)];
        const std::int64_t bytes = BytesIn(GatheredFormat(plan_, bucket), bucket.elements);
        if (GathersParameters(plan_, bucket)) {
          out.gather_s[kind] += GatherSeconds(bucket) * share;
          gathered += bytes + WireBytes(bucket);
        } else if (copies && ParameterSpace(plan_) != Space::kDevice) {
          gathered += bytes;
        }
        if (sharding_.each_micro_batch && !bucket.frozen) {
          out.reduce_s[kind] += ReduceSeconds(bucket) * share;
          if (IsWholeForOne(plan_, bucket)) whole += BytesIn(bucket.sums, bucket.elements);
        }
      }
      out.gathered_bytes = std::max(out.gathered_bytes, gathered);
      out.whole_gradient_bytes = std::max(out.whole_gradient_bytes, whole);
    }
    for (std::size_t kind = 0; kind < kBlockKindCount; ++kind) {
      if (blocks[kind] == 0) continue;
      out.gather_s[kind] /= blocks[kind];
      out.reduce_s[kind] /= blocks[kind];
    }
  }
  std::int64_t WireBytes(const Bucket& bucket) const {
    const NumberFormat format = GatherFormatOf(plan_);
    if (format == NumberFormat::kFp32 || bucket.weights == NumberFormat::kByte) return 0;
    return bucket.shards * BytesIn(format, bucket.elements / bucket.shards);
  }

  // Buckets lie in the order in which a backward completes them; updates go the other way.
  void AddStep(StateFigures& out) {
    int number = 0;
    for (const Bucket& bucket : context_.layout.buckets) {
      const bool away = OffloadOf(context_, number++).away;
      if (bucket.frozen) continue;
      out.update_s += UpdateSeconds(bucket, away);
      if (SharesUpdate(plan_, bucket)) {
        out.first_gather_s = UpdatedGatherSeconds(bucket);
        out.updated_gathers_s += out.first_gather_s;
      }
      if (IsHeldOnce(plan_, bucket)) continue;
      if (SumsReplicas(plan_)) out.update_s += ReplicaSeconds(bucket);
      if (sharding_.each_micro_batch) continue;
      out.last_sum_s = SumSeconds(bucket);
      out.sums_s += out.last_sum_s;
    }
  }

  // Updates of offloaded state are a pipeline of pieces: its slowest queue counts. A delayed one is
  // hidden but for the copies to the device.
  double AwaySeconds() {
    double in = 0, out = 0, update = 0, disk = 0;
    for (int number = 0; number < static_cast<int>(context_.layout.buckets.size()); ++number) {
      const OptimizerOffload offload = OffloadOf(context_, number);
      const Bucket& bucket = context_.BucketAt(number);
      const ShardRange shard = ShardOf(bucket);
      const std::int64_t n = shard.end - shard.begin;
      if (!offload.away || n == 0) continue;
      const Queue queue = offload.stream ? Queue::kCompute : Queue::kCpu;
      update += Once(7, bucket, [&] { return SpanOf(OptimizerBlock(plan_, n, n, queue)); });
      // Moments both ways, or parameters in and gradients out; gradients may lie with the state.
      const bool with_state = GradientsAreAway(plan_);
      const auto words = [n](NumberFormat format) {
        return CeilDiv(BytesIn(format, n), kFloatBytes);
      };
      const std::int64_t sums = words(bucket.sums), weights = words(bucket.weights);
      const std::int64_t to_device = offload.stream ? 2 * n + (with_state ? sums : 0) : weights;
      const std::int64_t from_device = offload.stream ? 2 * n : with_state ? 0 : sums;
      in += Once(8, bucket, [&] {
        return CopySeconds(Space::kPinned, Space::kDevice, to_device, offload.stream);
      });
      if (from_device > 0) {
        out += Once(9, bucket, [&] {
          return CopySeconds(Space::kDevice, Space::kPinned, from_device, true);
        });
      }
      if (offload.moments != Space::kNvme) continue;
      const std::int64_t stored = offload.master == Space::kNvme ? 3 * n : 2 * n;
      disk += Once(10, bucket, [&] {
        return CopySeconds(Space::kNvme, Space::kPinned, stored, true) +
               CopySeconds(Space::kPinned, Space::kNvme, stored, true);
      });
    }
    return plan_.delayed_update ? in : std::max({in, out, update, disk});
  }

  const LowerContext& context_;
  const Plan& plan_;
  BlockTimes& times_;
  Sharding sharding_;
  std::map<std::tuple<int, std::int64_t, std::int64_t, int, bool>, double> known_;
};

// Adds `count` times what `more` has more than `less`; what is not a sum stays.
void AddDifference(const StateFigures& more, const StateFigures& less, int count,
                   StateFigures& out) {
  for (std::size_t c = 0; c < out.device.size(); ++c) {
    out.device[c] += count * (more.device[c] - less.device[c]);
  }
  for (std::int64_t StateFigures::*sum : {&StateFigures::host_bytes, &StateFigures::nvme_bytes}) {
    out.*sum += count * (more.*sum - less.*sum);
  }
  for (double StateFigures::*sum : {&StateFigures::sums_s, &StateFigures::update_s,
                                    &StateFigures::updated_gathers_s, &StateFigures::away_s}) {
    out.*sum += count * (more.*sum - less.*sum);
  }
}

// Whether no two layers of the stage share a bucket.
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

}  // namespace

StateTable::StateTable(const ModelSpec& model, BlockTimes& times, const VaryingFields& varying)
    : model_(model),
      times_(times),
      key_(varying, {"dp", "cp", "pp", "micro_batch", "sequence", "global_batch", "cp_kind",
                     "schedule", "vpp", "stage_layers", "prefetch_depth", "recompute",
                     "recompute_layers", "loss_chunks", "mlp_tiles", "tp_tiles", "moe_pieces",
                     "capacity_factor", "expert_headroom", "fuse", "attention", "dropout",
                     "attention_dropout", "offload_activations"}),
      sizes_key_(varying, {"dp", "cp", "pp", "micro_batch", "sequence", "global_batch", "cp_kind",
                           "schedule", "vpp", "stage_layers", "prefetch_depth", "recompute",
                           "recompute_layers", "loss_chunks", "mlp_tiles", "tp_tiles",
                           "moe_pieces", "zero_stage", "offload_activations",
                           "offload_optimizer"}) {}

const ParameterSizes& StateTable::SizesFor(const Plan& plan) {
  StableHash key = sizes_key_.Of(plan);
  key.Add(plan.DealsExperts()).Add(plan.ExpertsSpanTp());
  const auto [found, is_new] = sizes_.try_emplace(key.Value());
  if (is_new) found->second = SizesOf(model_, plan);
  return found->second;
}

std::uint64_t StateTable::KeyOf(const Plan& plan) {
  StableHash key = key_.Of(plan);
  key.Add(plan.DataParallel()).Add(plan.StageCopies()).Add(plan.ExpertHolders());
  key.Add(plan.pp > 1).Add(plan.StepsOverlap()).Add(plan.UpdatesEachMicroBatch());
  return key.Add(times_.KeyOfDataPlaces(plan)).Value();
}

const StateFigures& StateTable::Find(const Plan& plan, std::uint64_t key, const PipelineForm& pipeline,
                                     int composition) {
  const int pp = pipeline.examples()[static_cast<std::size_t>(composition)];
  Holding holding;
  StableHash chunks;
  for (const int number : pipeline.ranks()[static_cast<std::size_t>(pp)].chunks) {
    const ChunkClass& chunk = pipeline.classes()[static_cast<std::size_t>(number)];
    holding.embedding = holding.embedding || chunk.embedding;
    holding.head = holding.head || chunk.head;
    int dense = 0, experts = 0;
    for (std::size_t traits = 0; traits < kLayerTraitCount; ++traits) {
      ((traits & kHasExperts) != 0 ? experts : dense) += chunk.layers[traits];
    }
    holding.dense += dense;
    holding.experts += experts;
    chunks.Add(chunk.embedding).Add(chunk.head).Add(dense).Add(experts);
  }
  const Whole whole{key, pp};
  StableHash of_rank;
  of_rank.Add(whole.key).Add(holding.embedding).Add(holding.head).Add(holding.dense);
  of_rank.Add(holding.experts);
  if (!AreApart(plan, whole)) of_rank.Add(chunks.Value());
  const auto [found, is_new] = figures_.try_emplace(of_rank.Value());
  if (is_new) found->second = Make(plan, whole, holding);
  return found->second;
}

// By two layers in the middle of the model. What depends on the order of buckets or on the rank's
// place in the pipeline is not put together from layers.
bool StateTable::AreApart(const Plan& plan, const Whole& whole) {
  const auto [found, is_new] = apart_.try_emplace(whole.key);
  if (!is_new) return found->second;
  found->second = false;
  if (plan.StepsOverlap() || plan.unsharded_bytes > 0 || plan.offload_fraction < 1) return false;
  const auto apart = [&](const Holding& holding) {
    const Stage stage = StageWith(plan, holding);
    return LayersAreApart(stage, LayOutSizes(SizesFor(plan), plan, stage, {.pp = whole.pp}));
  };
  const int dense = static_cast<int>(model_.DenseLayers());
  const int experts = static_cast<int>(model_.layers) - dense;
  return found->second = (dense < 2 || apart({false, false, 2, 0})) &&
                         (experts < 2 || apart({false, false, 0, 2}));
}

// A stage with the first layers of each kind.
Stage StateTable::StageWith(const Plan& plan, const Holding& holding) const {
  Stage stage = StageOf(model_, plan, 0);
  stage.blocks.clear();
  if (holding.embedding) stage.blocks.push_back(0);
  const int layers = static_cast<int>(model_.layers);
  const int dense = static_cast<int>(model_.DenseLayers());
  // Beside the head the last ones.
  const bool last = holding.head && !holding.embedding;
  for (int i = 0; i < holding.dense; ++i) {
    stage.blocks.push_back(last ? dense - holding.dense + 1 + i : 1 + i);
  }
  for (int i = 0; i < holding.experts; ++i) {
    stage.blocks.push_back(last ? layers - holding.experts + 1 + i : dense + 1 + i);
  }
  if (holding.head) stage.blocks.push_back(layers + 1);
  stage.chunks.assign(1, Chunk{stage.blocks.front(), stage.blocks.back(), 0});
  stage.shared_table = stage.tied && stage.HoldsEmbedding() && stage.HoldsHead();
  return stage;
}

StateFigures StateTable::Make(const Plan& plan, const Whole& whole, const Holding& holding) {
  if (!AreApart(plan, whole)) return Of(plan, whole, StageOf(model_, plan, whole.pp));
  // One or two layers of each kind, and as many times what the second adds as there are more.
  Holding few = holding;
  few.dense = std::min(holding.dense, 2);
  few.experts = std::min(holding.experts, 2);
  StateFigures out = Small(plan, whole, few);
  if (holding.dense > 2) {
    Holding less = few;
    less.dense = 1;
    AddDifference(Small(plan, whole, few), Small(plan, whole, less), holding.dense - 2, out);
  }
  if (holding.experts > 2) {
    Holding less = few;
    less.experts = 1;
    AddDifference(Small(plan, whole, few), Small(plan, whole, less), holding.experts - 2, out);
  }
  return out;
}

const StateFigures& StateTable::Small(const Plan& plan, const Whole& whole,
                                      const Holding& holding) {
  StableHash key;
  key.Add(whole.key).Add(holding.embedding).Add(holding.head).Add(holding.dense);
  const auto [found, is_new] = small_.try_emplace(key.Add(holding.experts).Value());
  if (is_new) found->second = Of(plan, whole, StageWith(plan, holding));
  return found->second;
}

StateFigures StateTable::Of(const Plan& plan, const Whole& whole, const Stage& stage) {
  const RankCoordinates at{.pp = whole.pp};
  // Gradients of heads that several ranks have are told by their places.
  const BucketLayout layout = model_.kv_heads < plan.tp
                                  ? LayOutBuckets(model_, plan, stage, at)
                                  : LayOutSizes(SizesFor(plan), plan, stage, at);
  const LowerContext context{model_, plan, stage, layout, at};
  return Buckets(context, times_).Figures();
}

}  // namespace foretrain
