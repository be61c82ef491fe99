#include "ui/view/lanes/lane_pictures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/ui/hand_made.h"
#include "tests/ui/headless_frames.h"

namespace foretrain::ui {
namespace {

constexpr Box kWindow{0, 0, 1000, 600};

// One run with a forward span [0, 100) and a backward span [100, 200), shown from 0 to 400 ns.
class LanePicturesOf : public testing::Test {
 protected:
  LanePicturesOf() {
    input_.measured = RunOfSpans(
        {ComputeSpan({}, 0, 100), ComputeSpan({.op = 1, .pass = Pass::kBackward}, 100, 200)});
    model_ = ModelOf(input_);
    layout_ = MakeLayout(model_, kWindow, 1.0F, 0.0F, 0);
  }

  LanePictures Make(const OpFilter* filter = nullptr) {
    return MakeLanePictures(model_, layout_, {0.0, 400.0}, theme_, filter);
  }

  // Pixel in the middle of the strip of the measured compute row.
  Colour At(const LanePictures& pictures, double time_ns) {
    const Box& strip = layout_.lane_boxes.at(0).strips.at(0).box;
    const auto y = static_cast<int>((strip.y0 + strip.y1) / 2 - layout_.lanes.y0);
    const auto x = static_cast<int>(time_ns / 400.0 * layout_.Columns());
    return pictures.image.pixels.at(static_cast<std::size_t>(y * pictures.image.width + x));
  }

  CompareInput input_;
  CompareModel model_;
  Layout layout_;
  Theme theme_ = DarkTheme();
};

TEST_F(LanePicturesOf, PaintSpansInTheirHueOnTheGround) {
  const LanePictures pictures = Make();
  EXPECT_TRUE(pictures.image.opaque);
  EXPECT_EQ(pictures.spans, 2U);
  EXPECT_EQ(At(pictures, 50.0), theme_.Of(Hue::kForward));
  EXPECT_EQ(At(pictures, 150.0), theme_.Of(Hue::kBackward));
  EXPECT_EQ(At(pictures, 330.0), theme_.ground);
}

TEST_F(LanePicturesOf, MixWhatAFilterLeavesOutWithTheGround) {
  const OpFilter backward{.pass = Pass::kBackward};
  const LanePictures pictures = Make(&backward);
  EXPECT_EQ(At(pictures, 50.0), Mixed(theme_.ground, theme_.Of(Hue::kForward), kDimmed));
  EXPECT_EQ(At(pictures, 150.0), theme_.Of(Hue::kBackward));
}

TEST_F(LanePicturesOf, HoldTheGridOfTheAxis) {
  const LanePictures pictures = Make();
  const std::vector<Tick> ticks = AxisTicks(layout_, {0.0, 400.0});
  const auto last =
      std::find_if(ticks.begin(), ticks.end(), [](const Tick& tick) { return tick.value > 250.0; });
  ASSERT_NE(last, ticks.end());
  const auto x = static_cast<std::size_t>(
      std::lround(last->value / 400.0 * static_cast<double>(layout_.Columns())));
  EXPECT_EQ(pictures.image.pixels.at(x), theme_.grid);
  EXPECT_EQ(pictures.image.pixels.at(x + 1), theme_.ground);
}

TEST(Image, IsOpaqueUntilSomethingTransparentIsPainted) {
  Image image;
  image.Resize(4, 3);
  EXPECT_FALSE(image.opaque);
  image.Resize(4, 3, Rgb(0x123456));
  image.FillBox(-5, -5, 2, 1, Rgb(0xffffff));
  image.Fill(3, 0, 99, Rgb(0xff0000));
  EXPECT_TRUE(image.opaque);
  EXPECT_EQ(image.pixels[0], Rgb(0xffffff));
  EXPECT_EQ(image.pixels[2], Rgb(0x123456));
  EXPECT_EQ(image.pixels[4], Rgb(0x123456));
  EXPECT_EQ(image.pixels[11], Rgb(0xff0000));
  image.FillBox(9, 0, 12, 3, 0);  // outside
  image.Fill(0, 0, 1, Faded(Rgb(0), 0.5F));
  EXPECT_FALSE(image.opaque);
}

// A separate program draws opaque pictures, and the renderer's own program continues afterwards.
class OpaquePicture : public HeadlessFrames {};

TEST_F(OpaquePicture, KeepsItsColoursInEveryFrame) {
  CompareInput input;
  input.measured = RunOfSpans({ComputeSpan({}, 0, 100)});
  Open(input);
  const Box strip = screen_->layout().lane_boxes.at(0).strips.at(0).box;
  const auto x = static_cast<std::size_t>(XOf(30.0));
  const auto y = static_cast<std::size_t>(strip.y0 + 3.0F);
  for (int frame = 0; frame < 3; ++frame) {
    const Image image = Pixels();
    const auto at = [&](std::size_t column, std::size_t row) {
      return image.pixels[row * static_cast<std::size_t>(image.width) + column];
    };
    EXPECT_EQ(at(x, y), DarkTheme().Of(Hue::kForward)) << "frame " << frame;
    // The legend's panel is drawn afterwards, in the usual way.
    const Box& legend = screen_->layout().legend;
    EXPECT_EQ(at(static_cast<std::size_t>(legend.x0) + 2, static_cast<std::size_t>(legend.y0) + 3),
              DarkTheme().panel)
        << "frame " << frame;
  }
}

}  // namespace
}  // namespace foretrain::ui
