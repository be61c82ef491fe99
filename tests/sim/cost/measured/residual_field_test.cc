#include "sim/cost/measured/residual_field.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace foretrain {
namespace {

using testing::ElementsAre;

struct Line {
  std::vector<FieldPoint> points;
  std::vector<double> values;
  std::vector<int> groups;
};

// A smooth curve at 0, 1, ..., 20.
Line Smooth() {
  Line line;
  for (int i = 0; i <= 20; ++i) {
    line.points.push_back({static_cast<double>(i)});
    line.values.push_back(0.1 * std::sin(i / 5.0));
    line.groups.push_back(i);
  }
  return line;
}

// One anchor at 0 with weight 0.3 and reach 2: at distance 2, offset + 0.3 / e.
TEST(ResidualField, AddsKernelsToTheOffset) {
  const ResidualField field{.anchors = {{}}, .weights = {0.3}, .reach = 2, .offset = 0.1};
  EXPECT_NEAR(field({2}), 0.1 + 0.3 / std::exp(1.0), 1e-12);
  EXPECT_NEAR(field({1000}), 0.1, 1e-12);
}

TEST(ResidualField, FollowsASmoothCurveWithFewAnchors) {
  const Line line = Smooth();
  const std::vector<std::size_t> at = SpreadPoints(line.points, 8);
  std::vector<FieldPoint> anchors;
  for (const std::size_t i : at) anchors.push_back(line.points[i]);
  const FieldFit fit = FitField(line.points, line.values, line.groups, anchors, 10, 0.01);
  for (std::size_t i = 0; i < line.points.size(); ++i) {
    EXPECT_NEAR(fit.field(line.points[i]), line.values[i], 0.01) << i;
  }
}

// The reference leaves the group out of the samples and fits again. One sample is an outlier of
// 0.3; the weights of the loss then differ a little between the two fits.
TEST(ResidualField, ErrorsWithoutAGroupMatchAFitWithoutIt) {
  Line line = Smooth();
  line.values[4] += 0.3;
  line.groups[11] = line.groups[10];
  const std::vector<FieldPoint> anchors = {{0.0}, {5.0}, {10.0}, {15.0}, {20.0}};
  const FieldFit fit = FitField(line.points, line.values, line.groups, anchors, 10, 0.1);
  Line others = line;
  others.points.erase(others.points.begin() + 10, others.points.begin() + 12);
  others.values.erase(others.values.begin() + 10, others.values.begin() + 12);
  others.groups.erase(others.groups.begin() + 10, others.groups.begin() + 12);
  const FieldFit without = FitField(others.points, others.values, others.groups, anchors, 10, 0.1);
  for (const std::size_t i : {10, 11}) {
    EXPECT_NEAR(fit.left_out[i], line.values[i] - without.field(line.points[i]), 0.01) << i;
  }
}

TEST(ResidualField, OneBrokenSampleDoesNotBendIt) {
  Line line = Smooth();
  line.values[10] = 2;
  const FieldFit fit = FitField(line.points, line.values, line.groups, line.points, 10, 0.1);
  EXPECT_NEAR(fit.field({10.0}), 0.1 * std::sin(2.0), 0.05);
}

// From 0: the farthest is 10, then 4 (4 from 0), then 6 (2 from 4). The second 0 is never taken.
TEST(SpreadPoints, TakesTheFarthestPointNext) {
  const std::vector<FieldPoint> points = {{0.0}, {4.0}, {6.0}, {10.0}, {0.0}};
  EXPECT_THAT(SpreadPoints(points, 3), ElementsAre(0, 3, 1));
  EXPECT_THAT(SpreadPoints(points, 9), ElementsAre(0, 3, 1, 2));
}

}  // namespace
}  // namespace foretrain
