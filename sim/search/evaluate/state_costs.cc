#include "sim/search/evaluate/state_costs.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/lower/layout/bucket_state.h"
#include "sim/program/lower/layout/sharding.h"
#include "sim/program/lower/offload/offload_state.h"
#include "sim/program/lower/rank/lowerings.h"
#include "sim/program/lower/rank/step_memory.h"

namespace foretrain {
namespace {

// Number of micro-batches that show every kind of instruction. Later ones add to what the first one
// left, and only the host takes time for that.
int OutlinedMicroBatches(const Plan& plan, Outlined outlined) {
  if (plan.UpdatesEachMicroBatch()) return 1;
  return outlined == Outlined::kAll || GradientsAreOffloaded(plan) ? 2 : 1;
}

// The same plan with few micro-batches, which keeps the outline short.
Plan OutlinedPlan(const Plan& plan, Outlined outlined) {
  Plan few = plan;
  few.global_batch = plan.micro_batch * plan.dp * OutlinedMicroBatches(plan, outlined);
  return few;
}

// True if the seconds of a step stand for those of equal steps. For gathers these are the
// forward's: a backward's are equal, except that the embedding has none. For reductions these are
// the last micro-batch's.
bool StandsForOthers(const Plan& few, const InstructionKey& key, StepRole role) {
  if (role == StepRole::kGather) return key.pass == Pass::kForward && key.micro_batch == 0;
  return role != StepRole::kReduce || key.micro_batch + 1 == few.MicroBatches();
}

// True if a group has members on several stages. Then its places, and so its price, depend on the
// number of stages.
bool SpansStages(const Block& block) {
  return std::any_of(block.ops.begin(), block.ops.end(), [](const Op& op) {
    return op.group >= GroupKind::kEnds && op.group <= GroupKind::kPrev;
  });
}

// Tells roles from keys: steps outside the update are gathers unless they move gradients.
StepRole RoleOf(const LowerContext& context, const InstructionKey& key) {
  const bool collects =
      key.kind == InstructionKind::kAllReduce || key.kind == InstructionKind::kReduceScatter;
  if (key.pass != Pass::kUpdate) {
    return collects || key.kind == InstructionKind::kCopyOut ||
                   key.kind == InstructionKind::kAccumulate
               ? StepRole::kReduce
               : StepRole::kGather;
  }
  switch (key.kind) {
    case InstructionKind::kAllGather:
      return StepRole::kUpdatedGather;
    case InstructionKind::kNvmeRead:
    case InstructionKind::kNvmeWrite:
    case InstructionKind::kCopyIn:
    case InstructionKind::kCopyOut:
      return StepRole::kAway;
    case InstructionKind::kOptimizerStep:
      return OffloadOf(context, key.part).offloaded ? StepRole::kAway : StepRole::kUpdate;
    default:
      break;
  }
  // All-reduces over tp have the first layer in their key. They wait for the reductions over dp, so
  // they count as part of the update.
  return collects && key.block != 1 ? StepRole::kSum : StepRole::kUpdate;
}

using SecondsByQueue = std::array<double, kQueueCount>;

// Steps on different queues overlap, so each queue is summed separately and the slowest counts.
double Slowest(const SecondsByQueue& queues) {
  return *std::max_element(queues.begin(), queues.end());
}

std::size_t At(Queue queue) { return static_cast<std::size_t>(queue); }

// Adds gathers and reductions of one micro-batch, as means over the blocks of a kind.
void AddMicroBatch(const LowerContext& context, const PricedSteps& priced, StateCosts& out) {
  const auto kind_of = [&context](int block) {
    return static_cast<std::size_t>(context.stage.KindOf(block));
  };
  std::array<SecondsByQueue, kBlockKindCount> gathers{}, reductions{};
  std::map<int, std::int64_t> copies;  // bytes of gathers, by the block that begins them
  for (const PricedStep& step : priced.steps) {
    const std::size_t kind = kind_of(step.key.block);
    if (step.role == StepRole::kReduce) {
      reductions[kind][At(step.queue)] += step.seconds;
    } else {
      gathers[kind][At(step.queue)] += step.seconds;
      copies[step.key.block] += step.peak_bytes;
    }
  }
  std::array<int, kBlockKindCount> blocks{};
  for (const int block : context.stage.blocks) ++blocks[kind_of(block)];
  for (std::size_t kind = 0; kind < kBlockKindCount; ++kind) {
    if (blocks[kind] == 0) continue;
    out.gather_s[kind] = Slowest(gathers[kind]) / blocks[kind];
    out.reduce_s[kind] = Slowest(reductions[kind]) / blocks[kind];
  }
  for (const auto& [block, bytes] : copies) {
    out.gathered_bytes = std::max(out.gathered_bytes, bytes);
  }
}

// Whole gradients of one micro-batch, in buckets that several blocks may share.
class WholeGradients {
 public:
  explicit WholeGradients(const LowerContext& context) : context_(context) {}

  void AddTo(StateCosts& out) {
    if (!ShardingOf(context_.plan).each_micro_batch) return;
    AddShared(out);
    out.whole_gradient_bytes = MaxOfBackward();
  }

 private:
  std::int64_t BytesOf(int bucket) const {
    const Bucket& shape = context_.BucketAt(bucket);
    if (shape.frozen || !IsWholeForOne(context_.plan, shape)) return 0;
    return WholeGradientsShape(context_, bucket).bytes;
  }

  // Buckets that chunks share live from the first of their backwards to the last. Chunks of
  // opposite directions serve different micro-batches, so nothing is held between them.
  void AddShared(StateCosts& out) {
    const std::vector<Chunk>& chunks = context_.stage.chunks;
    for (std::size_t c = 0; c + 1 < chunks.size(); ++c) {
      out.shared_gradient_bytes.push_back(0);
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
        if (BytesOf(number) == 0) continue;
        shared_.insert(number);
        out.shared_gradient_bytes.back() += BytesOf(number);
      }
    }
  }

  // A backward makes a bucket's gradients at the last block that shares it and ends them at the
  // first. So gradients of a table that embedding and head share live with those of every layer.
  std::int64_t MaxOfBackward() const {
    std::set<int> made;
    std::int64_t now = 0, max = 0;
    const std::vector<std::vector<int>>& of_block = context_.layout.buckets_of_block;
    std::vector<int> blocks_left(context_.layout.buckets.size(), 0);
    for (const auto& buckets : of_block) {
      for (const int number : buckets) ++blocks_left[static_cast<std::size_t>(number)];
    }
    const auto bytes = [&](int number) { return shared_.count(number) == 0 ? BytesOf(number) : 0; };
    for (auto buckets = of_block.rbegin(); buckets != of_block.rend(); ++buckets) {
      for (const int number : *buckets) {
        if (made.insert(number).second) now += bytes(number);
      }
      max = std::max(max, now);
      for (const int number : *buckets) {
        if (--blocks_left[static_cast<std::size_t>(number)] == 0) now -= bytes(number);
      }
    }
    return max;
  }

  const LowerContext& context_;
  std::set<int> shared_;  // buckets that several chunks share
};

}  // namespace

// Pieces of a bucket with an equal shape have equal prices: the rule, the bucket, the length and
// how much of it decays (offload_optimizer.cc). Nearly all pieces of a bucket are alike.
using PieceShape = std::tuple<const StepRule*, int, std::int64_t, std::int64_t>;
PieceShape ShapeOfPiece(const LowerContext& context, const SkeletonStep& step) {
  const Bucket& bucket = context.BucketAt(step.key.part);
  const ShardRange piece = StatePieceOf(context, step.key.part, step.key.micro_batch);
  const std::int64_t elements = piece.end - piece.begin;
  return {step.rule, step.key.part, elements,
          std::clamp<std::int64_t>(bucket.decayed - piece.begin, 0, elements)};
}

// Each block of the outline is made and priced once, because equal keys mean equal blocks. That
// keeps the cost at O(distinct sizes of buckets) block builds, however many buckets there are.
PricedSteps PriceSteps(const LowerContext& whole, BlockTimes& times, Outlined outlined) {
  const Plan plan = OutlinedPlan(whole.plan, outlined);
  const LowerContext context{whole.model, plan, whole.stage, whole.layout, whole.at};
  const Skeleton outline = OutlineStep(context, outlined != Outlined::kMicroBatch);
  PricedSteps out;
  std::vector<double> seconds;  // by block
  std::map<PieceShape, std::size_t> alike;
  const auto is_block = [](const SkeletonStep& step) {
    return step.key.kind == InstructionKind::kBlock;
  };
  const auto is_layer = [&](const SkeletonStep& step) {
    return is_block(step) && IsLayer(context.stage.KindOf(step.key.block));
  };
  const auto last_layer = std::find_if(outline.rbegin(), outline.rend(), is_layer).base();
  for (auto step = outline.begin(); step != outline.end(); ++step) {
    if (is_block(*step) || step->key.pass == Pass::kNone) continue;  // BlockTable, ChunkCosts
    const bool updates = step->key.pass == Pass::kUpdate;
    if (outlined != Outlined::kAll && updates != (outlined == Outlined::kUpdate)) continue;
    const StepRole role = RoleOf(context, step->key);
    if (outlined == Outlined::kMicroBatch && !StandsForOthers(plan, step->key, role)) continue;
    const bool is_piece = outlined == Outlined::kUpdate && role == StepRole::kAway &&
                          step->key.block == 0 && OffloadOf(context, step->key.part).offloaded;
    if (is_piece) {
      const auto [first, is_new] =
          alike.try_emplace(ShapeOfPiece(context, *step), out.steps.size());
      if (!is_new) {
        PricedStep priced = out.steps[first->second];
        priced.key = step->key;
        out.steps.push_back(std::move(priced));
        continue;
      }
    }
    StepDescription description = step->rule->describe(context, step->key);
    const int number = out.blocks.Find(description.block, description.make);
    const Block& block = out.blocks[number];
    const bool spans = SpansStages(block);
    if (static_cast<std::size_t>(number) == seconds.size()) {
      seconds.push_back(spans ? 0 : times.SpanOf(block, whole.plan));
    }
    PricedStep priced;
    priced.key = step->key;
    priced.block = number;
    priced.role = role;
    priced.queue = block.ops.front().queue;
    priced.spans_stages = spans;
    priced.last = step >= last_layer;
    priced.seconds = seconds[static_cast<std::size_t>(number)];
    if (priced.role == StepRole::kGather) {
      priced.peak_bytes =
          MemoryOf(context, step->key, description, Space::kDevice, out.blocks).peak_total;
    }
    priced.name = std::move(description.block);
    out.steps.push_back(std::move(priced));
  }
  return out;
}

StateCosts StateCostsOf(const LowerContext& context, BlockTimes& times) {
  StateCosts out;
  const auto bytes = StateBytes(context);
  const auto in = [&bytes](Space space) { return bytes[static_cast<std::size_t>(space)]; };
  out.device = in(Space::kDevice);
  out.host_bytes = Total(in(Space::kPinned)) + Total(in(Space::kHost));
  out.nvme_bytes = Total(in(Space::kNvme));
  WholeGradients(context).AddTo(out);
  AddMicroBatch(context, PriceSteps(context, times, Outlined::kMicroBatch), out);
  return out;
}

// Collectives that span stages are kept as blocks, so that plans with another number of stages
// share everything else.
UpdateCosts UpdateCostsOf(const LowerContext& context, BlockTimes& times) {
  UpdateCosts out;
  const PricedSteps priced = PriceSteps(context, times, Outlined::kUpdate);
  SecondsByQueue offloaded{};
  for (const PricedStep& step : priced.steps) {
    const bool sums = step.role == StepRole::kSum;
    if (step.spans_stages) {
      (sums ? out.sums_over_stages : out.scalars_over_stages).push_back(priced.blocks[step.block]);
    } else if (sums) {
      out.sums_s += step.seconds;
      if (step.last) out.last_sum_s += step.seconds;
    } else if (step.role == StepRole::kUpdatedGather) {
      if (out.updated_gathers_s == 0) out.first_gather_s = step.seconds;
      out.updated_gathers_s += step.seconds;
    } else if (step.role == StepRole::kAway) {
      offloaded[At(step.queue)] += step.seconds;
    } else {
      out.update_s += step.seconds;
    }
  }
  out.offload_s = context.plan.delayed_update ? offloaded[At(Queue::kH2d)] : Slowest(offloaded);
  return out;
}

}  // namespace foretrain
