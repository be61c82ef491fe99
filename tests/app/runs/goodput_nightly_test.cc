// Goodput of trainings that are killed at random times and start again, against its forecast.
// Minutes, because each must fail several times.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "sim/cost/goodput.h"
#include "tests/app/commands/small_run.h"

namespace foretrain {
namespace {

using Json = nlohmann::json;

constexpr double kMeanAliveS = 6;  // between two kills
constexpr int kRuns = 10;
constexpr int kWithin = 8;  // of kRuns, with a forecast within kError
constexpr double kError = 0.05;

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double StepSeconds(const std::string& output) {
  double sum_s = 0;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line);
    if (json.contains("step_time_s") && json.contains("step")) {
      sum_s += json["step_time_s"].get<double>();
    }
  }
  return sum_s;
}

// Runs the command and kills its child, the training, after each of the times.
std::string KillingScript(const std::string& arguments, std::mt19937_64& random) {
  std::exponential_distribution<double> alive(1 / kMeanAliveS);
  std::string script = "$FORETRAIN " + arguments + " & parent=$!\nfor time in";
  for (int i = 0; i < 100; ++i) script += fmt::format(" {:.2f}", alive(random));
  return script +
         "; do sleep $time; kill -0 $parent 2>/dev/null || break; "
         "kill -9 $(cat /proc/$parent/task/$parent/children) 2>/dev/null; done\nwait $parent";
}

int Restarts(const std::string& errors) {
  int count = 0;
  for (std::size_t at = 0; (at = errors.find("it starts again from step", at)) != std::string::npos;
       ++at) {
    ++count;
  }
  return count;
}

// The forecast gets what a quiet run measures, and how often the training really failed.
TEST(Goodput, OfKilledTrainingsIsForecast) {
  const TemporaryFolder folder;
  folder.Write("text.txt", std::string(50'000, 'x'));
  const std::string train =
      "train --model gpt-10m --layers 2 --hidden 128 --heads 4 --sequence 64 --global-batch 8 "
      "--ranks 2 --dp 2 --data text.txt --capture off --json --save ";
  const ProgramEnd first = RunForetrain(folder.path(), train + "--steps 20 --save-every 10");
  ASSERT_EQ(first.code, 0) << first.errors;
  const auto start = std::chrono::steady_clock::now();
  const ProgramEnd quiet = RunForetrain(folder.path(), "train --resume --steps 40 --json");
  ASSERT_EQ(quiet.code, 0) << quiet.errors;
  const double restart_s = SecondsSince(start) - StepSeconds(quiet.output);
  const double step_s = StepSeconds(quiet.output) / 20;
  const Json cost_json = LastLine(quiet.output)["checkpoint_cost"];
  const CheckpointCost cost{.copy_s = cost_json["copy_s"], .write_s = cost_json["write_s"]};
  const auto every = static_cast<int>(std::ceil(1 / step_s));
  const auto steps = static_cast<int>(20 / step_s);
  std::mt19937_64 random(1);
  int within = 0;
  for (int run = 0; run < kRuns; ++run) {
    RunCommand(folder.path(), "rm -rf checkpoints foretrain.db*");
    const auto began = std::chrono::steady_clock::now();
    const ProgramEnd end = RunCommand(
        folder.path(), KillingScript(fmt::format("{} --steps {} --save-every {} --restarts 99",
                                                 train, steps, every),
                                     random));
    ASSERT_EQ(end.code, 0) << end.errors;
    const double all_s = SecondsSince(began);
    const int failures = Restarts(end.errors);
    const double measured = LastLine(end.output)["goodput"];
    const double forecast =
        failures == 0 ? GoodputOf(every * step_s, cost, {1e9, restart_s}).share
                      : GoodputOf(every * step_s, cost, {all_s / failures, restart_s}).share;
    within += std::abs(forecast / measured - 1) <= kError ? 1 : 0;
    std::printf("%d failures in %.1f s: goodput %.3f, forecast %.3f\n", failures, all_s, measured,
                forecast);
  }
  EXPECT_GE(within, kWithin);
}

}  // namespace
}  // namespace foretrain
