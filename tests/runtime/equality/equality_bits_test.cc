// Strategies that only move or repeat work change no bit, with and without poisoned memory.
// Measured memory equals the program's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "sim/program/schedules/schedule.h"
#include "tests/runtime/equality/equality_cases.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

// Strategies that only move or repeat work change no bit.
TEST(EqualityToTheBit, HoldsForSchedulesRecomputationAndShardedMoments) {
  const ModelSpec model = TinyGpt();
  Plan pipeline = TinyPlan();
  pipeline.pp = 2;
  const Trained one_f_one_b = TrainTiny(model, pipeline);
  Plan other = pipeline;
  other.schedule = ScheduleKind::kGpipe;
  EXPECT_TRUE(SameBits(one_f_one_b, TrainTiny(model, other)));
  other.schedule = ScheduleKind::kZbH1;
  EXPECT_TRUE(SameBits(one_f_one_b, TrainTiny(model, other)));
  other = pipeline;
  other.recompute = RecomputeKind::kFull;
  EXPECT_TRUE(SameBits(one_f_one_b, TrainTiny(model, other)));

  other.recompute = RecomputeKind::kSelective;
  EXPECT_TRUE(SameBits(one_f_one_b, TrainTiny(model, other)));
  other.schedule = ScheduleKind::kZbH1;
  other.recompute_layers = 1;
  EXPECT_TRUE(SameBits(one_f_one_b, TrainTiny(model, other)));

  Plan data_parallel = TinyPlan();
  data_parallel.dp = 4;
  Plan zero1 = data_parallel;
  zero1.zero_stage = 1;
  EXPECT_TRUE(SameBits(TrainTiny(model, data_parallel), TrainTiny(model, zero1)));
}

// A schedule that no formula makes: forwards out of order, halves and whole backwards mixed.
TEST(EqualityToTheBit, HoldsForSchedulesOfAFile) {
  const ModelSpec model = TinyGpt();
  Plan plan = TinyPlan();
  plan.pp = 2;
  const Trained one_f_one_b = TrainTiny(model, plan);
  plan.schedule = ScheduleKind::kCustom;
  auto slots = SlotOrder::FromCsv(
      "0F1,0F0,0F2,0I0,0F3,0W0,0B1,0B2,0F4,0B3,0F5,0F7,0F6,0I4,0I5,0W4,0W5,0B6,0B7\n"
      "1F0,1B0,1F1,1B1,1F2,1F3,1I3,1I2,1W2,1W3,1F4,1I4,1F5,1W4,1B5,1F6,1F7,1B6,1B7\n",
      "mixed.csv");
  ASSERT_TRUE(slots.has_value()) << slots.error().message;
  plan.slots = *std::move(slots);
  EXPECT_TRUE(SameBits(one_f_one_b, TrainTiny(model, plan)));
}

// The last stage adds its losses, and gradients that its forwards make, in the order of forwards.
TEST(EqualityToTheBit, IsNearWhereTheLastStageRunsForwardsInAnotherOrder) {
  const ModelSpec model = TinyGpt();
  for (const FusionKind fuse : {FusionKind::kNone, FusionKind::kAll}) {
    Plan plan = TinyPlan();
    plan.pp = 2;
    plan.fuse = fuse;
    plan.global_batch = 4;
    const Trained wanted = TrainTiny(model, plan);
    plan.schedule = ScheduleKind::kCustom;
    auto slots = SlotOrder::FromCsv(
        "0F2,0F3,0F0,0F1,0B0,0B1,0B2,0B3\n1F2,1F0,1B0,1F1,1B1,1B2,1F3,1B3\n", "any.csv");
    ASSERT_TRUE(slots.has_value()) << slots.error().message;
    plan.slots = *std::move(slots);
    const Trained trained = TrainTiny(model, plan);
    ASSERT_EQ(trained.losses.size(), wanted.losses.size());
    for (std::size_t i = 0; i < wanted.losses.size(); ++i) {
      EXPECT_NEAR(trained.losses[i], wanted.losses[i], 1e-5) << Describe(plan);
    }
  }
}

// Each in the placement of its stages, with pairs under DualPipeV.
TEST(EqualityToTheBit, HoldsForExportsOfSchedulesWithSeveralChunks) {
  const ModelSpec model = TinyGpt();
  for (const ScheduleKind kind : {ScheduleKind::kInterleaved, ScheduleKind::kDualPipeV}) {
    Plan plan = TinyPlan();
    plan.pp = 2;
    plan.schedule = kind;
    plan.vpp = kind == ScheduleKind::kInterleaved ? 2 : 1;
    const Trained wanted = TrainTiny(model, plan);
    auto draft = DraftOf(plan);
    ASSERT_TRUE(draft.has_value()) << draft.error().message;
    auto slots = SlotOrder::Make(*draft, "");
    ASSERT_TRUE(slots.has_value()) << slots.error().message;
    plan.schedule = ScheduleKind::kCustom;
    plan.vpp = 1;
    plan.slots = *std::move(slots);
    EXPECT_TRUE(SameBits(wanted, TrainTiny(model, plan))) << Name(kind);
  }
}

// The place of a micro-batch's summed gradient, whole on all ranks or in shards, changes no bit.
TEST(EqualityToTheBit, HoldsForAllZeroStagesThatSumEachMicroBatch) {
  for (const bool tied : {false, true}) {
    Plan plan = TinyPlan();
    plan.dp = plan.pp = 2;
    plan.reduction_time = ReductionTime::kMicroBatch;
    const Trained whole = TrainTiny(TinyGpt(tied), plan);
    for (const int zero : {1, 2, 3}) {
      plan.zero_stage = zero;
      EXPECT_TRUE(SameBits(whole, TrainTiny(TinyGpt(tied), plan))) << Describe(plan);
    }
    for (const int depth : {0, 2, 5}) {
      plan.prefetch_depth = depth;
      EXPECT_TRUE(SameBits(whole, TrainTiny(TinyGpt(tied), plan))) << Describe(plan);
    }
    for (const std::int64_t bytes : {20'000, 1'000'000}) {
      plan.gather_bytes = bytes;
      EXPECT_TRUE(SameBits(whole, TrainTiny(TinyGpt(tied), plan))) << Describe(plan);
      plan.unsharded_bytes = bytes;
      EXPECT_TRUE(SameBits(whole, TrainTiny(TinyGpt(tied), plan))) << Describe(plan);
    }
  }
}

TEST(EqualityToTheBit, HoldsForALossScaleThatIsAPowerOfTwo) {
  Plan plan = TinyPlan();
  plan.dp = 2;
  plan.zero_stage = 2;
  plan.clip_norm = 0.5;
  const Trained plain = TrainTiny(TinyLlama(), plan);
  plan.loss_scale = 1024;
  const Trained scaled = TrainTiny(TinyLlama(), plan);
  EXPECT_TRUE(SameBits(plain, scaled));
  EXPECT_EQ(plain.squared_norms, scaled.squared_norms);
}

TEST(EqualityToTheBit, HoldsForFusedOps) {
  for (const ModelSpec& model : {TinyGpt(), TinyLlama()}) {
    Plan plan = TinyPlan();
    plan.tp = 2;
    plan.sequence_parallel = true;
    plan.recompute = RecomputeKind::kFull;
    const Trained apart = TrainTiny(model, plan);
    for (const FusionKind fuse : {FusionKind::kNorms, FusionKind::kLoss, FusionKind::kAll}) {
      plan.fuse = fuse;
      EXPECT_TRUE(SameBits(apart, TrainTiny(model, plan)));
    }
  }
}

// Variants: several micro-batches in flight, pieces of the logits, a cap of logits and a dynamic
// loss scale, and the losses of MTP layers.
TEST(EqualityToTheBit, HoldsForTheLossWithItsGradient) {
  const auto alike = [](const ModelSpec& model, const Plan& plan) {
    Plan fused = plan;
    fused.fuse = FusionKind::kLoss;
    EXPECT_TRUE(SameBits(TrainTiny(model, plan), TrainTiny(model, fused))) << Describe(plan);
  };
  Plan plan = TinyPlan();
  plan.pp = 2;
  plan.schedule = ScheduleKind::kZbH1;
  alike(TinyGpt(), plan);
  alike(TinyGpt(false), plan);
  plan = TinyPlan();
  plan.loss_chunks = 3;
  alike(TinyGpt(), plan);
  plan = TinyPlan();
  plan.precision = Precision::kFp16;
  ModelSpec capped = TinyGpt();
  capped.logit_softcap = 3;
  alike(capped, plan);
  alike(TinyMtp(), TinyPlan());
}

// The CPU's epilogues call the kernels of the ops that they replace, on the same fp32 numbers.
// Variants: the activation's input stored, recomputed, recomputed in tiles, never stored.
TEST(EqualityToTheBit, HoldsForProductsWithWhatFollowsThem) {
  const auto alike = [](const ModelSpec& model, const Plan& plan) {
    Plan fused = plan;
    fused.fuse = FusionKind::kEpilogues;
    EXPECT_TRUE(SameBits(TrainTiny(model, plan), TrainTiny(model, fused))) << Describe(plan);
  };
  ModelSpec model = TinyGpt(false);
  for (const MlpKind mlp :
       {MlpKind::kGelu, MlpKind::kGeluErf, MlpKind::kRelu, MlpKind::kSquaredRelu}) {
    model.mlp = mlp;
    alike(model, TinyPlan());
  }
  Plan plan = TinyPlan();
  for (const RecomputeKind recompute : {RecomputeKind::kSelective, RecomputeKind::kFull}) {
    plan.recompute = recompute;
    plan.mlp_tiles = 1;
    alike(model, plan);
    plan.mlp_tiles = 3;  // the last tile is shorter
    alike(model, plan);
  }
  plan = TinyPlan();
  plan.tp = plan.pp = 2;
  plan.schedule = ScheduleKind::kZbH1;
  alike(model, plan);
  plan.schedule = ScheduleKind::k1f1b;
  plan.sequence_parallel = true;
  alike(model, plan);
  plan.precision = Precision::kTf32;
  alike(model, plan);
}

TEST(EqualityToTheBit, HoldsFromRunToRunUnderRandomDelays) {
  struct Jitter : FaultInjector {
    Fault At(int rank, std::int64_t step, std::int32_t op) override {
      const std::uint64_t mixed =
          (salt + static_cast<std::uint64_t>(rank * 131 + step * 17 + op)) * 0x9e3779b97f4a7c15U;
      Fault fault{Fault::Kind::kDelay};
      // One op in sixteen starts up to 130 us late.
      fault.delay_ns = mixed >> 60 == 0 ? static_cast<std::int64_t>(mixed >> 40 & 0x1ffff) : 0;
      return fault;
    }
    std::uint64_t salt = 0;
  };
  const ModelSpec model = TinyGpt();
  Plan plan = TinyPlan();
  plan.dp = plan.tp = plan.pp = 2;
  plan.zero_stage = 1;
  plan.clip_norm = 0.5;
  const Trained undisturbed = TrainTiny(model, plan);
  for (std::uint64_t run = 1; run <= 3; ++run) {
    Jitter jitter;
    jitter.salt = run * 1000;
    TrainingOptions options;
    options.faults = &jitter;
    EXPECT_TRUE(SameBits(undisturbed, TrainTiny(model, plan, options))) << "run " << run;
  }
}

TEST(EqualityToTheBit, HoldsWithAndWithoutPoisonWhereTensorsAreUsedInParts) {
  TrainingOptions plain;
  plain.poison = false;
  Plan plan = TinyPlan();
  plan.tp = plan.pp = 2;
  plan.schedule = ScheduleKind::kZbH1;
  plan.sequence_parallel = plan.vocab_parallel = true;
  plan.loss_chunks = 3;
  plan.tp_tiles = 2;
  plan.recompute = RecomputeKind::kSelective;
  EXPECT_TRUE(SameBits(TrainTiny(TinyLlama(), plan), TrainTiny(TinyLlama(), plan, plain)));
}

TEST(EqualityToTheBit, HoldsWithAndWithoutPoison) {
  TrainingOptions plain;
  plain.poison = false;
  Plan plan = TinyPlan();
  plan.dp = 2;
  plan.zero_stage = 3;
  EXPECT_TRUE(SameBits(TrainTiny(TinyLlama(), plan), TrainTiny(TinyLlama(), plan, plain)));
  plan.gather_format = GatherFormat::kInt8;
  plan.moments = MomentFormat::kInt8;
  plan.loss_scale = 64;
  EXPECT_TRUE(SameBits(TrainTiny(TinyLlama(), plan), TrainTiny(TinyLlama(), plan, plain)));
  plan.zero_stage = 2;
  plan.gather_format = GatherFormat::kFp32;
  plan.optimizer = OptimizerKind::kSgd;
  plan.moments = MomentFormat::kFp32;
  EXPECT_TRUE(SameBits(TrainTiny(TinyLlama(), plan), TrainTiny(TinyLlama(), plan, plain)));
}

TEST(EqualityToTheBit, HoldsWithAndWithoutPoisonWhereSequencesAreSharedOut) {
  TrainingOptions plain;
  plain.poison = false;
  for (const Case& one : ContextCases()) {
    EXPECT_TRUE(SameBits(TrainTiny(TinyLlama(), one.plan), TrainTiny(TinyLlama(), one.plan, plain)))
        << one.name;
  }
}

TEST(EqualityToTheBit, HoldsForRecomputedPartsOfAttention) {
  for (const ContextParallelKind kind : {kCpRing, kCpAllGather, kCpAllToAll}) {
    Plan plan = TinyPlan();
    plan.cp = 2;
    plan.cp_kind = kind;
    const Trained kept = TrainTiny(TinyGpt(), plan);
    plan.recompute = RecomputeKind::kFull;
    EXPECT_TRUE(SameBits(kept, TrainTiny(TinyGpt(), plan))) << Name(kind);
    plan.recompute = RecomputeKind::kSelective;
    EXPECT_TRUE(SameBits(kept, TrainTiny(TinyGpt(), plan))) << Name(kind);
  }
}

// The measured peak equals the program's live bytes if one queue does all the work, and never
// exceeds the arena.
TEST(MeasuredMemory, StaysWithinTheArena) {
  std::vector<Case> cases = Cases();
  for (Case& one : ContextCases()) cases.push_back(std::move(one));
  for (Case& one : OffloadCases()) cases.push_back(std::move(one));
  for (const Case& one : cases) {
    auto program = Compile(TinyGpt(), one.plan);
    ASSERT_TRUE(program.has_value());
    const Trained trained = TrainTiny(TinyGpt(), one.plan);
    ASSERT_EQ(trained.summary.peak_bytes.size(), program->ranks.size());
    for (std::size_t rank = 0; rank < program->ranks.size(); ++rank) {
      EXPECT_LE(trained.summary.peak_bytes[rank], program->ranks[rank].arena_bytes[0]) << one.name;
      EXPECT_GT(trained.summary.peak_bytes[rank], program->ranks[rank].arena_bytes[0] / 2)
          << one.name;
    }
  }
}

}  // namespace
}  // namespace foretrain
