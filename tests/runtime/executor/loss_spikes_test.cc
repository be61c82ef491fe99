#include "runtime/run/loss_spikes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace foretrain {
namespace {

TEST(LossSpikes, TellsALossFarAboveThoseBefore) {
  LossSpikes spikes;
  for (int i = 0; i < 40; ++i) EXPECT_FALSE(spikes.Add(3.0 + 0.1 * std::sin(i)).has_value()) << i;
  const auto usual = spikes.Add(30.0);
  ASSERT_TRUE(usual.has_value());
  EXPECT_NEAR(*usual, 3.0, 0.05);
  EXPECT_FALSE(spikes.Add(3.0).has_value());
}

TEST(LossSpikes, NeedsLossesToCompareWith) {
  LossSpikes spikes;
  for (int i = 0; i < 16; ++i) EXPECT_FALSE(spikes.Add(i == 15 ? 100.0 : 3.0).has_value()) << i;
}

// A falling loss with noise of 10 % of it, and a level that rises for good, are no row of spikes.
TEST(LossSpikes, IsQuietInNoise) {
  LossSpikes spikes;
  int told = 0;
  for (int i = 0; i < 1000; ++i) {
    const double noise = 0.1 * std::sin(12.9898 * i) * std::cos(78.233 * i);
    told += spikes.Add((10.0 / (1 + 0.01 * i) + 2) * (1 + noise)).has_value() ? 1 : 0;
  }
  EXPECT_EQ(told, 0);
}

TEST(LossSpikes, LeavesOutALossThatIsNotFinite) {
  LossSpikes spikes;
  for (int i = 0; i < 20; ++i) (void)spikes.Add(2.0);
  EXPECT_FALSE(spikes.Add(std::numeric_limits<double>::infinity()).has_value());
  EXPECT_FALSE(spikes.Add(std::nan("")).has_value());
  EXPECT_TRUE(spikes.Add(4.0).has_value());
}

}  // namespace
}  // namespace foretrain
