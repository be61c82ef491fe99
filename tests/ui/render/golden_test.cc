// A picture of a small made-up run against the one that was looked at. To make it anew:
//   FORETRAIN_UPDATE_GOLDEN=1 build/dev/tests/ui_tests --gtest_filter='Golden.*'
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/paths.h"
#include "tests/ui/sample_run.h"
#include "ui/desktop_view.h"
#include "ui/render/png.h"

namespace foretrain {
namespace {

// Drivers round colours and edges differently.
constexpr int kMostDifference = 8;     // of a channel
constexpr double kMostPixels = 0.001;  // share of pixels that may differ by more

int Difference(ui::Colour a, ui::Colour b) {
  int most = 0;
  for (const int shift : {0, 8, 16}) {
    const auto channel = [shift](ui::Colour c) { return static_cast<int>(c >> shift & 0xFF); };
    most = std::max(most, std::abs(channel(a) - channel(b)));
  }
  return most;
}

TEST(Golden, CompareViewLooksAsItDid) {
  const CompareInput input =
      SampleInput({.stages = 2, .replicas = 2, .layers = 4, .micro_batches = 4, .steps = 2});
  const std::string drawn = testing::TempDir() + "/compare_small.png";
  ViewOptions options{.width = 960, .height = 640};
  options.font_folders.emplace();  // the built-in font
  const auto done = ScreenshotDesktop({.input = input}, options, drawn);
  if (!done.has_value() && done.error().code == ErrorCode::kUnsupported) {
    GTEST_SKIP() << done.error().message;
  }
  ASSERT_TRUE(done.has_value()) << done.error().message;
  const auto now = ui::ReadPng(drawn);
  ASSERT_TRUE(now.has_value()) << now.error().message;

  const std::string golden = SourcePath("tests/ui/golden/compare_small.png");
  if (std::getenv("FORETRAIN_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(ui::WritePng(*now, golden).has_value());
  }
  const auto then = ui::ReadPng(golden);
  ASSERT_TRUE(then.has_value()) << then.error().message;
  ASSERT_EQ(now->width, then->width);
  ASSERT_EQ(now->height, then->height);
  ui::Image difference = *then;
  std::size_t differ = 0;
  for (std::size_t i = 0; i < now->pixels.size(); ++i) {
    const bool differs = Difference(now->pixels[i], then->pixels[i]) > kMostDifference;
    difference.pixels[i] = differs ? ui::Rgb(0xff00ff) : ui::Rgb(0x202020);
    differ += differs;
  }
  const double share = static_cast<double>(differ) / static_cast<double>(now->pixels.size());
  if (share > kMostPixels) {
    const std::string shown = testing::TempDir() + "/compare_small_difference.png";
    ASSERT_TRUE(ui::WritePng(difference, shown).has_value());
    ADD_FAILURE() << differ << " pixels differ: see " << drawn << " and " << shown;
  }
}

}  // namespace
}  // namespace foretrain
