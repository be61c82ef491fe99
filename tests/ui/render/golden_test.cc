// Pictures of all views of a small synthetic run, drawn as --screenshot draws them. Two drawings
// are equal, and like the reviewed golden picture. To update the golden pictures:
//   FORETRAIN_UPDATE_GOLDEN=1 build/release/tests/ui_tests --gtest_filter='*Golden*'
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/paths.h"
#include "tests/ui/render/read_png.h"
#include "tests/ui/sample_run.h"
#include "ui/desktop_view.h"
#include "ui/render/png.h"

namespace foretrain {
namespace {

// Tolerances, because drivers round colours and edges differently.
constexpr int kMaxDifference = 8;     // of a channel
constexpr double kMaxPixels = 0.001;  // share of pixels that may differ by more

int Difference(ui::Colour a, ui::Colour b) {
  int max = 0;
  for (const int shift : {0, 8, 16}) {
    const auto channel = [shift](ui::Colour c) { return static_cast<int>(c >> shift & 0xFF); };
    max = std::max(max, std::abs(channel(a) - channel(b)));
  }
  return max;
}

// Marks every pixel that differs in purple and returns their number.
std::size_t Compare(const ui::Image& now, const ui::Image& then, ui::Image& difference) {
  difference = then;
  std::size_t differ = 0;
  for (std::size_t i = 0; i < now.pixels.size(); ++i) {
    const bool differs = Difference(now.pixels[i], then.pixels[i]) > kMaxDifference;
    difference.pixels[i] = differs ? ui::Rgb(0xff00ff) : ui::Rgb(0x202020);
    differ += differs;
  }
  return differ;
}

class GoldenView : public testing::TestWithParam<const char*> {
 protected:
  // Draws the view with the built-in font. Compare keeps its original size; "counters" is Compare
  // with counters of the GPUs, "play" stands at a moment of the step.
  Result<ui::Image> Drawn(const std::string& path) {
    const bool counters = std::string(GetParam()) == "counters";
    const bool play = std::string(GetParam()) == "play";
    const std::string view = counters || play ? "compare" : GetParam();
    ViewOptions options{.width = view == "compare" ? 960 : 800,
                        .height = view == "compare" ? 640 : 500};
    options.view = view;
    if (play) options.moment_s = 0.0148;
    options.font_folders.emplace();
    if (view == "plan" || view == "what-if") {
      options.plan_setup.model = "gpt2-124m";
      options.plan_setup.gpu = "h100-80gb-sxm";
      options.plan_setup.nodes = 1;
      options.plan_setup.devices_per_node = 2;
      options.plan_setup.sequence = 1024;
      options.plan_setup.global_batch = 64;
      options.search = view == "plan";
    }
    const CompareInput input = SampleInput({.stages = 2,
                                            .replicas = counters ? 1 : 2,
                                            .layers = 4,
                                            .micro_batches = 4,
                                            .steps = 2,
                                            .counters = counters});
    FT_TRY(ScreenshotDesktop({.input = input}, options, path));
    return ui::ReadPng(path);
  }

  std::string PathOf(const std::string& what) const {
    return testing::TempDir() + "/" + GetParam() + "_" + what + ".png";
  }
};

TEST_P(GoldenView, LooksAsItDidAndTwiceTheSame) {
  const std::string drawn = PathOf("small");
  const auto now = Drawn(drawn);
  if (!now.has_value() && now.error().code == ErrorCode::kUnsupported) {
    GTEST_SKIP() << now.error().message;
  }
  ASSERT_TRUE(now.has_value()) << now.error().message;
  const auto again = Drawn(PathOf("again"));
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_TRUE(now->pixels == again->pixels) << "see " << drawn << " and " << PathOf("again");

  const std::string golden =
      SourcePath(std::string("tests/ui/golden/") + GetParam() + "_small.png");
  if (std::getenv("FORETRAIN_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(ui::WritePng(*now, golden).has_value());
  }
  const auto then = ui::ReadPng(golden);
  ASSERT_TRUE(then.has_value()) << then.error().message;
  ASSERT_EQ(now->width, then->width);
  ASSERT_EQ(now->height, then->height);
  ui::Image difference;
  const std::size_t differ = Compare(*now, *then, difference);
  if (static_cast<double>(differ) <= kMaxPixels * static_cast<double>(now->pixels.size())) return;
  ASSERT_TRUE(ui::WritePng(difference, PathOf("difference")).has_value());
  ADD_FAILURE() << differ << " pixels differ: see " << drawn << " and " << PathOf("difference");
}

INSTANTIATE_TEST_SUITE_P(All, GoldenView,
                         testing::Values("plan", "what-if", "compare", "counters", "play", "time",
                                         "memory", "ranks", "run"),
                         [](const auto& at) {
                           std::string name = at.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace foretrain
