#include "sim/search/state_table.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/lower/offload_state.h"
#include "sim/program/lower/sharding.h"
#include "sim/program/lower/transfer_blocks.h"

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
        known_.try_emplace({what, bucket.elements, bucket.used, bucket.shards, bucket.experts});
    if (is_new) found->second = make();
    return found->second;
  }

  double SumSeconds(const Bucket& bucket) {
    return Once(0, bucket, [&] {
      const bool scatters = sharding_.optimizer;
      const GroupKind group = scatters ? ShardGroup(bucket) : SumGroup(bucket);
      const OpKind kind = scatters ? OpKind::kReduceScatter : OpKind::kAllReduce;
      return SpanOf(CollectiveBlock(
          {kind, "bucket", Queue::kReduce, group, bucket.elements, bucket.shards}));
    });
  }
  double ReplicaSeconds(const Bucket& bucket) {
    return Once(1, bucket, [&] {
      return SpanOf(CollectiveBlock({OpKind::kAllReduce, "bucket", Queue::kReduce,
                                     GroupKind::kReplica, bucket.elements / bucket.shards}));
    });
  }
  double UpdatedGatherSeconds(const Bucket& bucket) {
    return Once(2, bucket, [&] {
      return SpanOf(CollectiveBlock({OpKind::kAllGather, "bucket", Queue::kGather,
                                     ShardGroup(bucket), bucket.elements, bucket.shards}));
    });
  }
  double GatherSeconds(const Bucket& bucket) {
    const NumberFormat format = GatherFormatOf(plan_);
    if (format == NumberFormat::kFp32) return UpdatedGatherSeconds(bucket);
    return Once(3, bucket, [&] {
      return SpanOf(
          QuantizedGatherBlock(ShardGroup(bucket), bucket.elements, bucket.shards, format));
    });
  }
  double CopySeconds(Space from, Space to, std::int64_t elements, bool state) {
    return SpanOf(CopyBlock({"copy", from, to, state, {elements}}));
  }

  // Of one micro-batch's gradients: their sum and, where they leave the device, the slowest of what
  // that takes.
  double ReduceSeconds(const Bucket& bucket) {
    return Once(4, bucket, [&] {
      const bool sums = plan_.DataParallel() > 1 && !IsHeldOnce(plan_, bucket);
      double slowest = sums ? SumSeconds(bucket) : 0;
      if (GradientsAreAway(plan_)) {
        const std::int64_t n = bucket.elements / (sharding_.optimizer ? bucket.shards : 1);
        slowest = std::max({slowest, CopySeconds(Space::kDevice, Space::kPinned, n, true),
                            SpanOf(HostAddBlock(n))});
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
      if (plan_.clip_norm > 0) sum += SpanOf(SquaredNormBlock({some}, away_gradients));
      if (plan_.loss_scale > 0) sum += SpanOf(CountNotFiniteBlock({some}, away_gradients));
      if (plan_.StepsOverlap()) sum += SpanOf(KeepBlock(bucket.elements));
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
        const std::int64_t bytes = bucket.elements * kFloatBytes;
        if (GathersParameters(plan_, bucket)) {
          out.gather_s[kind] += GatherSeconds(bucket) * share;
          gathered += bytes + WireBytes(bucket);
        } else if (copies && ParameterSpace(plan_) != Space::kDevice) {
          gathered += bytes;
        }
        if (sharding_.each_micro_batch && !bucket.frozen) {
          out.reduce_s[kind] += ReduceSeconds(bucket) * share;
          if (IsWholeForOne(plan_, bucket)) whole += bytes;
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
    if (format == NumberFormat::kFp32) return 0;
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
      const std::int64_t to_device = offload.stream ? (with_state ? 3 : 2) * n : n;
      const std::int64_t from_device = offload.stream ? 2 * n : with_state ? 0 : n;
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

}  // namespace

StateTable::StateTable(const ModelSpec& model, BlockTimes& times, const VaryingFields& varying)
    : model_(model),
      times_(times),
      key_(varying, {"micro_batch", "sequence", "global_batch", "cp_kind", "schedule", "vpp",
                     "stage_layers", "prefetch_depth", "recompute", "recompute_layers",
                     "loss_chunks", "mlp_tiles", "tp_tiles", "moe_pieces", "capacity_factor",
                     "expert_headroom", "fuse", "offload_activations"}) {}

const StateFigures& StateTable::Find(const Plan& plan, const Pipeline& pipeline, int composition) {
  StableHash key = key_.Of(plan);
  key.Add(plan.StageCopies()).Add(plan.StepsOverlap()).Add(plan.UpdatesEachMicroBatch());
  const int pp = pipeline.examples()[static_cast<std::size_t>(composition)];
  for (const int number : pipeline.ranks()[static_cast<std::size_t>(pp)].chunks) {
    const ChunkClass& chunk = pipeline.classes()[static_cast<std::size_t>(number)];
    key.Add(chunk.embedding).Add(chunk.head);
    for (const bool experts : {false, true}) {
      int layers = 0;
      for (std::size_t traits = 0; traits < kLayerTraitCount; ++traits) {
        if (((traits & kHasExperts) != 0) == experts) layers += chunk.layers[traits];
      }
      key.Add(layers);
    }
  }
  const auto [found, is_new] = figures_.try_emplace(key.Value());
  if (is_new) found->second = Make(plan, pp);
  return found->second;
}

StateFigures StateTable::Make(const Plan& plan, int pp) {
  const Stage stage = StageOf(model_, plan, pp);
  const RankCoordinates at{.pp = pp};
  const BucketLayout layout = LayOutBuckets(model_, plan, stage, at);
  const LowerContext context{model_, plan, stage, layout, at};
  return Buckets(context, times_).Figures();
}

}  // namespace foretrain
