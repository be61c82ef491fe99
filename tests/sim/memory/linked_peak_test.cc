#include "sim/memory/peak_memory.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "tests/sim/simulate/hand_made.h"

namespace foretrain {
namespace {

std::int64_t Part(const PeakMemory& peak, Category category) {
  return peak.bytes[static_cast<std::size_t>(category)];
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
  const PeakMemory peak = LinkedPeak(made.program.ranks[0]);
  EXPECT_EQ(peak.total, 70);
  EXPECT_EQ(peak.op, 1);
  EXPECT_EQ(Part(peak, Category::kActivations), 40);
  EXPECT_EQ(Part(peak, Category::kGradients), 30);
  EXPECT_EQ(Part(peak, Category::kWorkspace), 0);
}

TEST(LinkedPeak, CountsStateAlwaysAndUntouchedBuffersNever) {
  HandMade made(2);
  made.Add(1, Queue::kCompute, 1.0);
  made.AddBuffer(1, 100, Category::kParameters, {}, /*persistent=*/true);
  made.AddBuffer(1, 7, Category::kWorkspace, {});
  made.AddBuffer(1, 5, Category::kStaging, {0});
  made.program.ranks[1].buffers.back().space = Space::kPinned;
  EXPECT_EQ(LinkedPeak(made.program.ranks[0]).total, 0);
  const PeakMemory device = LinkedPeak(made.program.ranks[1]);
  EXPECT_EQ(device.total, 100);
  EXPECT_EQ(device.op, -1);
  const PeakMemory pinned = LinkedPeak(made.program.ranks[1], Space::kPinned);
  EXPECT_EQ(pinned.total, 5);
  EXPECT_EQ(pinned.op, 0);
  EXPECT_EQ(Part(pinned, Category::kStaging), 5);
}

}  // namespace
}  // namespace foretrain
