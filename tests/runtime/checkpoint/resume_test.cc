// A run that goes on from a checkpoint has the bits of one that was never interrupted.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/runtime/checkpoint/saved_run.h"
#include "tests/runtime/equality/equality_cases.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

class Resume : public testing::TestWithParam<Case> {};

TEST_P(Resume, HasTheBitsOfARunThatWasNotInterrupted) {
  const std::string folder = FreshFolder();
  const Plan& plan = GetParam().plan;
  const auto whole = TrainSaved(TinyGpt(), plan, {.folder = folder + "/a"});
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  const auto rest = TrainSaved(TinyGpt(), plan,
                               {.folder = folder + "/b", .from = folder + "/a/step-00000002"});
  ASSERT_TRUE(rest.has_value()) << rest.error().message;
  ASSERT_EQ(rest->losses.size(), 2U);
  EXPECT_EQ(rest->losses[0], whole->losses[2]);
  EXPECT_EQ(rest->losses[1], whole->losses[3]);
  EXPECT_TRUE(TensorBytes(folder + "/a/step-00000004") ==
              TensorBytes(folder + "/b/step-00000004"));
  std::filesystem::remove_all(folder);
}

std::string NameOfCase(const testing::TestParamInfo<Case>& test) { return test.param.name; }

INSTANTIATE_TEST_SUITE_P(Plans, Resume, testing::ValuesIn(Cases()), NameOfCase);
INSTANTIATE_TEST_SUITE_P(ContextPlans, Resume, testing::ValuesIn(ContextCases()), NameOfCase);
INSTANTIATE_TEST_SUITE_P(OffloadPlans, Resume, testing::ValuesIn(OffloadCases()), NameOfCase);

}  // namespace
}  // namespace foretrain
