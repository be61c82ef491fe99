// `calibrate --from-run` and `--step-time` as a user runs them, and the forecasts after them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/app/commands/small_run.h"
#include "tests/app/run_binary.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kRun =
    "--model llama3-8b --cluster 1x8xh100 --preset megatron --tp 2 --precision bf16 --sequence "
    "4096 "
    "--global-batch 32 ";

nlohmann::json Forecast(const TemporaryFolder& folder, const std::string& options) {
  const ProgramEnd end = RunForetrain(folder.path(), "predict --json " + options);
  return nlohmann::json::parse(end.output, nullptr, /*allow_exceptions=*/false);
}

// Half as long again as forecast: forecasts of this plan and of others then lie nearer, with a
// narrower interval, and say why. Another device and another system are not touched.
TEST(Learning, OneStepTimeMovesLaterForecastsOfItsSystemAndDevice) {
  const TemporaryFolder folder;
  const nlohmann::json before = Forecast(folder, kRun);
  const double step_s = before.at("step_time_s");
  const double measured_s = 1.5 * step_s;
  const ProgramEnd learned = RunForetrain(
      folder.path(), "calibrate --step-time " + std::to_string(measured_s) + "s " + kRun);
  ASSERT_EQ(learned.code, 0) << learned.errors;
  EXPECT_THAT(learned.output, HasSubstr("Written to"));
  const nlohmann::json after = Forecast(folder, kRun);
  EXPECT_LT(std::abs(std::log(after.at("step_time_s").get<double>() / measured_s)),
            0.5 * std::log(1.5));
  EXPECT_LT(after.at("relative_error").get<double>(), before.at("relative_error").get<double>());
  EXPECT_THAT(after.at("rates").get<std::string>(), HasSubstr("learned from 1 run ("));
  // Other systems and devices.
  EXPECT_THAT(Forecast(folder, "--model llama3-8b --cluster 1x8xh100").at("rates"),
              Not(HasSubstr("learned")));
  EXPECT_THAT(
      Forecast(folder, "--model llama3-8b --cluster 1x8xa100 --preset megatron").at("rates"),
      Not(HasSubstr("learned")));
  // The search uses it too.
  const ProgramEnd plan =
      RunForetrain(folder.path(), std::string("plan ") + kRun + "--zero 1 --micro-batch 1");
  ASSERT_EQ(plan.code, 0) << plan.errors;
  EXPECT_THAT(plan.output, AllOf(HasSubstr("learned from 1 run ("), HasSubstr("first is faster")));
}

// A stored run brings its own plan and machine.
TEST(Learning, AStoredRunNeedsNoFurtherOption) {
  const TemporaryFolder folder;
  ASSERT_EQ(RunForetrain(folder.path(), SmallTraining(folder)).code, 0);
  const ProgramEnd end =
      RunForetrain(folder.path(), "calibrate --from-run foretrain.db,foretrain.db --json");
  ASSERT_EQ(end.code, 0) << end.errors;
  const auto json = nlohmann::json::parse(end.output, nullptr, /*allow_exceptions=*/false);
  EXPECT_EQ(json.at("runs_learned"), 2);
  EXPECT_EQ(json.at("runs").size(), 2U);
  const double measured = std::log(json.at("runs")[0].at("step_time_s").get<double>());
  const double before =
      std::log(json.at("runs")[0].at("predicted_step_time_before_s").get<double>());
  const double after = std::log(json.at("runs")[0].at("predicted_step_time_s").get<double>());
  EXPECT_LE(std::abs(after - measured), std::abs(before - measured));
  const std::string file = json.at("profile");
  EXPECT_THAT(
      RunForetrain(folder.path(), "predict --layers 2 --sequence 32 --device-profile " + file)
          .output,
      HasSubstr("learned from 2 runs"));
}

TEST(Learning, SaysWhatARunLacks) {
  const TemporaryFolder folder;
  ASSERT_EQ(RunForetrain(folder.path(), SmallTraining(folder)).code, 0);
  ASSERT_EQ(RunForetrain(folder.path(), "export --out t.json").code, 0);
  ASSERT_EQ(RunForetrain(folder.path(), "import t.json --store i.db").code, 0);
  const ProgramEnd end = RunForetrain(folder.path(), "calibrate --from-run i.db");
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.errors, HasSubstr("records no plan; give its --model"));
  // The forecast of the training is no measurement.
  const ProgramEnd forecast = RunForetrain(folder.path(), "calibrate --from-run foretrain.db:1");
  EXPECT_EQ(forecast.code, 2);
  EXPECT_THAT(forecast.errors, HasSubstr("no measured step time"));
  EXPECT_THAT(RunForetrain(folder.path(), "calibrate --cluster 1x8xh100").errors,
              HasSubstr("measures this machine"));
  EXPECT_THAT(RunForetrain(folder.path(), "calibrate --step-time 0s").errors,
              HasSubstr("--step-time"));
}

TEST(Explaining, ShowsWhereATimeComesFrom) {
  const TemporaryFolder folder;
  const ProgramEnd end =
      RunForetrain(folder.path(), std::string("predict ") + kRun + "--explain 'mlp.up*'");
  ASSERT_EQ(end.code, 0) << end.errors;
  EXPECT_THAT(end.output, AllOf(HasSubstr("mlp.up"), HasSubstr("hot loop"),
                                HasSubstr("1 / sustained share"), HasSubstr("the host issues it")));
  const ProgramEnd none =
      RunForetrain(folder.path(), std::string("predict ") + kRun + "--explain nothing.here");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.errors, HasSubstr("no op matches"));
}

// Mean seconds of compute of a rank in the forecast step that `options` name.
double ComputeOf(const TemporaryFolder& folder, const std::string& options) {
  const ProgramEnd forecast = RunForetrain(folder.path(), "predict --store compute.db " + options);
  EXPECT_EQ(forecast.code, 0) << forecast.errors;
  const ProgramEnd end = RunForetrain(folder.path(),
                                      "sql compute.db \"SELECT value FROM v_metric WHERE name = "
                                      "'compute_s' AND rank = -1 AND step = "
                                      "-1 ORDER BY run_id DESC LIMIT 1\" --json");
  return LastLine(end.output).at("rows").at(0).at(0).get<double>();
}

// A machine takes 1.8 times the forecast of one node. Its trace of one rank, as PyTorch's profiler
// writes it, gives the compute of 64 and of 10,000 ranks within 1 %, and of other tensor and
// pipeline parallelism, whose shapes were not traced, within 3 %.
TEST(Learning, KernelsOfOneRankGiveTheComputeOfOtherPlansOnMoreRanks) {
  const TemporaryFolder folder;
  const std::string model =
      "--model llama3-8b --layers 8 --preset megatron --precision bf16 --sequence 4096 "
      "--micro-batch 1 ";
  const std::string node = model + "--cluster 1x8xh100 --tp 8 --dp 1 --global-batch 4 ";
  const double step_s = Forecast(folder, node).at("step_time_s");
  ASSERT_EQ(RunForetrain(folder.path(), "calibrate --step-time " + std::to_string(1.8 * step_s) +
                                            "s --out true.json " + node)
                .code,
            0);
  ASSERT_EQ(
      RunForetrain(folder.path(), "predict --device-profile true.json --store t.db " + node).code,
      0);
  ASSERT_EQ(RunForetrain(folder.path(), "export --store t.db --form kineto --out traces").code, 0);
  ASSERT_EQ(RunForetrain(folder.path(), "import traces/rank-0.json --store m.db").code, 0);
  const ProgramEnd learned = RunForetrain(
      folder.path(), "calibrate --from-run m.db --kernels --out ops.json --json " + node);
  ASSERT_EQ(learned.code, 0) << learned.errors;
  const nlohmann::json told = nlohmann::json::parse(learned.output);
  EXPECT_GT(told.at("paired_share").get<double>(), 0.99);
  EXPECT_GT(told.at("ops").get<int>(), 30);
  EXPECT_EQ(told.at("ranks"), 1);
  EXPECT_EQ(told.at("collectives"), false);

  const auto errors_of = [&](const std::string& plan) {
    const double truth = ComputeOf(folder, "--device-profile true.json " + model + plan);
    const double learned_s = ComputeOf(folder, "--device-profile ops.json " + model + plan);
    EXPECT_GT(std::abs(ComputeOf(folder, model + plan) / truth - 1), 0.2) << "says nothing";
    return std::abs(learned_s / truth - 1);
  };
  EXPECT_LT(errors_of("--cluster 8x8xh100 --tp 8 --dp 8 --global-batch 64"), 0.01);
  EXPECT_LT(errors_of("--cluster 1250x8xh100 --tp 8 --dp 1250 --global-batch 5000"), 0.01);
  EXPECT_LT(errors_of("--cluster 8x8xh100 --tp 4 --pp 2 --dp 8 --global-batch 64"), 0.03);
}

TEST(Learning, KernelsNeedARunThatIsOfThePlan) {
  const TemporaryFolder folder;
  const ProgramEnd none = RunForetrain(folder.path(), "calibrate --kernels --out x.json");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.errors, HasSubstr("--kernels: name the run that has them with --from-run"));
  const ProgramEnd step = RunForetrain(
      folder.path(), std::string("calibrate --kernels --out x.json --step-time 1s ") + kRun);
  EXPECT_EQ(step.code, 2);
  ASSERT_EQ(RunForetrain(folder.path(), std::string("predict --store t.db ") + kRun).code, 0);
  ASSERT_EQ(RunForetrain(folder.path(), "export --store t.db --form kineto --out traces").code, 0);
  ASSERT_EQ(RunForetrain(folder.path(), "import traces/rank-0.json --store m.db").code, 0);
  const ProgramEnd out =
      RunForetrain(folder.path(), std::string("calibrate --from-run m.db --kernels ") + kRun);
  EXPECT_EQ(out.code, 2);
  EXPECT_THAT(out.errors, HasSubstr("--kernels: name the file of the profile with --out"));
  const ProgramEnd other = RunForetrain(
      folder.path(),
      "calibrate --from-run m.db --kernels --out x.json --model gpt2-124m --cluster 1x8xh100");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.errors, HasSubstr("are model, cluster and plan those of the trace?"));
}

}  // namespace
}  // namespace foretrain
