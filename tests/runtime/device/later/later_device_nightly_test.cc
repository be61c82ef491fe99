// Every plan of the equality tests on an asynchronous device.
#include <gtest/gtest.h>

#include "tests/runtime/device/later/later_training.h"
#include "tests/runtime/equality/equality_cases.h"

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
