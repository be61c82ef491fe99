#include "base/parallel.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace foretrain {
namespace {

TEST(ForEachInParallel, TakesEachTurnOnce) {
  for (const int threads : {0, 1, 3, 50}) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{17}}) {
      std::vector<int> taken(count, 0);
      ForEachInParallel(count, threads, [&](std::size_t i) { ++taken[i]; });
      EXPECT_EQ(taken, std::vector<int>(count, 1)) << threads << " threads";
    }
  }
}

TEST(ForEachInParallel, HandsOnWhatATurnThrows) {
  for (const int threads : {1, 3}) {
    EXPECT_THROW(ForEachInParallel(std::size_t{9}, threads,
                                   [](std::size_t i) {
                                     if (i == 4) throw std::runtime_error("turn 4");
                                   }),
                 std::runtime_error);
  }
}

}  // namespace
}  // namespace foretrain
