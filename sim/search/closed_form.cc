#include "sim/search/closed_form.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/checked.h"
#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/lower/offload_state.h"
#include "sim/program/lower/recompute.h"
#include "sim/program/lower/sharding.h"
#include "sim/program/lower/stage.h"
#include "sim/program/lower/transfer_blocks.h"
#include "sim/program/precision.h"
#include "sim/program/schedules/placement.h"
#include "sim/program/schedules/schedule.h"

namespace foretrain {
namespace {

struct BlockTime {
  double span_s = 0;     // from first start to last end
  double compute_s = 0;  // on the compute queue
};

// The tensor that a slot is, or is part of.
std::size_t BaseOf(const Block& block, std::int16_t slot) {
  const std::int16_t base = block.slots[static_cast<std::size_t>(slot)].base;
  return static_cast<std::size_t>(base == kNoSlot ? slot : base);
}

// Each op starts when its queue is free and the tensors it reads are written. No block is shorter
// than its ops take to be issued.
BlockTime TimeOf(const Block& block, const OpSeconds& seconds, double host_op_s) {
  std::array<double, kQueueCount> free{};
  std::vector<double> written(block.slots.size(), 0.0);
  BlockTime out;
  out.span_s = host_op_s * static_cast<double>(block.ops.size());
  for (const Op& op : block.ops) {
    double start = free[static_cast<std::size_t>(op.queue)];
    for (const Operand& operand : OperandsOf(block, op)) {
      if (operand.slot == kNoSlot) continue;
      start = std::max(start, written[BaseOf(block, operand.slot)]);
    }
    const double length = seconds(op);
    const double end = start + length;
    free[static_cast<std::size_t>(op.queue)] = end;
    for (const Operand& operand : OperandsOf(block, op)) {
      if (operand.slot == kNoSlot || operand.access == Access::kRead) continue;
      double& at = written[BaseOf(block, operand.slot)];
      at = std::max(at, end);
    }
    if (op.queue == Queue::kCompute) out.compute_s += length;
    out.span_s = std::max(out.span_s, end);
  }
  return out;
}

// One stage: seconds of one micro-batch through all its blocks, and what follows the last one.
struct StageTime {
  BlockTime forward, backward, input, weight;
  double after_s = 0;  // gradient sums that stay exposed, norm, optimizer
};

// What runs beside the part slows it down while both last.
void Add(BlockTime& sum, const BlockTime& part, double beside = 0, double slowdown = 1) {
  const double both = std::min(part.span_s, beside);
  sum.span_s += std::max(part.span_s + (slowdown - 1) * both, beside);
  sum.compute_s += part.compute_s;
}

class Estimator {
 public:
  Estimator(const ModelSpec& model, const Plan& plan, const OpSeconds& seconds,
            const SystemHabits& habits)
      : model_(model),
        plan_(plan),
        seconds_(seconds),
        habits_(habits),
        sharding_(ShardingOf(plan)) {}

  StageTime Stage(int pp) {
    const foretrain::Stage stage = StageOf(model_, plan_, pp);
    const BucketLayout layout = LayOutBuckets(model_, plan_, stage, {.pp = pp});
    const BlockContext context{model_, plan_, stage.shared_table};
    StageTime out;
    for (const int block : stage.blocks) {
      double gather = sharding_.parameters ? GatherSeconds(layout, stage.Local(block)) : 0.0;
      double reduce = MicroBatchSeconds(layout, stage.Local(block));
      BlockRequest request;
      request.kind = stage.KindOf(block);
      request.recompute = RecomputeOf(plan_, stage, block);
      request.global = IsLayer(request.kind) && IsGlobal(model_, plan_, block);
      if (request.kind == BlockKind::kLayer) {
        // Copies hide behind one block, like gathers.
        gather = std::max(gather, KeptSeconds(context, request.recompute));
        reduce = std::max(reduce, KeptSeconds(context, request.recompute));
      }
      AddBlock(context, request, gather, reduce, out);
    }
    // A micro-batch passes the blocks of one direction alone.
    const double share = 1.0 / Placement(plan_).directions();
    for (BlockTime* time : {&out.forward, &out.backward, &out.input, &out.weight}) {
      time->span_s *= share;
      time->compute_s *= share;
    }
    const LowerContext lower{model_, plan_, stage, layout, {.pp = pp}};
    out.after_s = std::max(After(lower, out.backward.span_s), AwaySeconds(lower));
    return out;
  }

 private:
  void AddBlock(const BlockContext& c, const BlockRequest& of, double gather, double reduce,
                StageTime& out) {
    // Of a middle micro-batch: it adds to what the ones before it left.
    const auto time = [&](Pass pass) {
      BlockRequest request = of;
      request.pass = pass;
      const bool adds = pass != Pass::kRecompute;
      request.accumulate = request.adds_loss = request.accumulate_experts = adds;
      return TimeOf(BuildBlock(c, request), seconds_, habits_.op_s);
    };
    const bool split = SplitsBackward(plan_.schedule);
    const double slowdown = habits_.overlap_slowdown;
    // Gathers run beside other blocks, or before their own where nothing is issued ahead.
    const double beside = plan_.prefetch_depth > 0 ? gather : 0.0;
    const BlockTime before{gather - beside, 0};
    Add(out.forward, before);
    Add(out.forward, time(Pass::kForward), beside, slowdown);
    if (of.kind == BlockKind::kEmbedding) {
      if (!HasPass(plan_, of.kind, Pass::kBackward)) return;
      Add(out.backward, time(Pass::kBackward), reduce, slowdown);
      if (split) Add(out.weight, time(Pass::kBackwardWeight), reduce, slowdown);
      return;
    }
    if (of.recompute == RecomputeKind::kFull) {
      const BlockTime again = time(Pass::kRecompute);
      Add(out.backward, again);
      if (split) Add(out.input, again);
    }
    Add(out.backward, before);
    Add(out.backward, time(Pass::kBackward), std::max(beside, reduce), slowdown);
    if (!split) return;
    Add(out.input, before);
    Add(out.input, time(Pass::kBackwardInput), beside, slowdown);
    if (HasPass(plan_, of.kind, Pass::kBackwardWeight)) {
      Add(out.weight, time(Pass::kBackwardWeight), reduce, slowdown);
    }
  }

  double SumSeconds(const Bucket& bucket) const {
    const bool scatters = sharding_.optimizer;
    const GroupKind group = scatters ? ShardGroup(bucket) : SumGroup(bucket);
    CollectiveSpec spec{scatters ? OpKind::kReduceScatter : OpKind::kAllReduce,
                        "bucket",
                        Queue::kReduce,
                        group,
                        bucket.elements,
                        bucket.shards};
    spec.format = bucket.sums;
    return TimeOf(CollectiveBlock(spec), seconds_, habits_.op_s).span_s;
  }
  double ReplicaSeconds(const Bucket& bucket) const {
    CollectiveSpec spec{OpKind::kAllReduce, "bucket", Queue::kReduce, GroupKind::kReplica,
                        bucket.elements / bucket.shards};
    spec.format = bucket.sums;
    return TimeOf(CollectiveBlock(spec), seconds_, habits_.op_s).span_s;
  }
  double GatherSeconds(const Bucket& bucket) const {
    const NumberFormat format = GatherFormatOf(plan_), used = UsedFormat(plan_, /*gathered=*/true);
    CollectiveSpec spec{OpKind::kAllGather, "bucket",        Queue::kGather,
                        ShardGroup(bucket), bucket.elements, bucket.shards};
    spec.format = used;
    const Block block = format != NumberFormat::kFp32
                            ? QuantizedGatherBlock({spec.group, spec.elements, spec.shards, format,
                                                    bucket.weights, used})
                        : bucket.weights != used
                            ? CastGatherBlock(spec.group, spec.elements, spec.shards, used)
                            : CollectiveBlock(spec);
    return TimeOf(block, seconds_, habits_.op_s).span_s;
  }
  // Blocks that share a bucket: each has its part of the time.
  static double BlocksOf(const BucketLayout& layout, int bucket) {
    const auto shares = [bucket](const std::vector<int>& buckets) {
      return std::find(buckets.begin(), buckets.end(), bucket) != buckets.end();
    };
    return static_cast<double>(
        std::count_if(layout.buckets_of_block.begin(), layout.buckets_of_block.end(), shares));
  }
  double GatherSeconds(const BucketLayout& layout, std::size_t block) const {
    double sum = 0;
    for (const int bucket : layout.buckets_of_block[block]) {
      const Bucket& gathered = layout.buckets[static_cast<std::size_t>(bucket)];
      if (!GathersParameters(plan_, gathered)) continue;
      sum += GatherSeconds(gathered) / BlocksOf(layout, bucket);
    }
    return sum;
  }
  // Sums of one micro-batch's gradients and, where they leave the device, the slowest of what that
  // takes.
  double MicroBatchSeconds(const BucketLayout& layout, std::size_t block) const {
    if (!sharding_.each_micro_batch) return 0;
    double sum = 0;
    for (const int number : layout.buckets_of_block[block]) {
      if (layout.buckets[static_cast<std::size_t>(number)].frozen) continue;
      const Bucket& bucket = layout.buckets[static_cast<std::size_t>(number)];
      const bool sums = plan_.DataParallel() > 1 && !IsHeldOnce(plan_, bucket);
      double slowest = sums ? SumSeconds(bucket) : 0;
      if (GradientsAreAway(plan_)) {
        const std::int64_t n = bucket.elements / (sharding_.optimizer ? bucket.shards : 1);
        slowest =
            std::max({slowest, CopySeconds(Space::kDevice, Space::kPinned, n, true, bucket.sums),
                      TimeOf(HostAddBlock(n, bucket.sums), seconds_, habits_.op_s).span_s});
      }
      sum += slowest / BlocksOf(layout, number);
    }
    return sum;
  }

  // Sums run beside the last micro-batch's backward; the last bucket's begins when that ends.
  double After(const LowerContext& context, double last_backward_s) const {
    double sums = 0, last = 0, update = 0, replicas = 0;
    const bool away_gradients = GradientsAreAway(plan_);
    int number = 0;
    for (const Bucket& bucket : context.layout.buckets) {
      const bool away = OffloadOf(context, number++).away;
      if (bucket.frozen) continue;
      const ShardRange shard = ShardOf(bucket);
      const std::int64_t elements = shard.end - shard.begin;
      if (plan_.clip_norm > 0)
        update += TimeOf(SquaredNormBlock({std::max<std::int64_t>(elements, 1)}, bucket.sums,
                                          away_gradients),
                         seconds_, habits_.op_s)
                      .span_s;
      if (plan_.loss_scale > 0)
        update += TimeOf(CountNotFiniteBlock({std::max<std::int64_t>(elements, 1)}, bucket.sums,
                                             away_gradients),
                         seconds_, habits_.op_s)
                      .span_s;
      if (plan_.StepsOverlap()) {
        update += TimeOf(KeepBlock(bucket.elements, bucket.weights), seconds_, habits_.op_s).span_s;
      }
      if (elements > 0 && !away)
        update += TimeOf(OptimizerBlock(plan_, elements, elements), seconds_, habits_.op_s).span_s;
      if (IsHeldOnce(plan_, bucket)) continue;
      if (SumsReplicas(plan_)) replicas += ReplicaSeconds(bucket);
      if (sharding_.each_micro_batch) continue;
      last = SumSeconds(bucket);
      sums += last;
    }
    return std::max(last, sums - last_backward_s) + replicas + update;
  }

  double CopySeconds(Space from, Space to, std::int64_t elements, bool state,
                     NumberFormat format = NumberFormat::kFp32) const {
    return TimeOf(CopyBlock({"copy", from, to, state, {elements}, {format}}), seconds_,
                  habits_.op_s)
        .span_s;
  }

  // The slowest hop of what one layer keeps for its backward.
  double KeptSeconds(const BlockContext& c, RecomputeKind recompute) const {
    if (plan_.offload_activations == OffloadTarget::kNone) return 0;
    std::int64_t bytes = 0;
    const Block forward = BuildBlock(c, {.pass = Pass::kForward, .recompute = recompute});
    for (const TensorSlot& slot : forward.slots) {
      const bool kept = slot.role == SlotRole::kInput || slot.role == SlotRole::kSaved;
      if (kept) bytes += slot.bytes;
    }
    const std::int64_t words = CeilDiv(bytes, kFloatBytes);
    double slowest = CopySeconds(Space::kDevice, Space::kPinned, words, false);
    if (plan_.offload_activations == OffloadTarget::kNvme) {
      slowest = std::max({slowest, CopySeconds(Space::kPinned, Space::kNvme, words, false),
                          CopySeconds(Space::kNvme, Space::kPinned, words, false)});
    }
    return slowest;
  }

  // Updates of offloaded state are a pipeline of pieces: its slowest queue counts. A delayed one is
  // hidden but for the copies to the device.
  double AwaySeconds(const LowerContext& context) const {
    double in = 0, out = 0, update = 0, disk = 0;
    for (int bucket = 0; bucket < static_cast<int>(context.layout.buckets.size()); ++bucket) {
      const OptimizerOffload offload = OffloadOf(context, bucket);
      const ShardRange shard = ShardOf(context.BucketAt(bucket));
      const std::int64_t n = shard.end - shard.begin;
      if (!offload.away || n == 0) continue;
      const Queue queue = offload.stream ? Queue::kCompute : Queue::kCpu;
      update += TimeOf(OptimizerBlock(plan_, n, n, queue), seconds_, habits_.op_s).span_s;
      // Moments both ways, or parameters in and gradients out; gradients may lie with the state.
      const bool with_state = GradientsAreAway(plan_);
      const auto words = [n](NumberFormat format) {
        return CeilDiv(BytesIn(format, n), kFloatBytes);
      };
      const Bucket& moved = context.BucketAt(bucket);
      const std::int64_t sums = words(moved.sums), weights = words(moved.weights);
      const std::int64_t to_device = offload.stream ? 2 * n + (with_state ? sums : 0) : weights;
      const std::int64_t from_device = offload.stream ? 2 * n : with_state ? 0 : sums;
      in += CopySeconds(Space::kPinned, Space::kDevice, to_device, offload.stream);
      if (from_device > 0) out += CopySeconds(Space::kDevice, Space::kPinned, from_device, true);
      if (offload.moments != Space::kNvme) continue;
      const std::int64_t stored = offload.master == Space::kNvme ? 3 * n : 2 * n;
      disk += CopySeconds(Space::kNvme, Space::kPinned, stored, true) +
              CopySeconds(Space::kPinned, Space::kNvme, stored, true);
    }
    return plan_.delayed_update ? in : std::max({in, out, update, disk});
  }

  const ModelSpec& model_;
  const Plan& plan_;
  const OpSeconds& seconds_;
  SystemHabits habits_;
  Sharding sharding_;
};

double SendSeconds(const ModelSpec& model, const Plan& plan, const OpSeconds& seconds,
                   const SystemHabits& habits) {
  if (plan.pp == 1) return 0;
  const NumberFormat format = ActivationFormat(plan);
  const std::int64_t elements = BoundaryElements(model, plan);
  if (habits.scatter_gather && plan.tp > 1 && !plan.sequence_parallel) {
    CollectiveSpec spec{OpKind::kAllGather, "whole", Queue::kTp, GroupKind::kTp, elements};
    spec.format = format;
    return TimeOf(SendBlock(elements / plan.tp, true, format), seconds, 0).span_s +
           TimeOf(CollectiveBlock(spec), seconds, 0).span_s;
  }
  return TimeOf(SendBlock(elements, true, format), seconds, 0).span_s;
}

}  // namespace

StepEstimate EstimateStep(const ModelSpec& model, const Plan& plan, const OpSeconds& seconds,
                          const SystemHabits& habits) {
  Estimator estimator(model, plan, seconds, habits);
  const auto m = static_cast<double>(plan.MicroBatches());
  const double send = SendSeconds(model, plan, seconds, habits);
  // Of each chunk, either way.
  const double waits = habits.blocking_sends ? plan.Chunks() * send : 0.0;
  double through = 0, slowest = 0, after = 0, bound = 0;
  double forward = 0, input = 0, weight = 0;
  for (int pp = 0; pp < plan.pp; ++pp) {
    const StageTime stage = estimator.Stage(pp);
    const double both = stage.forward.span_s + stage.backward.span_s + 2 * waits;
    through += both + (pp > 0 && waits == 0 ? 2 * send : 0);
    slowest = std::max(slowest, both);
    after = std::max(after, stage.after_s);
    bound = std::max(bound, m * (stage.forward.compute_s + stage.backward.compute_s));
    forward = std::max(forward, stage.forward.span_s + waits);
    const bool split = SplitsBackward(plan.schedule);
    input = std::max(input, (split ? stage.input.span_s : stage.backward.span_s) + waits);
    weight = std::max(weight, split ? stage.weight.span_s : 0);
  }
  const bool in_order =
      plan.schedule == ScheduleKind::kGpipe || plan.schedule == ScheduleKind::k1f1b;
  const PipelineShape shape{plan.pp, static_cast<int>(plan.MicroBatches()), plan.vpp};
  const double apart = waits > 0 ? 0.0 : send;
  const double pipeline = in_order
                              ? through + (m - 1) * slowest
                              : Makespan(plan.schedule, shape, {forward, input, weight, apart});
  return {pipeline + (plan.UpdatesEachMicroBatch() ? m : 1) * after, bound};
}

}  // namespace foretrain
