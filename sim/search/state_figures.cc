#include "sim/search/state_figures.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "base/checked.h"
#include "sim/program/blocks/block_builder.h"
#include "sim/program/lower/gradients_away.h"
#include "sim/program/lower/head_gradients.h"
#include "sim/program/lower/offload_state.h"
#include "sim/program/lower/own_row_gradients.h"
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
    AddShared(out);
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
    return Once(2, bucket,
                [&] { return SpanOf(CollectiveBlock(GatherOf(bucket, bucket.weights))); });
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
      double slowest = IsHeldOnce(plan_, bucket) ? 0 : SumSeconds(bucket);
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
      if (plan_.loss_scale > 0)
        sum += SpanOf(CountNotFiniteBlock({some}, bucket.sums, away_gradients));
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
      std::int64_t gathered = 0;
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
        }
      }
      out.gathered_bytes = std::max(out.gathered_bytes, gathered);
    }
    out.whole_gradient_bytes = MostWholeGradients();
    for (std::size_t kind = 0; kind < kBlockKindCount; ++kind) {
      if (blocks[kind] == 0) continue;
      out.gather_s[kind] /= blocks[kind];
      out.reduce_s[kind] /= blocks[kind];
    }
  }
  // A backward makes a bucket's gradients at the last block that shares it and is done with them at
  // the first, so that those of a table that embedding and head share lie beside each layer's.
  std::int64_t MostWholeGradients() const {
    if (!sharding_.each_micro_batch) return 0;
    std::set<int> made;
    std::int64_t now = 0, most = 0;
    const std::vector<std::vector<int>>& of_block = context_.layout.buckets_of_block;
    std::vector<int> blocks_left(context_.layout.buckets.size(), 0);
    for (const auto& buckets : of_block) {
      for (const int number : buckets) ++blocks_left[static_cast<std::size_t>(number)];
    }
    for (auto buckets = of_block.rbegin(); buckets != of_block.rend(); ++buckets) {
      const auto bytes = [&](int number) {
        const Bucket& bucket = context_.BucketAt(number);
        const bool counts = !bucket.frozen && IsWholeForOne(plan_, bucket);
        return counts && shared_.count(number) == 0 ? BytesIn(bucket.sums, bucket.elements) : 0;
      };
      for (const int number : *buckets) {
        if (made.insert(number).second) now += bytes(number);
      }
      most = std::max(most, now);
      for (const int number : *buckets) {
        if (--blocks_left[static_cast<std::size_t>(number)] == 0) now -= bytes(number);
      }
    }
    return most;
  }
  void AddShared(StateFigures& out) {
    if (!sharding_.each_micro_batch) return;
    const std::vector<Chunk>& chunks = context_.stage.chunks;
    for (std::size_t c = 0; c + 1 < chunks.size(); ++c) {
      out.shared_gradient_bytes.push_back(0);
      // What goes the other way through the rank comes by one of its chunks alone.
      if (chunks[c].direction != chunks[c + 1].direction) continue;
      std::set<int> before, across;
      for (const int block : context_.stage.blocks) {
        for (const int number : context_.BucketsOf(block)) {
          if (block <= chunks[c].last_block) {
            before.insert(number);
          } else if (before.count(number) > 0) {
            across.insert(number);
          }
        }
      }
      for (const int number : across) {
        const Bucket& bucket = context_.BucketAt(number);
        if (bucket.frozen || !IsWholeForOne(plan_, bucket)) continue;
        shared_.insert(number);
        out.shared_gradient_bytes.back() += BytesIn(bucket.sums, bucket.elements);
      }
    }
  }
  std::int64_t WireBytes(const Bucket& bucket) const {
    const NumberFormat format = GatherFormatOf(plan_);
    if (format == NumberFormat::kFp32 || bucket.weights == NumberFormat::kByte) return 0;
    return bucket.shards * BytesIn(format, bucket.elements / bucket.shards);
  }

  // Over tensor-parallel ranks: of gradients that each makes of its own rows, and of heads that
  // several have.
  double TensorSumSeconds(int number) {
    const Bucket& bucket = context_.BucketAt(number);
    double sum = 0;
    const ShardRange rows = OwnRowGradients(context_, number);
    if (rows.end > rows.begin) {
      CollectiveSpec spec{OpKind::kAllReduce, "bucket", Queue::kTp, GroupKind::kTp,
                          rows.end - rows.begin};
      spec.op_class = OpClass::kTpComm;
      spec.format = bucket.sums;
      sum += SpanOf(CollectiveBlock(spec));
    }
    if (context_.model.kv_heads >= plan_.tp) return sum;
    std::vector<std::int64_t> elements;
    for (const ShardRange& range : HeadGradients(context_, number)) {
      elements.push_back(range.end - range.begin);
    }
    if (elements.empty()) return sum;
    return sum + SpanOf(HeadSumBlock(elements, bucket.sums, GradientsAreAway(plan_)));
  }

  // Of one router whose biases follow its loads.
  double RouterSeconds() {
    const std::int64_t experts = context_.model.experts;
    const auto sum_over = [&](Queue queue, GroupKind group, OpClass op_class) {
      CollectiveSpec spec{OpKind::kAllReduce, "reduce.loads", queue, group, experts};
      spec.op_class = op_class;
      return SpanOf(CollectiveBlock(spec));
    };
    double sum = SpanOf(BalanceBiasBlock(experts, context_.model.router_bias_rate));
    if (plan_.DataParallel() > 1) sum += sum_over(Queue::kReduce, GroupKind::kDp, OpClass::kDpComm);
    if (plan_.ExpertsSpanTp()) sum += sum_over(Queue::kTp, GroupKind::kTp, OpClass::kTpComm);
    return sum;
  }

  // What is done once, whatever the buckets.
  void AddScalars(StateFigures& out) {
    if (plan_.HasDynamicScale()) out.update_s += SpanOf(ScaleLossBlock(plan_));
    if (context_.model.router_bias_rate == 0) return;
    std::int64_t routers = context_.stage.HoldsHead() ? context_.model.predict_ahead : 0;
    for (const int block : context_.stage.blocks) {
      routers += context_.stage.KindOf(block) == BlockKind::kExpertLayer ? 1 : 0;
    }
    if (routers > 0) out.update_s += static_cast<double>(routers) * RouterSeconds();
  }

  // Buckets lie in the order in which a backward completes them; updates go the other way.
  void AddStep(StateFigures& out) {
    AddScalars(out);
    for (int number = 0; number < static_cast<int>(context_.layout.buckets.size()); ++number) {
      const Bucket& bucket = context_.BucketAt(number);
      const bool away = OffloadOf(context_, number).away;
      if (bucket.frozen) continue;
      out.update_s += UpdateSeconds(bucket, away) + TensorSumSeconds(number);
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
        out += Once(9, bucket,
                    [&] { return CopySeconds(Space::kDevice, Space::kPinned, from_device, true); });
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
  std::set<int> shared_;  // buckets of several chunks
  std::map<std::tuple<int, std::int64_t, std::int64_t, int, bool>, double> known_;
};

}  // namespace

StateFigures FiguresOf(const LowerContext& context, BlockTimes& times) {
  return Buckets(context, times).Figures();
}

}  // namespace foretrain
