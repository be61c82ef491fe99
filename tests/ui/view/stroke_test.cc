#include "ui/view/lanes/stroke.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

namespace foretrain::ui {
namespace {

constexpr Colour kGround = Rgb(0x000000);
constexpr Colour kInk = Rgb(0xffffff);

Colour At(const Image& image, int x, int y) {
  return image.pixels[static_cast<std::size_t>(y * image.width + x)];
}

// The red of each pixel of a column, from the top.
std::vector<int> ColumnOf(const Image& image, int x) {
  std::vector<int> reds;
  for (int y = 0; y < image.height; ++y) reds.push_back(static_cast<int>(At(image, x, y) & 0xFF));
  return reds;
}

Image Stroke(std::span<const StrokeColumn> columns, float width, int height) {
  Image image;
  image.Resize(static_cast<int>(columns.size()), height, kGround);
  PaintStroke(columns, 0, columns.size(), width, kInk, image);
  return image;
}

TEST(AddLine, CoversTheColumnsBetweenItsEnds) {
  std::array<StrokeColumn, 6> columns;
  AddLine({1.5F, 10.0F}, {3.5F, 30.0F}, columns);
  EXPECT_GT(columns[0].top, columns[0].bottom);
  EXPECT_FLOAT_EQ(columns[1].top, 10.0F);
  EXPECT_FLOAT_EQ(columns[1].bottom, 15.0F);
  EXPECT_FLOAT_EQ(columns[2].top, 15.0F);
  EXPECT_FLOAT_EQ(columns[2].bottom, 25.0F);
  EXPECT_FLOAT_EQ(columns[3].top, 25.0F);
  EXPECT_FLOAT_EQ(columns[3].bottom, 30.0F);
  EXPECT_GT(columns[4].top, columns[4].bottom);
}

TEST(AddLine, EndsAtTheEdgesOfTheImage) {
  std::array<StrokeColumn, 2> columns;
  AddLine({-4.0F, 0.0F}, {4.0F, 8.0F}, columns);
  EXPECT_FLOAT_EQ(columns[0].top, 4.0F);
  EXPECT_FLOAT_EQ(columns[1].bottom, 6.0F);
  std::array<StrokeColumn, 2> none;
  AddLine({-4.0F, 0.0F}, {-1.0F, 8.0F}, none);
  AddLine({3.0F, 0.0F}, {5.0F, 8.0F}, none);
  for (const StrokeColumn& column : none) EXPECT_GT(column.top, column.bottom);
}

TEST(AddLine, OfAnUprightLineIsInOneColumn) {
  std::array<StrokeColumn, 3> columns;
  AddLine({1.5F, 2.0F}, {1.5F, 7.0F}, columns);
  EXPECT_FLOAT_EQ(columns[1].top, 2.0F);
  EXPECT_FLOAT_EQ(columns[1].bottom, 7.0F);
  EXPECT_GT(columns[0].top, columns[0].bottom);
  EXPECT_GT(columns[2].top, columns[2].bottom);
}

TEST(PaintStroke, OfAFlatLineIsAsHighAsItIsWide) {
  std::array<StrokeColumn, 3> columns;
  AddLine({0.0F, 3.0F}, {3.0F, 3.0F}, columns);
  // [2.25, 3.75): three quarters of two pixels.
  const Image image = Stroke(columns, 1.5F, 6);
  for (int x = 0; x < 3; ++x) {
    EXPECT_EQ(ColumnOf(image, x), (std::vector{0, 0, 191, 191, 0, 0})) << x;
  }
}

TEST(PaintStroke, OfAPeakIsAsWideAsTheStroke) {
  std::array<StrokeColumn, 5> columns;
  AddLine({2.5F, 1.5F}, {2.5F, 4.5F}, columns);
  // 2 wide: [1.5, 3.5).
  const Image wide = Stroke(columns, 2.0F, 8);
  EXPECT_EQ(ColumnOf(wide, 0), std::vector<int>(8, 0));
  EXPECT_EQ(At(wide, 1, 3) & 0xFF, 128U);
  EXPECT_EQ(At(wide, 2, 3), kInk);
  EXPECT_EQ(At(wide, 3, 3) & 0xFF, 128U);
  EXPECT_EQ(ColumnOf(wide, 4), std::vector<int>(8, 0));
  const Image thin = Stroke(columns, 1.0F, 8);
  EXPECT_EQ(ColumnOf(thin, 2), (std::vector{0, 255, 255, 255, 255, 0, 0, 0}));
  EXPECT_EQ(ColumnOf(thin, 1), std::vector<int>(8, 0));
}

TEST(PaintStroke, OfPartsIsThatOfTheWhole) {
  std::array<StrokeColumn, 7> columns;
  AddLine({0.5F, 1.0F}, {3.5F, 9.0F}, columns);
  AddLine({3.5F, 9.0F}, {6.5F, 2.0F}, columns);
  Image parts;
  parts.Resize(7, 12, kGround);
  for (const auto& [first, last] : {std::pair<std::size_t, std::size_t>{3, 9}, {0, 3}}) {
    PaintStroke(columns, first, last, 1.8F, kInk, parts);
  }
  EXPECT_EQ(parts.pixels, Stroke(columns, 1.8F, 12).pixels);
}

TEST(PaintStroke, StaysInsideTheImageAndLeavesItOpaque) {
  std::array<StrokeColumn, 2> columns;
  AddLine({0.0F, -20.0F}, {2.0F, 40.0F}, columns);
  const Image image = Stroke(columns, 3.0F, 4);
  EXPECT_EQ(ColumnOf(image, 0), std::vector<int>(4, 255));
  EXPECT_EQ(ColumnOf(image, 1), std::vector<int>(4, 255));
  EXPECT_TRUE(image.opaque);
}

}  // namespace
}  // namespace foretrain::ui
