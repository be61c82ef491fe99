#include "sim/memory/linked_peak.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <numeric>
#include <vector>

#include "tests/sim/simulate/hand_made.h"

namespace foretrain {
namespace {

const SpacePeak& Device(const RankPeak& peak) {
  return peak.spaces[static_cast<std::size_t>(Space::kDevice)];
}
std::int64_t Part(const SpacePeak& peak, Category category) {
  return peak.parts[static_cast<std::size_t>(category)];
}

// op           0    1    2    3
// activations  |--- 40 ---|
// gradients         |- 30 |
// workspace                   |50|     op 2 holds 70, op 3 only 50: an end counts after its op
TEST(LinkedPeak, FindsTheFullestOpInIssueOrder) {
  HandMade made(1);
  for (int i = 0; i < 4; ++i) made.Add(0, Queue::kCompute, 1.0);
  made.AddBuffer(0, 40, Category::kActivations, {0, 2});
  made.AddBuffer(0, 30, Category::kGradients, {1, 2});
  made.AddBuffer(0, 50, Category::kWorkspace, {3});
  const std::vector<RankPeak> peaks = LinkedPeak(made.program);
  ASSERT_EQ(peaks.size(), 1U);
  EXPECT_EQ(Device(peaks[0]).bytes, 70);
  EXPECT_EQ(Device(peaks[0]).op, 1);
  EXPECT_EQ(Part(Device(peaks[0]), Category::kActivations), 40);
  EXPECT_EQ(Part(Device(peaks[0]), Category::kGradients), 30);
  EXPECT_EQ(Part(Device(peaks[0]), Category::kWorkspace), 0);
}

TEST(LinkedPeak, CountsStateAlwaysAndUntouchedBuffersNever) {
  HandMade made(2);
  made.Add(1, Queue::kCompute, 1.0);
  made.AddBuffer(1, 100, Category::kParameters, {}, /*persistent=*/true);
  made.AddBuffer(1, 7, Category::kWorkspace, {});
  made.AddBuffer(1, 5, Category::kStaging, {0});
  made.program.ranks[1].buffers.back().space = Space::kPinned;
  const std::vector<RankPeak> peaks = LinkedPeak(made.program);
  EXPECT_EQ(Device(peaks[0]).bytes, 0);
  EXPECT_EQ(Device(peaks[0]).op, -1);
  EXPECT_EQ(Device(peaks[1]).bytes, 100);
  EXPECT_EQ(Device(peaks[1]).op, -1);
  const SpacePeak& pinned = peaks[1].spaces[static_cast<std::size_t>(Space::kPinned)];
  EXPECT_EQ(pinned.bytes, 5);
  EXPECT_EQ(std::accumulate(pinned.parts.begin(), pinned.parts.end(), std::int64_t{0}), 5);
}

}  // namespace
}  // namespace foretrain
