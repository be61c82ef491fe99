#include "ui/view/lanes/drift_picture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/ui/hand_made.h"

namespace foretrain::ui {
namespace {

constexpr Box kWindow{0, 0, 1000, 700};

class DriftPictures : public testing::Test {
 protected:
  DriftPictures() : model_(ModelOf(input_)) {
    layout_ = MakeLayout(model_, kWindow, 1.0F, 0.0F, 0);
  }

  DriftPicture Make() { return MakeDriftPicture(model_, layout_, {0.0, 400.0}, theme_); }

  CompareInput input_ = TwoRanks();
  CompareModel model_;
  Layout layout_;
  Theme theme_ = DarkTheme();
};

TEST_F(DriftPictures, ShowACurveOfEachRankInItsColour) {
  const DriftPicture picture = Make();
  ASSERT_FALSE(layout_.drift.IsEmpty());
  EXPECT_TRUE(picture.image.opaque);
  EXPECT_EQ(picture.image.width, layout_.Columns());
  EXPECT_EQ(picture.image.height, static_cast<int>(DriftPlot(layout_).Height()));
  ASSERT_EQ(picture.curves.size(), 2U);
  for (const DriftCurve& curve : picture.curves) {
    EXPECT_TRUE(curve.named);
    EXPECT_NE(std::count(picture.image.pixels.begin(), picture.image.pixels.end(), curve.colour), 0)
        << curve.lane;
  }
  EXPECT_NE(picture.curves[0].colour, picture.curves[1].colour);
}

TEST_F(DriftPictures, ReachFromTheLowestToTheHighestDrift) {
  const DriftPicture picture = Make();
  EXPECT_LT(picture.low_ns, 0.0);
  EXPECT_GT(picture.high_ns, 50.0);
  const Box plot{0, 10, 100, 110};
  EXPECT_FLOAT_EQ(DriftY(picture, plot, picture.low_ns), 110.0F);
  EXPECT_FLOAT_EQ(DriftY(picture, plot, picture.high_ns), 10.0F);
}

TEST_F(DriftPictures, EndAtTheDriftOfTheLastOp) {
  const DriftPicture picture = Make();
  const Lane& lane = model_.lanes.at(picture.curves.at(1).lane);
  const DriftPoint& end = lane.drift.back();
  const Box plot{0, 0, static_cast<float>(picture.image.width),
                 static_cast<float>(picture.image.height)};
  const auto x = static_cast<int>(static_cast<double>(end.time_ns) / 400.0 * picture.image.width);
  const auto y = static_cast<int>(DriftY(picture, plot, static_cast<double>(end.drift_ns)));
  const auto first =
      picture.image.pixels.begin() + static_cast<std::ptrdiff_t>(y - 1) * picture.image.width + x;
  bool found = false;
  for (int row = 0; row < 3; ++row)
    found |= first[row * picture.image.width] == picture.curves[1].colour;
  EXPECT_TRUE(found);
}

TEST_F(DriftPictures, AreEmptyWhereThereIsNoRoom) {
  layout_ = MakeLayout(model_, {0, 0, 1000, 120}, 1.0F, 0.0F, 0);
  ASSERT_TRUE(layout_.drift.IsEmpty());
  EXPECT_EQ(Make().image.width, 0);
}

}  // namespace
}  // namespace foretrain::ui
