// Every plan of the equality tests with one device for each rank; device_a_rank_test.cc has a few.
#include <gtest/gtest.h>

#include "tests/runtime/device/device_a_rank.h"
#include "tests/runtime/equality/equality_cases.h"

namespace foretrain {
namespace {

class EveryPlanOnDevices : public testing::TestWithParam<Case> {};

TEST_P(EveryPlanOnDevices, TrainsAsOnTheCpu) {
  ExpectTrainsAlikeOnDevices(TinyGpt(), GetParam().plan, GetParam().name);
}

std::string NameOfCase(const testing::TestParamInfo<Case>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Plans, EveryPlanOnDevices, testing::ValuesIn(Cases()), NameOfCase);
INSTANTIATE_TEST_SUITE_P(ContextPlans, EveryPlanOnDevices, testing::ValuesIn(ContextCases()),
                         NameOfCase);
INSTANTIATE_TEST_SUITE_P(OffloadPlans, EveryPlanOnDevices, testing::ValuesIn(OffloadCases()),
                         NameOfCase);

}  // namespace
}  // namespace foretrain
