// The loss of an evaluation, and that it leaves the training as it is.
#include "runtime/run/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu/cpu_device.h"
#include "runtime/data/token_data.h"
#include "runtime/parameters/tensors.h"
#include "runtime/run/rank_world.h"
#include "tests/runtime/equality/training_by_hand.h"
#include "tests/runtime/executor/recording_sink.h"
#include "tests/runtime/gather_tensors.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

constexpr std::int64_t kBatches = 3;

// A training on TrainingText with an evaluator of the text's first batches.
class Session {
 public:
  Session(const ModelSpec& model, const Plan& plan, const TensorSource& weights = nullptr) {
    auto program = Compile(model, plan);
    EXPECT_TRUE(program.has_value()) << program.error().message;
    auto evaluation = CompileEvaluation(*program);
    EXPECT_TRUE(evaluation.has_value()) << evaluation.error().message;
    data_ = *TokenData::FromText(TrainingText(), "text", model.vocab, plan);
    ExecutorOptions options;
    options.poison = true;
    options.seed = 5;
    options.learning_rate = [](std::int64_t) { return 1e-2F; };
    executor_ = *Executor::Make(std::make_shared<const Program>(*std::move(program)),
                                CpuDeviceApi(), clock_, options);
    const TensorSource initial = weights ? weights : InitialWeights(model, options.seed);
    EXPECT_TRUE(FillParameters(*executor_, initial).has_value());
    const EvaluationJob job{std::make_shared<const Program>(*std::move(evaluation)), /*every=*/1,
                            kBatches, data_.get()};
    evaluator_ = *HeldOutLoss::Make(job, *executor_, CpuDeviceApi(), clock_, options);
  }

  double Evaluate() {
    const auto evaluation = evaluator_->Run(/*step=*/0);
    EXPECT_TRUE(evaluation.has_value()) << evaluation.error().message;
    return evaluation.has_value() ? evaluation->loss : std::nan("");
  }
  // The losses of `steps` steps.
  std::vector<float> Train(std::int64_t steps) {
    RecordingSink sink;
    const auto run = executor_->Run(steps, *data_, sink);
    EXPECT_TRUE(run.has_value()) << run.error().message;
    std::vector<float> losses;
    for (const StepScalars& scalars : sink.scalars) {
      if (scalars.rank == executor_->Rank(0).rank) losses.push_back(scalars.loss.value_or(0));
    }
    return losses;
  }
  TensorMap Parameters() { return GatherTensors(*executor_, GatheredState::kParameters); }
  TensorMap Averages() { return GatherTensors(*executor_, GatheredState::kAverage); }
  TensorMap Moments() { return GatherTensors(*executor_, GatheredState::kMoment2); }

 private:
  RealClock clock_;
  std::unique_ptr<TokenData> data_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<HeldOutLoss> evaluator_;  // before the executor whose memory it uses
};

struct Case {
  const char* name;
  void (*change)(Plan& plan);
};

const Case kCases[] = {
    {"dp", [](Plan& p) { p.dp = 2; }},
    {"zero 1", [](Plan& p) { p.dp = 2, p.zero_stage = 1; }},
    {"zero 3", [](Plan& p) { p.dp = 4, p.zero_stage = 3; }},
    {"zero 3, by micro-batch",
     [](Plan& p) { p.dp = 2, p.zero_stage = 3, p.reduction_time = ReductionTime::kMicroBatch; }},
    {"tp", [](Plan& p) { p.tp = 2, p.vocab_parallel = true; }},
    {"sequence parallel", [](Plan& p) { p.tp = 2, p.sequence_parallel = true; }},
    {"pp", [](Plan& p) { p.pp = 2; }},
    {"gpipe, dp", [](Plan& p) { p.pp = p.dp = 2, p.schedule = ScheduleKind::kGpipe; }},
    {"interleaved", [](Plan& p) { p.pp = 2, p.vpp = 2, p.schedule = ScheduleKind::kInterleaved; }},
    {"zb-h1", [](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kZbH1; }},
    {"zb-v", [](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kZbV; }},
    {"dualpipe", [](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kDualPipe; }},
    {"dualpipe-v", [](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kDualPipeV; }},
    {"cp ring", [](Plan& p) { p.cp = 2; }},
    {"cp all-gather", [](Plan& p) { p.cp = 2, p.cp_kind = ContextParallelKind::kAllGather; }},
    {"recompute", [](Plan& p) { p.recompute = RecomputeKind::kFull; }},
    {"loss chunks", [](Plan& p) { p.loss_chunks = 3, p.clip_norm = 1; }},
    {"fused loss", [](Plan& p) { p.fuse = FusionKind::kAll; }},
    {"loss scale", [](Plan& p) { p.loss_scale = 1024, p.loss_scale_window = 2; }},
    {"offloaded",
     [](Plan& p) {
       p.dp = 2, p.zero_stage = 3;
       p.offload_optimizer = p.offload_parameters = OffloadTarget::kHost;
       p.offload_activations = OffloadTarget::kHost;
     }},
    {"moving average", [](Plan& p) { p.dp = 2, p.zero_stage = 1, p.average_decay = 0.5; }},
    {"on a disk",
     [](Plan& p) { p.offload_optimizer = p.offload_parameters = OffloadTarget::kNvme; }},
    {"all", [](Plan& p) { p.dp = p.tp = p.pp = 2, p.zero_stage = 1, p.clip_norm = 1; }},
};

// Ranks that are processes have the communicators of the training alone.
TEST(Evaluation, ExchangesTensorsInGroupsOfTheTraining) {
  for (const Case& c : kCases) {
    Plan plan = TinyPlan();
    c.change(plan);
    auto training = Compile(TinyGpt(), plan);
    ASSERT_TRUE(training.has_value()) << training.error().message;
    const auto evaluation = CompileEvaluation(*training);
    ASSERT_TRUE(evaluation.has_value()) << evaluation.error().message;
    for (std::size_t rank = 0; rank < training->ranks.size(); ++rank) {
      EXPECT_THAT(KeysOf(*training, training->ranks[rank]),
                  testing::IsSupersetOf(KeysOf(*evaluation, evaluation->ranks[rank])))
          << c.name;
    }
  }
}

// Sums in another order change a loss of about 5 by a few of its roundings, 2^-24 of it each.
constexpr double kTolerance = 1e-6;

TEST(Evaluation, IsTheLossOfOneRankUnderEveryPlan) {
  const ModelSpec model = TinyGpt();
  Session one(model, TinyPlan());
  const double expected = one.Evaluate();
  EXPECT_GT(expected, 1.0);
  for (const Case& c : kCases) {
    Plan plan = TinyPlan();
    c.change(plan);
    Session session(model, plan);
    EXPECT_NEAR(session.Evaluate(), expected, kTolerance) << c.name;
  }
}

// The batches are the training's first ones, and its weights do not change with learning rate 0.
TEST(Evaluation, IsTheMeanOfTheLossesOfItsBatches) {
  Plan plan = TinyPlan();
  plan.dp = 2;
  Session session(TinyGpt(), plan);
  TrainingOptions still;
  still.steps = kBatches;
  still.learning_rate = 0;
  const Trained trained = TrainTiny(TinyGpt(), plan, still);
  double sum = 0;
  for (const float loss : trained.losses) sum += double{loss};
  EXPECT_EQ(session.Evaluate(), sum / kBatches);
  EXPECT_EQ(session.Evaluate(), sum / kBatches);
}

// Trains with and without an evaluation after each step.
void ExpectNothingChanged(const ModelSpec& model, const Plan& plan) {
  Session plain(model, plan), evaluated(model, plan);
  const double before = evaluated.Evaluate();
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(plain.Train(1), evaluated.Train(1));
    EXPECT_NE(evaluated.Evaluate(), before);
  }
  const TensorMap parameters = plain.Parameters(), moments = plain.Moments();
  for (const auto& [name, tensor] : evaluated.Parameters()) {
    EXPECT_EQ(tensor.values, parameters.at(name).values) << name;
  }
  for (const auto& [name, tensor] : evaluated.Moments()) {
    EXPECT_EQ(tensor.values, moments.at(name).values) << name;
  }
}

TEST(Evaluation, ChangesNoBitOfTheTraining) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    Plan plan = TinyPlan();
    c.change(plan);
    ExpectNothingChanged(TinyGpt(), plan);
  }
}

TEST(Evaluation, CountsNoTokensForRouterBiases) {
  ModelSpec model = TinyLatent();
  model.router_bias_rate = 0.01;
  for (const int ahead : {0, 1}) {
    model.predict_ahead = ahead;
    for (const auto change : {+[](Plan&) {}, +[](Plan& p) { p.dp = p.ep = 2; },
                              +[](Plan& p) { p.dp = 2, p.zero_stage = 3; },
                              +[](Plan& p) { p.pp = 2, p.recompute = RecomputeKind::kFull; }}) {
      Plan plan = TinyPlan();
      change(plan);
      SCOPED_TRACE(Describe(plan));
      ExpectNothingChanged(model, plan);
    }
  }
}

// A fresh session has averages equal to its weights.
TEST(Evaluation, UsesMovingAverages) {
  void (*const changes[])(Plan&) = {
      [](Plan&) {}, [](Plan& p) { p.dp = 2, p.zero_stage = 1; },
      [](Plan& p) { p.dp = 2, p.zero_stage = 3; }, [](Plan& p) { p.tp = p.pp = 2; },
      [](Plan& p) { p.dp = 2, p.zero_stage = 1, p.precision = Precision::kBf16; }};
  for (const auto change : changes) {
    Plan plan = TinyPlan();
    plan.average_decay = 0.5;
    change(plan);
    Session session(TinyGpt(), plan);
    session.Train(3);
    const TensorMap averages = session.Averages(), parameters = session.Parameters();
    Session averaged(TinyGpt(), plan, SourceOf(averages));
    Session newest(TinyGpt(), plan, SourceOf(parameters));
    const double loss = session.Evaluate();
    EXPECT_EQ(loss, averaged.Evaluate()) << Describe(plan);
    EXPECT_NE(loss, newest.Evaluate()) << Describe(plan);
  }
}

TEST(Evaluation, DropsNothingOut) {
  Plan plan = TinyPlan();
  Session without(TinyGpt(), plan);
  plan.dropout = 0.2;
  plan.attention_dropout = 0.1;
  Session with(TinyGpt(), plan);
  EXPECT_EQ(with.Evaluate(), without.Evaluate());
  EXPECT_NE(with.Train(1), without.Train(1));
}

TEST(Evaluation, IsRefusedIfStepsOverlap) {
  Plan plan = TinyPlan();
  plan.pp = 2;
  plan.schedule = ScheduleKind::kPipeDream2bw;
  auto program = Compile(TinyGpt(false), plan);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  const auto evaluation = CompileEvaluation(*program);
  ASSERT_FALSE(evaluation.has_value());
  EXPECT_EQ(evaluation.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(evaluation.error().message.find("schedule pipedream-2bw: steps overlap"),
            std::string::npos)
      << evaluation.error().message;
}

}  // namespace
}  // namespace foretrain
