#include "ui/view_model/timeline/viewport.h"

#include <gtest/gtest.h>

namespace foretrain::ui {
namespace {

constexpr Extent kExtent{0.0, 1e9};

TEST(Viewport, KeepsTheTimeUnderTheMouseWhenZooming) {
  const Viewport view{100.0, 1100.0};
  const Viewport nearer = Zoomed(view, 350.0, 1.0, kExtent);
  // 250 of 1,000 lay before the mouse; after one notch 250 / 1.25 = 200 of 800 do.
  EXPECT_DOUBLE_EQ(nearer.start_ns, 150.0);
  EXPECT_DOUBLE_EQ(nearer.end_ns, 950.0);
}

TEST(Viewport, IsRestoredByAsManyNotchesBack) {
  const Viewport view{12'345.0, 98'765'432.0};
  Viewport moved = view;
  for (int i = 0; i < 30; ++i) moved = Zoomed(moved, 5e6, 1.0, kExtent);
  EXPECT_LT(moved.LengthNs(), 0.002 * view.LengthNs());  // 1.25^-30 = 0.00124
  for (int i = 0; i < 30; ++i) moved = Zoomed(moved, 5e6, -1.0, kExtent);
  EXPECT_NEAR(moved.start_ns, view.start_ns, 1e-3);
  EXPECT_NEAR(moved.end_ns, view.end_ns, 1e-3);
}

TEST(Viewport, TakesNoNotchPastItsLimits) {
  const Viewport shortest{0.0, 1.2 * kShortestViewNs};
  EXPECT_EQ(Zoomed(shortest, 5.0, 1.0, kExtent), shortest);
  const Viewport longest{0.0, kMaxLengths * 1e9};
  EXPECT_EQ(Zoomed(longest, 5.0, -1.0, kExtent), longest);
  EXPECT_LT(Zoomed(longest, 5.0, 1.0, kExtent).LengthNs(), longest.LengthNs());
}

TEST(Viewport, KeepsATenthOfTheScreenOnTheRunWhenPanning) {
  const Viewport view{0.0, 1e8};
  EXPECT_EQ(Panned(view, 3e7, kExtent), (Viewport{3e7, 1.3e8}));
  // The run ends at 1e9: a tenth of the screen, 1e7, stays.
  EXPECT_DOUBLE_EQ(Panned(view, 1e12, kExtent).start_ns, 1e9 - 1e7);
  EXPECT_DOUBLE_EQ(Panned(view, -1e12, kExtent).end_ns, 1e7);
}

TEST(Viewport, FitsAnExtentWithAMargin) {
  const Viewport view = Fitted({0.0, 1000.0});
  EXPECT_DOUBLE_EQ(view.start_ns, -15.0);
  EXPECT_DOUBLE_EQ(view.end_ns, 1015.0);
  EXPECT_DOUBLE_EQ(Fitted({70.0, 70.0}).LengthNs(), 1000.0);
  EXPECT_GE(Fitted({0.0, 1.0}).LengthNs(), kShortestViewNs);
}

TEST(Viewport, PutsASpanInTheMiddleFifth) {
  const Viewport view = Around(400.0, 500.0, kExtent);
  EXPECT_DOUBLE_EQ(view.start_ns, 200.0);
  EXPECT_DOUBLE_EQ(view.end_ns, 700.0);
  EXPECT_DOUBLE_EQ(Around(7.0, 7.0, kExtent).LengthNs(), kShortestViewNs);
}

TEST(Viewport, TurnsTimesIntoPixelsAndBack) {
  const Viewport view{1000.0, 3000.0};
  EXPECT_DOUBLE_EQ(view.ToX(1500.0, 800.0), 200.0);
  EXPECT_DOUBLE_EQ(view.ToTime(200.0, 800.0), 1500.0);
}

}  // namespace
}  // namespace foretrain::ui
