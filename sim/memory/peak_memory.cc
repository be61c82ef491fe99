#include "sim/memory/peak_memory.h"

#include <map>
#include <tuple>

#include "sim/program/blocks/blocks.h"
#include "sim/program/lower/layout/sharding.h"
#include "sim/program/lower/model/recompute.h"
#include "sim/program/lower/offload/offload_state.h"
#include "sim/program/lower/rank/block_registry.h"
#include "sim/program/lower/rank/lowerings.h"
#include "sim/program/lower/rank/step_memory.h"

namespace foretrain {

namespace {

// Added to the key of the first layer: its backward may leave a gradient that nobody reads.
constexpr int kFirstLayer = 64;
// Added to the key of layers that attend to all tokens or have no rotary positions.
constexpr int kGlobalLayer = 128;

// Adds up the bytes of a rank's instructions in issue order. Invariant: between two instructions,
// `live_` holds all live bytes, so the peak of an instruction is `live_` plus its own peak.
class Walker {
 public:
  Walker(const LowerContext& context, Space space)
      : context_(context),
        space_(space),
        buckets_differ_(ShardingOf(context.plan).each_micro_batch ||
                        ParameterSpace(context.plan) != Space::kDevice ||
                        context.plan.StepsOverlap()),
        live_(StateBytes(context)[static_cast<std::size_t>(space)]),
        peak_{live_, Total(live_)} {}

  PeakMemory Run(const Skeleton& skeleton, MemoryWalk* walk) {
    if (walk != nullptr) *walk = {live_, {}};
    for (const SkeletonStep& step : skeleton) {
      const StepMemory memory = MemoryOf(step);
      if (walk == nullptr) {
        Walk(memory);
      } else if (memory != StepMemory()) {
        MemoryMoment moment{step.key, live_, {}};
        for (std::size_t c = 0; c < live_.size(); ++c) moment.fullest[c] += memory.at_peak[c];
        Walk(memory);
        moment.after = live_;
        walk->moments.push_back(moment);
      }
    }
    return peak_;
  }

 private:
  StepMemory Ask(const SkeletonStep& step) {
    return foretrain::MemoryOf(context_, step.key, step.rule->describe(context_, step.key), space_,
                               registry_);
  }

  void Walk(const StepMemory& memory) {
    const std::int64_t total = Total(live_) + memory.peak_total;
    if (total > peak_.total) {
      peak_.total = total;
      for (std::size_t c = 0; c < live_.size(); ++c) peak_.bytes[c] = live_[c] + memory.at_peak[c];
    }
    for (std::size_t c = 0; c < live_.size(); ++c) live_[c] += memory.at_end[c];
  }

  StepMemory MemoryOf(const SkeletonStep& step) {
    const InstructionKey& key = step.key;
    const bool block = key.kind == InstructionKind::kBlock;
    if (!block && !step.rule->alike) return Ask(step);
    // Passes of blocks of one kind take the same bytes, so each is asked for once. Three things
    // tell blocks apart: buckets that come and go with them, rings if steps overlap, and norms of
    // heads that only layers with rotary positions have.
    const int distinct =
        block && buckets_differ_
            ? key.block
            : 4 * static_cast<int>(context_.stage.KindOf(key.block)) +
                  static_cast<int>(RecomputeOf(context_.plan, context_.stage, key.block)) +
                  (key.block == 1 ? kFirstLayer : 0) +
                  (IsGlobal(context_.model, context_.plan, key.block) ? kGlobalLayer : 0);
    const auto [found, is_new] = blocks_.try_emplace({step.rule, distinct, key.pass, key.part});
    if (is_new) found->second = Ask(step);
    return found->second;
  }

  const LowerContext& context_;
  Space space_;
  BlockRegistry registry_;
  bool buckets_differ_;
  CategoryBytes live_;
  PeakMemory peak_;
  // By rule, block or its kind, pass and piece.
  std::map<std::tuple<const StepRule*, int, Pass, int>, StepMemory> blocks_;
};

}  // namespace

PeakMemory PlannedPeak(const ModelSpec& model, const Plan& plan, const RankCoordinates& at,
                       Space space, MemoryWalk* walk) {
  const Stage stage = StageOf(model, plan, at.pp);
  const BucketLayout layout = LayOutBuckets(model, plan, stage, at);
  const LowerContext context{model, plan, stage, layout, at};
  return Walker(context, space).Run(LowerStep(context), walk);
}

// Ranks of a stage differ only in padding and in tp pieces, so the first of each stage stands for
// it.
FullestRank PredictFullestRank(const ModelSpec& model, const Plan& plan) {
  FullestRank fullest;
  for (int pp = 0; pp < plan.pp; ++pp) {
    const PeakMemory peak = PlannedPeak(model, plan, {.pp = pp});
    if (pp == 0 || peak.total > fullest.peak.total) fullest = {pp, peak};
  }
  return fullest;
}

}  // namespace foretrain
