#include "sim/search/closed_form.h"

#include <algorithm>
#include <array>
#include <vector>

#include "sim/program/blocks/blocks.h"
#include "sim/program/lower/recompute.h"
#include "sim/program/lower/sharding.h"
#include "sim/program/lower/stage.h"
#include "sim/program/lower/transfer_blocks.h"
#include "sim/program/schedules/schedule.h"

namespace foretrain {
namespace {

struct BlockTime {
  double span_s = 0;     // from first start to last end
  double compute_s = 0;  // on the compute queue
};

// Each op starts when its queue is free and the tensors it reads are written.
BlockTime TimeOf(const Block& block, const OpSeconds& seconds) {
  std::array<double, kQueueCount> free{};
  std::vector<double> written(block.slots.size(), 0.0);
  BlockTime out;
  for (const Op& op : block.ops) {
    double start = free[static_cast<std::size_t>(op.queue)];
    // A view waits for all of its tensor.
    const auto operand = [&](int i) {
      Operand o = block.operands[static_cast<std::size_t>(op.first_operand + i)];
      if (o.slot == kNoSlot) return o;
      const std::int16_t base = block.slots[static_cast<std::size_t>(o.slot)].base;
      if (base != kNoSlot) o.slot = base;
      return o;
    };
    for (int i = 0; i < op.operand_count; ++i) {
      const auto slot = operand(i).slot;
      if (slot != kNoSlot) start = std::max(start, written[static_cast<std::size_t>(slot)]);
    }
    const double length = seconds(op);
    const double end = start + length;
    free[static_cast<std::size_t>(op.queue)] = end;
    for (int i = 0; i < op.operand_count; ++i) {
      const Operand o = operand(i);
      if (o.slot == kNoSlot || o.access == Access::kRead) continue;
      double& at = written[static_cast<std::size_t>(o.slot)];
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

void Add(BlockTime& sum, const BlockTime& part, double at_least = 0) {
  sum.span_s += std::max(part.span_s, at_least);
  sum.compute_s += part.compute_s;
}

class Estimator {
 public:
  Estimator(const ModelSpec& model, const Plan& plan, const OpSeconds& seconds)
      : model_(model), plan_(plan), seconds_(seconds), sharding_(ShardingOf(plan)) {}

  StageTime Stage(int pp) {
    const foretrain::Stage stage = StageOf(model_, plan_, pp);
    const BucketLayout layout = LayOutBuckets(model_, plan_, stage, 0, 0);
    const BlockContext context{model_, plan_, stage.shared_table};
    StageTime out;
    for (int block = stage.first_block; block <= stage.last_block; ++block) {
      const double gather = sharding_.parameters ? GatherSeconds(layout, stage.Local(block)) : 0.0;
      const double reduce = sharding_.gradients ? ReduceSeconds(layout, stage.Local(block)) : 0.0;
      AddBlock(context, stage.KindOf(block), RecomputeOf(plan_, stage, block), gather, reduce, out);
    }
    out.after_s = After(layout, out.backward.span_s);
    return out;
  }

 private:
  void AddBlock(const BlockContext& c, BlockKind kind, RecomputeKind recompute, double gather,
                double reduce, StageTime& out) {
    // Of a middle micro-batch: it adds to what the ones before it left.
    const auto time = [&](Pass pass) {
      const bool adds = pass != Pass::kRecompute;
      return TimeOf(BuildBlock(c, {kind, pass, adds, adds, recompute}), seconds_);
    };
    const bool split = plan_.schedule == ScheduleKind::kZbH1;
    Add(out.forward, time(Pass::kForward), gather);
    if (kind == BlockKind::kEmbedding) {
      Add(out.backward, time(Pass::kBackward), reduce);
      if (split) Add(out.weight, time(Pass::kBackwardWeight), reduce);
      return;
    }
    if (recompute == RecomputeKind::kFull) {
      const BlockTime again = time(Pass::kRecompute);
      Add(out.backward, again);
      if (split) Add(out.input, again);
    }
    Add(out.backward, time(Pass::kBackward), std::max(gather, reduce));
    if (!split) return;
    Add(out.input, time(Pass::kBackwardInput), gather);
    Add(out.weight, time(Pass::kBackwardWeight), reduce);
  }

  double CollectiveSeconds(OpKind kind, Queue queue, const Bucket& bucket) const {
    return TimeOf(CollectiveBlock(
                      {kind, "bucket", queue, GroupKind::kDp, bucket.elements, bucket.shards}),
                  seconds_)
        .span_s;
  }
  double GatherSeconds(const BucketLayout& layout, std::size_t block) const {
    double sum = 0;
    for (const int bucket : layout.buckets_of_block[block]) {
      sum += CollectiveSeconds(OpKind::kAllGather, Queue::kGather,
                               layout.buckets[static_cast<std::size_t>(bucket)]);
    }
    return sum;
  }
  double ReduceSeconds(const BucketLayout& layout, std::size_t block) const {
    double sum = 0;
    for (const int bucket : layout.buckets_of_block[block]) {
      sum += CollectiveSeconds(OpKind::kReduceScatter, Queue::kReduce,
                               layout.buckets[static_cast<std::size_t>(bucket)]);
    }
    return sum;
  }

  // Sums run beside the last micro-batch's backward; the last bucket's begins when that ends.
  double After(const BucketLayout& layout, double last_backward_s) const {
    double sums = 0, last = 0, update = 0;
    for (const Bucket& bucket : layout.buckets) {
      const ShardRange shard = ShardOf(bucket);
      const std::int64_t elements = shard.end - shard.begin;
      if (plan_.clip_norm > 0)
        update += TimeOf(SquaredNormBlock({std::max<std::int64_t>(elements, 1)}), seconds_).span_s;
      if (elements > 0)
        update += TimeOf(OptimizerBlock(elements, elements, plan_.clip_norm), seconds_).span_s;
      if (plan_.dp == 1 || sharding_.gradients) continue;
      const bool scatters = sharding_.optimizer;
      last = CollectiveSeconds(scatters ? OpKind::kReduceScatter : OpKind::kAllReduce,
                               Queue::kReduce, bucket);
      sums += last;
    }
    return std::max(last, sums - last_backward_s) + update;
  }

  const ModelSpec& model_;
  const Plan& plan_;
  const OpSeconds& seconds_;
  Sharding sharding_;
};

double SendSeconds(const ModelSpec& model, const Plan& plan, const OpSeconds& seconds) {
  if (plan.pp == 1) return 0;
  return TimeOf(SendBlock(BoundaryElements(model, plan), true), seconds).span_s;
}

}  // namespace

StepEstimate EstimateStep(const ModelSpec& model, const Plan& plan, const OpSeconds& seconds) {
  Estimator estimator(model, plan, seconds);
  const auto m = static_cast<double>(plan.MicroBatches());
  const double send = SendSeconds(model, plan, seconds);
  double through = 0, slowest = 0, after = 0, bound = 0;
  double forward = 0, input = 0, weight = 0;
  for (int pp = 0; pp < plan.pp; ++pp) {
    const StageTime stage = estimator.Stage(pp);
    const double both = stage.forward.span_s + stage.backward.span_s;
    through += both + (pp > 0 ? 2 * send : 0);
    slowest = std::max(slowest, both);
    after = std::max(after, stage.after_s);
    bound = std::max(bound, m * (stage.forward.compute_s + stage.backward.compute_s));
    forward = std::max(forward, stage.forward.span_s);
    input = std::max(input, stage.input.span_s);
    weight = std::max(weight, stage.weight.span_s);
  }
  const bool split = plan.schedule == ScheduleKind::kZbH1;
  const double pipeline =
      split ? Makespan(plan.schedule, {plan.pp, static_cast<int>(plan.MicroBatches()), plan.vpp},
                       {forward, input, weight, send})
            : through + (m - 1) * slowest;
  return {pipeline + after, bound};
}

}  // namespace foretrain
