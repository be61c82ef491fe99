// A run that goes on from a checkpoint has the bits of one that was never interrupted.
#include <gtest/gtest.h>

#include "tests/runtime/checkpoint/saved_run.h"
#include "tests/runtime/equality/equality_cases.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

class Resume : public testing::TestWithParam<Case> {};

TEST_P(Resume, HasTheBitsOfARunThatWasNotInterrupted) {
  ExpectGoesOnToTheBit(TinyGpt(), GetParam().plan);
}

std::string NameOfCase(const testing::TestParamInfo<Case>& test) { return test.param.name; }

INSTANTIATE_TEST_SUITE_P(Plans, Resume, testing::ValuesIn(Cases()), NameOfCase);
INSTANTIATE_TEST_SUITE_P(ContextPlans, Resume, testing::ValuesIn(ContextCases()), NameOfCase);
INSTANTIATE_TEST_SUITE_P(OffloadPlans, Resume, testing::ValuesIn(OffloadCases()), NameOfCase);

}  // namespace
}  // namespace foretrain
