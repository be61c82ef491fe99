// Trainings of every preset at toy size, each killed at five random moments: what goes on has the
// losses of one that was not killed. Minutes, because each kill is two runs of eight ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <random>
#include <thread>

#include "base/hash.h"
#include "base/text.h"
#include "tests/base/child.h"
#include "tests/runtime/checkpoint/saved_run.h"
#include "tests/runtime/training.h"
#include "tests/sim/preset_plans.h"

namespace foretrain {
namespace {

constexpr int kKills = 5;
constexpr int kSteps = 8;

// Losses with all their bits, one a line, or an error. Runs in a child, so that the next one can be
// made by a process without threads.
std::string LossesOf(const ModelSpec& model, const Plan& plan, const SavedRun& run) {
  return InChild([&] {
    const auto result = TrainSaved(model, plan, run);
    if (!result.has_value()) return result.error().message;
    std::string text;
    for (const float loss : result->losses) text += NumberText(loss) + "\n";
    return text;
  });
}

std::string LastCheckpoint() { return "step-0000000" + std::to_string(kSteps); }

class KilledPreset : public testing::TestWithParam<Preset> {};

TEST_P(KilledPreset, GoesOnWithTheLossesOfOneThatWasNot) {
  ModelSpec model =
      ModelFor(GetParam(), GetParam().Has(PlanFieldOf("ep")) ? TinyExperts() : TinyGpt());
  model.layers = 8;
  Plan plan = ToyPlan(GetParam(), model, 8);
  plan.bucket_bytes = std::min(plan.bucket_bytes, TinyPlan().bucket_bytes);
  const std::string folder = FreshFolder();
  const SavedRun saving{.folder = folder, .every_steps = 1, .keep = 3, .steps = kSteps};
  const auto start = std::chrono::steady_clock::now();
  const std::string whole = LossesOf(model, plan, saving);
  const std::chrono::duration<double> length = std::chrono::steady_clock::now() - start;
  ASSERT_EQ(std::count(whole.begin(), whole.end(), '\n'), kSteps) << whole;
  std::mt19937_64 random(HashText(GetParam().name));
  std::uniform_real_distribution<double> share(0, 1);
  for (int kill = 0; kill < kKills; ++kill) {
    std::filesystem::remove_all(folder);
    Child child([&](const Child::Report&) {
      return TrainSaved(model, plan, saving).has_value() ? "" : "failed";
    });
    std::this_thread::sleep_for(share(random) * length);
    child.Kill();
    SavedRun rest = saving;
    const auto saved =
        std::filesystem::exists(folder) ? CheckpointsIn(folder) : std::vector<std::string>();
    if (!saved.empty()) rest.from = folder;
    if (!saved.empty() && saved.front() == LastCheckpoint()) continue;  // it had ended
    const std::string losses = LossesOf(model, plan, rest);
    EXPECT_TRUE(!losses.empty() && whole.ends_with(losses))
        << "kill " << kill << ": " << losses << "whole:\n"
        << whole;
  }
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Presets, KilledPreset, testing::ValuesIn(AllPresets()), NameOfPreset);

}  // namespace
}  // namespace foretrain
