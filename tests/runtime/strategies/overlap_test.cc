// Plans with overlapping steps train as their sequential definition says.
//
//   PipeDream   w(k + 1) = w(k) - lr g_k(w(k - d)), k counting micro-batches, d = p - 1 - r on the
//   stage of
//               rank r: each tensor's gradient uses the older parameters of its own stage
//   2BW         w(t + 1) = w(t) - lr g_t(w(t - 1)), t counting steps
//
// Here w(i) = w(0) for i < 0. A drained pipeline starts anew: w(i) is then the run's start for
// earlier i.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/cpu/cpu_device.h"
#include "runtime/data/token_data.h"
#include "runtime/run/trainer.h"
#include "tests/runtime/equality/training_by_hand.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

constexpr double kLossTolerance = 1e-5;

// Micro-batch k as a step, with k counting through steps and over all data-parallel ranks.
class OneMicroBatch final : public BatchSource {
 public:
  OneMicroBatch(BatchSource& data, std::int64_t micro_batches)
      : data_(data), micro_batches_(micro_batches) {}

  Result<void> Fill(const BatchRequest& request, std::span<std::int32_t> ids,
                    std::span<std::int32_t> targets) override {
    return data_.Fill({.step = request.step / micro_batches_,
                       .dp = request.micro_batch,
                       .micro_batch = static_cast<int>(request.step % micro_batches_)},
                      ids, targets);
  }

 private:
  BatchSource& data_;
  std::int64_t micro_batches_;
};

// Updates the parameters one step at a time, by hand.
class ByHand {
 public:
  ByHand(const ModelSpec& model, const Plan& plan, const TrainingOptions& options)
      : model_(model), plan_(plan), options_(options), program_(*Compile(model, Single(plan))) {
    const auto stages = Compile(model, plan);
    for (const RankProgram& rank : stages->ranks) {
      const int delay = plan.UpdatesEachMicroBatch() ? plan.pp - 1 - rank.pp : 1;
      for (const ParameterPlace& place : rank.parameters) delays_[place.name] = delay;
    }
    auto data = TokenData::FromText(TrainingText(), "text", model.vocab, plan);
    data_ = *std::move(data);
  }

  // Starts another run from the newest parameters.
  void Drain() { versions_ = {versions_.back()}; }

  // Returns the next step's loss.
  float Step() {
    if (!plan_.UpdatesEachMicroBatch()) {
      auto data = TokenData::FromText(TrainingText(), "text", model_.vocab, Single(plan_));
      return Update(**data);
    }
    const std::int64_t m = plan_.MicroBatches();
    OneMicroBatch data(*data_, m);
    double sum = 0;
    for (std::int64_t i = 0; i < m; ++i) sum += Update(data);
    return static_cast<float>(sum / static_cast<double>(m));
  }

  const TensorMap& parameters() const { return versions_.back(); }

 private:
  // The batch of one update, on one rank.
  static Plan Single(Plan plan) {
    plan.global_batch = plan.SamplesOfUpdate();
    plan.dp = plan.tp = plan.pp = plan.cp = plan.replicas = 1;
    plan.sequence_parallel = plan.vocab_parallel = false;
    plan.zero_stage = 0;
    plan.tp_tiles = 1;
    plan.schedule = ScheduleKind::k1f1b;
    return plan;
  }

  // The parameters for the next update's passes: for each tensor the version of its stage.
  TensorMap Older() const {
    TensorMap older = versions_.back();
    for (auto& [name, tensor] : older) {
      const auto back =
          std::min<std::size_t>(static_cast<std::size_t>(delays_.at(name)), versions_.size() - 1);
      tensor = (versions_.end() - 1 - static_cast<std::ptrdiff_t>(back))->at(name);
    }
    return older;
  }

  float Update(BatchSource& data) {
    const int number = updates_++;
    const bool first = versions_.empty();
    const TensorMap older = first ? TensorMap{} : Older();
    const Trained now =
        OneStep(model_, Single(plan_),
                first ? InitialWeights(model_, options_.seed) : SourceOf(older), number, data);
    if (first) versions_.push_back(now.parameters);  // the learning rate is 0
    TensorMap next = versions_.back();
    for (const ParameterPlace& place : program_.ranks[0].parameters) {
      UpdateByHand(plan_.optimizer, place, now.gradients.at(place.name), number + 1,
                   options_.learning_rate, next.at(place.name), moments_[place.name]);
    }
    versions_.push_back(std::move(next));
    return now.losses.front();
  }

  ModelSpec model_;
  Plan plan_;
  TrainingOptions options_;
  Program program_;
  std::unique_ptr<BatchSource> data_;
  std::map<std::string, int> delays_;  // by tensor, in updates
  std::map<std::string, Moments> moments_;
  std::vector<TensorMap> versions_;  // newest last
  int updates_ = 0;
};

Plan Overlapping(ScheduleKind schedule, int pp) {
  Plan plan = TinyPlan();
  plan.pp = pp;
  plan.schedule = schedule;
  return plan;
}

void ExpectDefined(const ModelSpec& model, const Plan& plan, const TrainingOptions& options) {
  SCOPED_TRACE(Describe(plan));
  const Trained trained = TrainTiny(model, plan, options);
  ByHand by_hand(model, plan, options);
  double farthest = 0;
  for (const float loss : trained.losses) {
    const float expected = by_hand.Step();
    farthest = std::max<double>(farthest, std::fabs(loss - expected) / expected);
  }
  EXPECT_LE(farthest, kLossTolerance);
  // AdamW turns a key bias's gradient, which is only rounding, into whole steps.
  if (plan.optimizer == OptimizerKind::kSgd) {
    EXPECT_LE(LargestDifference(trained.parameters, by_hand.parameters()), 1e-5);
  }
}

// Small rates: with large ones a delay makes training chaotic and amplifies differences in
// summation.
TrainingOptions TwentySteps() {
  TrainingOptions options;
  options.steps = 20;
  options.learning_rate = 1e-3F;
  return options;
}

TEST(OverlappingSteps, Of2bwTrainByGradientsOneStepOld) {
  ExpectDefined(TinyGpt(), Overlapping(ScheduleKind::kPipeDream2bw, 4), TwentySteps());
  ExpectDefined(TinyLlama(), Overlapping(ScheduleKind::kPipeDream2bw, 1), TwentySteps());
}

TEST(OverlappingSteps, OfPipeDreamTrainEachStageByGradientsAsOldAsRanksFollow) {
  ExpectDefined(TinyGpt(false), Overlapping(ScheduleKind::kPipeDream, 4), TwentySteps());
  ExpectDefined(TinyLlama(), Overlapping(ScheduleKind::kPipeDream, 3), TwentySteps());
}

TEST(OverlappingSteps, TrainBySgdToo) {
  TrainingOptions options = TwentySteps();
  options.learning_rate = 1e-1F;
  for (const ScheduleKind kind : {ScheduleKind::kPipeDream, ScheduleKind::kPipeDream2bw}) {
    Plan plan = Overlapping(kind, 2);
    plan.optimizer = OptimizerKind::kSgd;
    ExpectDefined(TinyGpt(false), plan, options);
  }
}

// Combined with other strategies: data parallelism, shards, recomputation, pieces.
TEST(OverlappingSteps, GoWithOtherStrategies) {
  TrainingOptions options = TwentySteps();
  options.steps = 6;
  for (const ScheduleKind kind : {ScheduleKind::kPipeDream, ScheduleKind::kPipeDream2bw}) {
    Plan plan = Overlapping(kind, 2);
    plan.dp = 2;
    ExpectDefined(TinyGpt(false), plan, options);
    plan.dp = 1;
    plan.tp = 2;
    plan.sequence_parallel = plan.vocab_parallel = true;
    ExpectDefined(TinyLlama(), plan, options);
    plan.tp = 1;
    plan.sequence_parallel = plan.vocab_parallel = false;
    plan.recompute = RecomputeKind::kFull;
    plan.loss_chunks = 3;
    ExpectDefined(TinyGpt(false), plan, options);
    plan.recompute = RecomputeKind::kSelective;
    plan.fuse = FusionKind::kAll;
    ExpectDefined(TinyGpt(false), plan, options);
  }
  for (const int zero : {1, 2}) {
    Plan plan = Overlapping(ScheduleKind::kPipeDream2bw, 2);
    plan.dp = 2;
    plan.zero_stage = zero;
    ExpectDefined(TinyGpt(), plan, options);
  }
}

// As many micro-batches as ranks, and a number that no ring size divides.
TEST(OverlappingSteps, NeedNoEvenNumberOfMicroBatches) {
  TrainingOptions options = TwentySteps();
  options.steps = 5;
  for (const ScheduleKind kind : {ScheduleKind::kPipeDream, ScheduleKind::kPipeDream2bw}) {
    for (const int micro_batches : {4, 5, 7, 11}) {
      Plan plan = Overlapping(kind, 4);
      plan.global_batch = micro_batches;
      ExpectDefined(TinyGpt(false), plan, options);
    }
  }
}

TEST(OverlappingSteps, AreTheSameToTheBitEachTimeAndPoisoned) {
  for (const ScheduleKind kind : {ScheduleKind::kPipeDream, ScheduleKind::kPipeDream2bw}) {
    TrainingOptions options = TwentySteps();
    options.steps = 4;
    const Trained one = TrainTiny(TinyGpt(false), Overlapping(kind, 4), options);
    options.poison = false;
    const Trained other = TrainTiny(TinyGpt(false), Overlapping(kind, 4), options);
    EXPECT_EQ(one.losses, other.losses);
  }
}

// A stopped run drains: every step that began ends with a loss, and the next run fills the pipeline
// again.
TEST(OverlappingSteps, DrainWhereARunEnds) {
  for (const ScheduleKind kind : {ScheduleKind::kPipeDream, ScheduleKind::kPipeDream2bw}) {
    const Plan plan = Overlapping(kind, 4);
    const ModelSpec model = TinyGpt(false);
    auto program = Compile(model, plan);
    ASSERT_TRUE(program.has_value()) << program.error().message;
    auto data = TokenData::FromText(TrainingText(), "text", model.vocab, plan);
    RealClock clock;
    ExecutorOptions executor_options;
    executor_options.timeout_ns = 60'000'000'000;
    const TrainingOptions options = TwentySteps();
    executor_options.learning_rate = [&](std::int64_t) { return options.learning_rate; };
    auto executor = Executor::Make(std::make_shared<const Program>(*std::move(program)),
                                   CpuDeviceApi(), clock, executor_options);
    ASSERT_TRUE(executor.has_value()) << executor.error().message;
    ASSERT_TRUE(FillParameters(**executor, InitialWeights(model, options.seed)).has_value());
    ByHand by_hand(model, plan, options);
    std::int64_t next = 0;
    for (int run = 0; run < 3; ++run) {
      RecordingSink sink;
      std::atomic<int> asked{0};
      auto summary = (*executor)->Run(6, **data, sink, [&] { return run == 1 && ++asked > 8; });
      ASSERT_TRUE(summary.has_value()) << summary.error().message;
      EXPECT_EQ(summary->stopped, run == 1);
      ASSERT_EQ(sink.scalars.size(), static_cast<std::size_t>(summary->steps));
      for (const StepScalars& scalars : sink.scalars) {
        EXPECT_EQ(scalars.step, next++);
        EXPECT_EQ(scalars.rank, 3);
        const float expected = by_hand.Step();
        EXPECT_NEAR(*scalars.loss, expected, kLossTolerance * expected) << "step " << scalars.step;
      }
      EXPECT_EQ((*executor)->next_step(), next);
      by_hand.Drain();
    }
  }
}

// One report a step, from the rank that has the loss.
TEST(OverlappingSteps, ReportTheLossOfTheStepWhoseBackwardsEnded) {
  const Plan plan = Overlapping(ScheduleKind::kPipeDream2bw, 2);
  TrainJob job;
  auto program = Compile(TinyGpt(), plan);
  ASSERT_TRUE(program.has_value());
  job.program = std::make_shared<const Program>(*std::move(program));
  job.steps = 4;
  auto data = TokenData::FromText(TrainingText(), "text", 256, plan);
  RealClock clock;
  RecordingSink sink;
  ASSERT_TRUE(Train(job, CpuDeviceApi(), clock, **data, sink).has_value());
  ASSERT_EQ(sink.reports.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(sink.reports[i].step, static_cast<std::int64_t>(i));
    EXPECT_GT(sink.reports[i].loss, 1.0);
  }
}

}  // namespace
}  // namespace foretrain
