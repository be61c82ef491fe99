// Every plan of a covering of all pairs of choices, and every preset, over 20 steps.
// FORETRAIN_PAIRS sets the number of plans for each pair.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/number_of_cases.h"
#include "tests/runtime/equality/matrix_checks.h"

namespace foretrain {
namespace {

constexpr std::size_t kParts = 24;
constexpr int kSteps = 20;

class Matrix : public testing::TestWithParam<std::size_t> {};

TEST_P(Matrix, TrainsAsOneRankDoes) {
  const int times = static_cast<int>(CasesOr("FORETRAIN_PAIRS", 1));
  const Covering covering = CoverPairs(times);
  EXPECT_GE(covering.cases.size(), 60U);
  if (GetParam() == 0) {
    std::printf("%zu plans cover %d pairs of choices %d times; %zu pairs are in no valid plan\n",
                covering.cases.size(), covering.pairs, times, covering.impossible.size());
  }
  for (std::size_t i = GetParam(); i < covering.cases.size(); i += kParts) {
    // Printed before the run, so that a killed test has named its plan.
    std::fprintf(stderr, "%zu: %s: %s\n", i, covering.cases[i].model.name.c_str(),
                 covering.cases[i].name.c_str());
    CheckCase(covering.cases[i], kSteps);
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, Matrix, testing::Range(std::size_t{0}, kParts));

}  // namespace
}  // namespace foretrain
