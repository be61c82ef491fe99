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

}  // namespace
}  // namespace foretrain
