// Selective recomputation of single modules of a layer trains as none does, to the bit, and its
// memory is the closed form's. plan_matrix.cc combines modules with other choices.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/config/plan/plan_fields.h"
#include "sim/memory/peak_memory.h"
#include "tests/runtime/equality/matrix_checks.h"
#include "tests/runtime/training.h"
#include "tests/support/modules_in.h"

namespace foretrain {
namespace {

std::vector<RecomputeModules> SetsOf(const ModelSpec& model) {
  const RecomputeModules all = ModulesIn(model);
  std::vector<RecomputeModules> sets = {all};
  for (RecomputeModules bit = 1; bit <= all; bit <<= 1) {
    if ((all & bit) != 0) sets.push_back(bit);
  }
  return sets;
}

Plan Selective(Plan plan, RecomputeModules modules) {
  plan.recompute = RecomputeKind::kSelective;
  plan.recompute_modules = modules;
  return plan;
}

// All rebuilt tensors come from the same kernels with the same inputs as the first time.
void ExpectSameBits(const ModelSpec& model, const Plan& plan) {
  const Trained kept = TrainTiny(model, plan);
  for (const RecomputeModules modules : SetsOf(model)) {
    const Plan selective = Selective(plan, modules);
    EXPECT_TRUE(SameBits(kept, TrainTiny(model, selective)))
        << model.name << ' ' << Describe(selective);
  }
}

TEST(RecomputeModules, ChangeNoBitOfDenseModels) {
  ExpectSameBits(TinyGpt(), TinyPlan());
  ExpectSameBits(TinyLlama(), TinyPlan());
  ModelSpec normed = TinyLlama();
  normed.qk_norm = true;
  ExpectSameBits(normed, TinyPlan());
  for (const LayerOrder order : {LayerOrder::kParallel, LayerOrder::kParallelOneNorm}) {
    ModelSpec parallel = TinyGpt();
    parallel.order = order;
    ExpectSameBits(parallel, TinyPlan());
  }
}

TEST(RecomputeModules, ChangeNoBitOfExpertsAndLatentAttention) {
  ExpectSameBits(TinyExperts(), TinyPlan());
  ExpectSameBits(TinyLatent(), TinyPlan());
  ExpectSameBits(TinyMtp(), TinyPlan());
  ModelSpec direct = TinyLatent();
  direct.query_rank = 0;
  ExpectSameBits(direct, TinyPlan());
  Plan room = TinyPlan();
  room.capacity_factor = 1.25;
  ExpectSameBits(TinyExperts(), room);
}

TEST(RecomputeModules, ChangeNoBitWithTensorAndPipelineParallelism) {
  Plan plan = TinyPlan();
  plan.tp = plan.pp = 2;
  plan.sequence_parallel = true;
  for (const ScheduleKind schedule : {ScheduleKind::k1f1b, ScheduleKind::kZbH1}) {
    plan.schedule = schedule;
    for (const ModelSpec& model : {TinyLlama(), TinyExperts(), TinyLatent()}) {
      ExpectSameBits(model, plan);
    }
  }
}

TEST(RecomputeModules, ChangeNoBitWithExpertAndContextParallelism) {
  Plan plan = TinyPlan();
  plan.dp = plan.ep = plan.moe_pieces = 2;
  plan.zero_stage = 3;
  ExpectSameBits(TinyExperts(), plan);
  for (const ContextParallelKind kind :
       {ContextParallelKind::kRing, ContextParallelKind::kAllGather,
        ContextParallelKind::kAllToAll}) {
    Plan context = TinyPlan();
    context.cp = 2;
    context.cp_kind = kind;
    ExpectSameBits(TinyLlama(), context);
    ExpectSameBits(TinyLatent(), context);
  }
}

TEST(RecomputeModules, ChangeNoBitWithOtherFormatsAndMethods) {
  for (const Precision precision : {Precision::kBf16, Precision::kFp8}) {
    Plan plan = TinyPlan();
    plan.precision = precision;
    ExpectSameBits(TinyLlama(), plan);
  }
  Plan standard = TinyPlan();
  standard.attention = AttentionAlgorithm::kStandard;
  standard.dropout = standard.attention_dropout = 0.1;
  ExpectSameBits(TinyGpt(), standard);
  Plan adapters = TinyPlan();
  adapters.method = TrainingMethod::kLora;
  adapters.lora_rank = 4;
  ExpectSameBits(TinyLlama(), adapters);
  Plan tiles = TinyPlan();
  tiles.mlp_tiles = 3;
  ExpectSameBits(TinyLlama(), tiles);
}

// Each set has the peak of the closed form.
TEST(RecomputeModules, HaveTheMemoryOfTheClosedForm) {
  Plan plan = TinyPlan();
  plan.dp = plan.ep = plan.pp = 2;
  for (const ModelSpec& model : {TinyGpt(), TinyExperts(), TinyLatent(), TinyMtp()}) {
    Plan of = plan;
    if (model.experts == 0) of.ep = 1;
    for (const RecomputeModules modules : SetsOf(model)) {
      of = Selective(of, modules);
      SCOPED_TRACE(model.name + ": " + Describe(of));
      const auto program = Compile(model, of);
      ASSERT_TRUE(program.has_value()) << program.error().message;
      for (const RankProgram& rank : program->ranks) {
        const PeakMemory linked = LinkedPeak(rank, Space::kDevice);
        const PeakMemory planned = PlannedPeak(model, of, rank.Coordinates(), Space::kDevice);
        EXPECT_EQ(planned.bytes, linked.bytes) << "rank " << rank.rank;
        EXPECT_EQ(planned.total, linked.total) << "rank " << rank.rank;
      }
    }
  }
}

// Offload copies what is saved, so fewer tensors travel.
TEST(RecomputeModules, LeaveFewerTensorsToOffload) {
  MatrixCase one;
  one.model = TinyLatent();
  one.plan = Selective(TinyPlan(), ModulesIn(one.model));
  one.plan.offload_activations = OffloadTarget::kHost;
  one.plan.recompute_every = 2;
  one.name = Describe(one.plan);
  CheckCase(one, 4);
}

}  // namespace
}  // namespace foretrain
