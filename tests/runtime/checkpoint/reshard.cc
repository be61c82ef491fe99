#include "tests/runtime/checkpoint/reshard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "tests/runtime/checkpoint/saved_run.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

// In fp32 the plans add the same numbers in another order.
constexpr double kTolerance = 1e-5;
// At 1e-2 the small model's losses jump, and a rounding grows by a thousand within twenty steps.
constexpr double kMomentRate = 1e-3;

// Losses of one rank for `steps` steps.
const std::vector<float>& OneRank(int steps) {
  static std::map<int, std::vector<float>> known;
  std::vector<float>& losses = known[steps];
  if (losses.empty()) {
    const auto run = TrainSaved(TinyGpt(), TinyPlan(), {.steps = steps});
    EXPECT_TRUE(run.has_value()) << run.error().message;
    if (run.has_value()) losses = run->losses;
  }
  return losses;
}

}  // namespace

void ExpectGoesOnAsOneRank(const Case& from, const Case& to, int further) {
  const std::string folder = FreshFolder();
  const auto first = TrainSaved(TinyGpt(), from.plan, {.folder = folder, .steps = 2});
  ASSERT_TRUE(first.has_value()) << first.error().message;
  const auto rest = TrainSaved(TinyGpt(), to.plan, {.steps = 2 + further, .from = folder});
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(rest.has_value()) << rest.error().message;
  const std::vector<float>& expected = OneRank(2 + further);
  ASSERT_EQ(rest->losses.size(), static_cast<std::size_t>(further));
  ASSERT_EQ(expected.size(), static_cast<std::size_t>(further) + 2);
  for (std::size_t i = 0; i < rest->losses.size(); ++i) {
    EXPECT_NEAR(rest->losses[i], expected[i + 2], kTolerance * std::fabs(expected[i + 2]))
        << "step " << i + 2 << " of " << Describe(from.plan) << " to " << Describe(to.plan);
  }
}

void ExpectMomentsGoOn(const Case& from, const Case& to, int further, double tolerance,
                       MomentFormat to_format) {
  const std::string folder = FreshFolder();
  Plan first = from.plan, second = to.plan, one = TinyPlan();
  first.moments = one.moments = MomentFormat::kInt8;
  second.moments = to_format;
  const auto saved =
      TrainSaved(TinyGpt(), first, {.folder = folder, .steps = 2, .learning_rate = kMomentRate});
  ASSERT_TRUE(saved.has_value()) << saved.error().message;
  const SavedRun rest{.steps = 2 + further, .from = folder, .learning_rate = kMomentRate};
  const auto expected = TrainSaved(TinyGpt(), one, rest);
  const auto moved = TrainSaved(TinyGpt(), second, rest);
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(expected.has_value()) << expected.error().message;
  ASSERT_TRUE(moved.has_value()) << moved.error().message;
  ASSERT_EQ(moved->losses.size(), static_cast<std::size_t>(further));
  for (std::size_t i = 0; i < moved->losses.size(); ++i) {
    EXPECT_NEAR(moved->losses[i], expected->losses[i], tolerance * expected->losses[i])
        << "step " << i + 2 << " of " << Describe(first) << " to " << Describe(second);
  }
}

std::vector<Case> CasesNamed(const std::vector<std::string>& names) {
  std::vector<Case> found;
  for (const std::string& name : names) {
    const std::size_t before = found.size();
    for (const auto& all : {Cases(), ContextCases(), OffloadCases()}) {
      for (const Case& one : all) {
        if (one.name == name && found.size() == before) found.push_back(one);
      }
    }
    EXPECT_EQ(found.size(), before + 1) << name;
  }
  return found;
}

std::vector<std::pair<Case, Case>> PairsOf(const std::vector<Case>& cases) {
  std::vector<std::pair<Case, Case>> pairs;
  for (std::size_t i = 1; i < cases.size(); ++i) {
    pairs.emplace_back(cases[0], cases[i]);
    pairs.emplace_back(cases[i], cases[0]);
    if (i + 1 == cases.size()) break;
    pairs.emplace_back(cases[i], cases[i + 1]);
    pairs.emplace_back(cases[i + 1], cases[i]);
  }
  return pairs;
}

}  // namespace foretrain
