#include "ui/view_model/timeline/ticks.h"

#include <gtest/gtest.h>

#include <cmath>

namespace foretrain::ui {
namespace {

std::vector<std::string> Labels(const std::vector<Tick>& ticks) {
  std::vector<std::string> labels;
  for (const Tick& tick : ticks) labels.push_back(tick.label);
  return labels;
}

TEST(Ticks, StandAtOneTwoOrFiveTimesAPowerOfTen) {
  EXPECT_DOUBLE_EQ(NiceStep(1.0), 1.0);
  EXPECT_DOUBLE_EQ(NiceStep(1.01), 2.0);
  EXPECT_DOUBLE_EQ(NiceStep(2.4), 5.0);
  EXPECT_DOUBLE_EQ(NiceStep(5.1), 10.0);
  EXPECT_DOUBLE_EQ(NiceStep(0.03), 0.05);
  EXPECT_DOUBLE_EQ(NiceStep(700.0), 1000.0);
}

TEST(Ticks, AreLabelledInTheUnitOfTheAxis) {
  // 100 ms in at most five steps: 20 ms.
  EXPECT_EQ(Labels(TimeTicks(0.0, 100e6, 5)),
            (std::vector<std::string>{"0", "20 ms", "40 ms", "60 ms", "80 ms", "100 ms"}));
  // 2 us at 1.5 ms: steps of 0.5 us, which milliseconds cannot show in three decimals.
  EXPECT_EQ(
      Labels(TimeTicks(1.5e6, 1.5e6 + 2e3, 4)),
      (std::vector<std::string>{"1500.0 us", "1500.5 us", "1501.0 us", "1501.5 us", "1502.0 us"}));
  EXPECT_EQ(Labels(TimeTicks(-2e3, 2e3, 2)), (std::vector<std::string>{"-2 us", "0", "2 us"}));
}

TEST(Ticks, AreNoneWhereThereIsNoStretch) {
  EXPECT_TRUE(TimeTicks(5.0, 5.0, 5).empty());
  EXPECT_TRUE(TimeTicks(std::nan(""), 5.0, 5).empty());
  EXPECT_TRUE(ByteTicks(0, 5).empty());
}

TEST(Ticks, OfDriftCarryTheirSign) {
  EXPECT_EQ(Labels(DriftTicks(-1e6, 2e6, 3)),
            (std::vector<std::string>{"-1 ms", "0", "+1 ms", "+2 ms"}));
}

TEST(Ticks, OfBytesUseBinaryUnits) {
  // 72 GiB in at most four steps: 20 GiB.
  EXPECT_EQ(Labels(ByteTicks(std::int64_t{72} << 30, 4)),
            (std::vector<std::string>{"0", "20 GiB", "40 GiB", "60 GiB"}));
  EXPECT_DOUBLE_EQ(ByteTicks(std::int64_t{72} << 30, 4)[1].value, 20.0 * (1 << 30));
}

TEST(Ticks, WriteTimesAndDifferences) {
  EXPECT_EQ(PreciseTime(244'712'345.0), "244.71 ms");
  EXPECT_EQ(PreciseTime(830.0), "830 ns");
  EXPECT_EQ(SignedTime(2'140'000.0), "+2.14 ms");
  EXPECT_EQ(SignedTime(-300.0), "-300 ns");
  EXPECT_EQ(SignedTime(0.0), "0");
  EXPECT_EQ(SignedPercent(0.0394), "+3.9 %");
  EXPECT_EQ(SignedPercent(-0.5), "-50.0 %");
  EXPECT_EQ(SignedPercent(1.0 / 0.0), "no base");
}

}  // namespace
}  // namespace foretrain::ui
