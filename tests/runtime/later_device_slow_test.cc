// Every plan of the equality tests on a device that works later.
#include <gtest/gtest.h>

#include "equality_cases.h"
#include "later_training.h"

namespace foretrain {
namespace {

class EveryPlanLater : public testing::TestWithParam<Case> {};

TEST_P(EveryPlanLater, TrainsAsOnTheCpuToTheBit) {
  ExpectTrainsAlikeLater(GetParam().plan, GetParam().name);
}

std::string NameOfCase(const testing::TestParamInfo<Case>& test) { return test.param.name; }

INSTANTIATE_TEST_SUITE_P(Plans, EveryPlanLater, testing::ValuesIn(Cases()), NameOfCase);
INSTANTIATE_TEST_SUITE_P(ContextPlans, EveryPlanLater, testing::ValuesIn(ContextCases()),
                         NameOfCase);
INSTANTIATE_TEST_SUITE_P(OffloadPlans, EveryPlanLater, testing::ValuesIn(OffloadCases()),
                         NameOfCase);

}  // namespace
}  // namespace foretrain
