// Adafactor in whole runs: its update by hand, equality between plans, memory and checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/data/token_data.h"
#include "sim/cost/checkpoint_cost.h"
#include "sim/program/lower/layout/factored_moments.h"
#include "sim/program/state/state_pieces.h"
#include "tests/kernels/reference/adafactor.h"
#include "tests/runtime/checkpoint/saved_run.h"
#include "tests/runtime/equality/training_by_hand.h"
#include "tests/runtime/training.h"
#include "tests/runtime/whole_tensors.h"

namespace foretrain {
namespace {

Plan AdafactorPlan() {
  Plan plan = TinyPlan();
  plan.optimizer = OptimizerKind::kAdafactor;
  return plan;
}

// Numbers that Adafactor keeps of whole tensors: rows and columns of matrices, or a vector's own.
std::int64_t MomentsOf(const TensorMap& tensors) {
  std::int64_t moments = 0;
  for (const auto& [name, tensor] : tensors) {
    moments += tensor.cols + (tensor.rows > 1 ? tensor.rows : 0);
  }
  return moments;
}

struct Split {
  const char* name;
  void (*change)(Plan&);
};
// Plans under which ranks hold parts of tensors: rows, columns, copies of heads, and shards that
// end anywhere. Small buckets leave some ranks without a shard.
const Split kSplits[] = {
    {"tp", [](Plan& p) { p.tp = 2; }},
    {"split rows and vocabulary",
     [](Plan& p) { p.tp = 4, p.sequence_parallel = p.vocab_parallel = true; }},
    {"zero 1", [](Plan& p) { p.dp = 2, p.zero_stage = 1; }},
    {"zero 2", [](Plan& p) { p.dp = 4, p.zero_stage = 2, p.bucket_bytes = 1000; }},
    {"zero 3", [](Plan& p) { p.dp = 4, p.zero_stage = 3; }},
    {"replicas of shards", [](Plan& p) { p.dp = 4, p.zero_stage = 1, p.replicas = 2; }},
    {"tp and zero 1", [](Plan& p) { p.tp = p.dp = 2, p.zero_stage = 1; }},
    {"tp, pp and zero 3", [](Plan& p) { p.tp = p.pp = p.dp = 2, p.zero_stage = 3; }},
    {"pp and zero 2", [](Plan& p) { p.pp = p.dp = 2, p.zero_stage = 2, p.bucket_bytes = 1; }},
};

// Gradients come from runs of one step each on one rank. Sums in fp32 are right to a few units of
// 2^-24, and a step has the size 1e-2 times that of the parameters.
TEST(Adafactor, UpdatesEachTensorByItsFormulas) {
  const ModelSpec model = TinyLlama();
  std::vector<Split> splits = {{"one rank", [](Plan&) {}}};
  splits.insert(splits.end(), std::begin(kSplits), std::end(kSplits));
  for (const Split& split : splits) {
    const Plan single = AdafactorPlan();
    Plan plan = single;
    split.change(plan);
    TrainingOptions options;
    auto data = TokenData::FromText(TrainingText(), "text", model.vocab, single);
    auto parameters = *ReadTensors(model, InitialWeights(model, options.seed));
    std::map<std::string, reference::AdafactorState> states;
    for (int step = 0; step < 3; ++step) {
      options.steps = step + 1;
      const Trained trained = TrainTiny(model, plan, options);
      const Trained now = OneStep(model, single, SourceOf(parameters), step, **data);
      for (const auto& [name, tensor] : parameters) {
        reference::AdafactorState& state = states[name];
        state.rows = static_cast<std::size_t>(tensor.rows);
        state.param.assign(tensor.values.begin(), tensor.values.end());
        reference::Adafactor({.lr = 1e-2, .weight_decay = tensor.rows > 1 ? 0.1 : 0.0}, step + 1,
                             now.gradients.at(name).values, state);
        const std::vector<float>& actual = trained.parameters.at(name).values;
        double largest = 0;
        for (std::size_t i = 0; i < actual.size(); ++i) {
          largest = std::max(largest, std::fabs(actual[i] - state.param[i]));
        }
        EXPECT_LT(largest, 2e-6) << split.name << ", " << name << ", step " << step;
      }
      parameters = trained.parameters;
    }
  }
}

// Steps are shares of the size of a tensor, so that a short training needs a large rate. A key's
// bias has a gradient of roundings alone, which attention over parts of a sequence changes.
TEST(Adafactor, HasTheLossesOfOneRankUnderOtherPlans) {
  struct Case {
    void (*change)(Plan&);
    float tolerance = 1e-4F;
  };
  const Case cases[] = {
      {[](Plan& p) { p.dp = 4; }},
      {[](Plan& p) { p.pp = 4; }},
      {[](Plan& p) { p.cp = 2; }, 1e-2F},
      {[](Plan& p) { p.dp = 2, p.ep = 2; }},
      {[](Plan& p) { p.tp = p.dp = p.ep = 2; }},
      {[](Plan& p) { p.tp = p.ep = 2, p.expert_tp = 1; }},
      {[](Plan& p) { p.dp = 4, p.ep = 2, p.zero_stage = 1; }},
      {[](Plan& p) { p.tp = p.dp = p.ep = 2, p.expert_tp = 1, p.zero_stage = 3; }},
      {[](Plan& p) { p.dp = p.pp = p.vpp = 2, p.schedule = ScheduleKind::kInterleaved; }},
      {[](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kZbH1, p.bucket_bytes = 1000; }},
      {[](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kDualPipe; }}};
  std::vector<Case> all(std::begin(cases), std::end(cases));
  for (const Split& split : kSplits) all.push_back({split.change});
  for (const ModelSpec& model : {TinyGpt(), TinyExperts()}) {
    Plan single = AdafactorPlan();
    single.clip_norm = 0.5;
    TrainingOptions options;
    options.learning_rate = 0.2F;
    const Trained one = TrainTiny(model, single, options);
    EXPECT_LT(one.losses.back(), one.losses.front() - 0.1F);
    for (const Case& c : all) {
      Plan plan = single;
      c.change(plan);
      if (!ValidatePlan(plan, model)) continue;  // experts of a model without them
      const Trained trained = TrainTiny(model, plan, options);
      for (std::size_t i = 0; i < one.losses.size(); ++i) {
        EXPECT_NEAR(trained.losses[i], one.losses[i], c.tolerance)
            << Describe(plan) << ", step " << i;
      }
    }
  }
}

TEST(Adafactor, TrainsWithMastersAndAverages) {
  Plan plan = AdafactorPlan();
  plan.dp = plan.tp = 2, plan.zero_stage = 2;
  plan.precision = Precision::kBf16, plan.average_decay = 0.9;
  TrainingOptions options;
  options.learning_rate = 0.2F;
  const Trained trained = TrainTiny(TinyGpt(), plan, options);
  EXPECT_LT(trained.losses.back(), trained.losses.front() - 0.1F);
  plan.weights = WeightStorage::kAlone;
  const Trained alone = TrainTiny(TinyGpt(), plan, options);
  EXPECT_NEAR(alone.losses.back(), trained.losses.back(), 0.1F);
}

// Buffers of optimizer state hold a number for each row and column. The checkpoint's forecast
// counts the same numbers, and with experts on two ranks those of both.
TEST(Adafactor, KeepsMomentsOfRowsAndColumns) {
  for (const ModelSpec& model : {TinyGpt(), TinyLlama(), TinyExperts()}) {
    const auto tensors = *ReadTensors(model, InitialWeights(model, 5));
    Plan plan = AdafactorPlan();
    EXPECT_EQ(FactoredMoments(model, plan), MomentsOf(tensors)) << model.name;
    const auto program = Compile(model, plan);
    ASSERT_TRUE(program.has_value()) << program.error().message;
    std::int64_t bytes = 0;
    for (const Buffer& buffer : program->ranks[0].buffers) {
      if (buffer.category == Category::kOptimizerState) bytes += buffer.bytes;
    }
    EXPECT_EQ(bytes, 4 * MomentsOf(tensors)) << model.name;
    std::int64_t saved = 0, numbers = 0;
    const auto pieces = SavedPieces(*program);
    for (const StatePiece& piece : pieces[0]) {
      if (piece.kind != StateKind::kRank) saved += piece.bytes();
    }
    for (const auto& [name, tensor] : tensors) numbers += tensor.rows * tensor.cols;
    EXPECT_EQ(saved, 4 * (numbers + MomentsOf(tensors))) << model.name;
    if (model.experts == 0) continue;
    plan.dp = plan.ep = 2;
    EXPECT_EQ(FactoredMoments(model, plan), MomentsOf(tensors)) << model.name;
  }
}

// Ranks hold the moments of whole tensors alike, and each is saved once.
TEST(Adafactor, SavesEachMomentOnceWhereRanksHoldParts) {
  for (const Split& split : kSplits) {
    Plan plan = AdafactorPlan();
    split.change(plan);
    const ModelSpec model = TinyGpt();
    const auto program = Compile(model, plan);
    ASSERT_TRUE(program.has_value()) << program.error().message;
    std::int64_t rows = 0, cols = 0;
    for (const auto& rank : SavedPieces(*program)) {
      for (const StatePiece& piece : rank) {
        if (piece.kind == StateKind::kMoment1) rows += piece.elements();
        if (piece.kind == StateKind::kMoment2) cols += piece.elements();
      }
    }
    EXPECT_EQ(rows + cols, FactoredMoments(model, plan)) << split.name;
  }
}

TEST(Adafactor, GoesOnToTheBit) {
  Plan plan = AdafactorPlan();
  plan.dp = plan.ep = 2;
  ExpectGoesOnToTheBit(TinyExperts(), plan);
  for (const Split& split : kSplits) {
    SCOPED_TRACE(split.name);
    Plan of_parts = AdafactorPlan();
    split.change(of_parts);
    ExpectGoesOnToTheBit(TinyGpt(), of_parts);
  }
}

// From data parallelism, tensor parallelism and shards to a pipeline, and back.
TEST(Adafactor, GoesOnUnderAnotherPlan) {
  const auto whole = TrainSaved(TinyGpt(), AdafactorPlan(), {});
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  Plan pipeline = AdafactorPlan();
  pipeline.pp = 4, pipeline.bucket_bytes = 1000;
  std::vector<std::pair<Plan, Plan>> pairs;
  for (const Split& split :
       {Split{"dp", [](Plan& p) { p.dp = 2; }}, kSplits[0], kSplits[1], kSplits[3], kSplits[7]}) {
    Plan plan = AdafactorPlan();
    split.change(plan);
    pairs.emplace_back(plan, pipeline);
    pairs.emplace_back(pipeline, plan);
  }
  for (const auto& [from, to] : pairs) {
    SCOPED_TRACE(Describe(from) + " to " + Describe(to));
    const SavedRun first{.folder = FreshFolder(), .steps = 2};
    ASSERT_TRUE(TrainSaved(TinyGpt(), from, first).has_value());
    const auto rest = TrainSaved(TinyGpt(), to, {.from = first.folder});
    ASSERT_TRUE(rest.has_value()) << rest.error().message;
    ASSERT_EQ(rest->losses.size(), 2U);
    EXPECT_NEAR(rest->losses[0], whole->losses[2], 1e-5);
    EXPECT_NEAR(rest->losses[1], whole->losses[3], 1e-5);
    if (!HasFailure()) std::filesystem::remove_all(first.folder);
  }
}

TEST(Adafactor, DoesNotGoOnFromAnotherOptimizersMoments) {
  const SavedRun first{.folder = FreshFolder(), .steps = 2};
  Plan plan = AdafactorPlan();
  ASSERT_TRUE(TrainSaved(TinyGpt(), plan, first).has_value());
  plan.optimizer = OptimizerKind::kAdamW;
  const auto other = TrainSaved(TinyGpt(), plan, {.from = first.folder});
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code, ErrorCode::kInvalidArgument);
  if (!HasFailure()) std::filesystem::remove_all(first.folder);
}

}  // namespace
}  // namespace foretrain
