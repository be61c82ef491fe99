// Views drawn as SVG.
#include "ui/render/svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imgui.h>

#include <string>
#include <string_view>

#include "base/io/file_system.h"
#include "base/units.h"
#include "tests/ui/sample_run.h"
#include "ui/desktop_view.h"

namespace foretrain {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::size_t CountOf(const std::string& text, std::string_view what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

class SvgTest : public testing::TestWithParam<const char*> {
 protected:
  // Skips the test without a driver.
  std::string Drawn(const ViewOptions& options) {
    const std::string path = testing::TempDir() + "/" + options.view + ".svg";
    const auto drawn =
        ScreenshotDesktop({.input = SampleInput({.layers = 4, .micro_batches = 4})}, options, path);
    if (!drawn.has_value()) {
      EXPECT_EQ(drawn.error().code, ErrorCode::kUnsupported) << drawn.error().message;
      return {};
    }
    PosixFileSystem files;
    auto text = ReadFile(files, path, 64 * kMiB);
    EXPECT_TRUE(text.has_value()) << text.error().message;
    return text.value_or("");
  }
};

TEST_P(SvgTest, HasTheShapesTextsAndPicturesOfTheView) {
  ViewOptions options{.view = GetParam(), .width = 1024, .height = 640};
  options.font_folders.emplace();
  const std::string svg = Drawn(options);
  if (svg.empty())
    GTEST_SKIP() << "no driver draws without a display; runs where libegl-mesa0 is installed";
  EXPECT_THAT(svg, StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1024\""));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_EQ(CountOf(svg, "<g "), CountOf(svg, "</g>"));
  EXPECT_EQ(CountOf(svg, "<text "), CountOf(svg, "</text>"));
  EXPECT_GT(CountOf(svg, "<path "), 20U);
  EXPECT_GT(CountOf(svg, "<text "), 20U);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, HasSubstr("rank 0"));
  if (std::string_view(GetParam()) == "compare") {
    EXPECT_THAT(svg, HasSubstr("href=\"data:image/png;base64,iVBORw0KGgo"));
  }
  // The same runs and options give the same file.
  EXPECT_EQ(Drawn(options), svg);
}

INSTANTIATE_TEST_SUITE_P(Views, SvgTest, testing::Values("compare", "memory", "ranks"),
                         [](const auto& at) { return std::string(at.param); });

TEST(SvgOf, DrawsLinesRectanglesAndTextsButNoIcons) {
  ImGui::CreateContext();
  ImGui::GetIO().IniFilename = nullptr;
  ImGui::GetIO().DisplaySize = {100, 50};
  ImGui::GetIO().Fonts->Build();
  ImGui::NewFrame();
  ImDrawList& list = *ImGui::GetForegroundDrawList();
  list.AddLine({10, 10}, {50, 10}, ui::Rgb(0xff0000), 2);
  list.AddRectFilled({20, 20}, {30, 40}, ui::Rgb(0x00ff00));
  ImGui::Render();
  ui::FrameRecord record;
  for (const char* text : {"a < b", "\xEE\x80\x80", "\xEF\xA3\xBF", "\xEF\xBF\xA5"}) {
    record.texts.push_back({.text = text, .box = {0, 0, 40, 10}, .clip = {0, 0, 100, 50}});
  }
  const std::string svg = ui::SvgOf(*ImGui::GetDrawData(), record, ui::Rgb(0x000000),
                                    [](ImTextureID) { return ui::Image{}; });
  ImGui::DestroyContext();
  // A line goes through the middles of the pixels.
  EXPECT_THAT(svg,
              HasSubstr("<path fill=\"#ff0000\" d=\"M10.5 9.5L50.5 9.5L50.5 11.5L10.5 11.5Z\"/>"));
  EXPECT_THAT(svg, HasSubstr("<path fill=\"#00ff00\" d=\"M20 20H30V40H20Z\"/>"));
  EXPECT_EQ(CountOf(svg, "<text "), 2U);
  EXPECT_THAT(svg, HasSubstr(">a &lt; b</text>"));
  EXPECT_THAT(svg, HasSubstr(">\xEF\xBF\xA5</text>"));
}

TEST(PngBase64, IsAPngWithItsSignature) {
  ui::Image image;
  EXPECT_EQ(ui::PngBase64(image), "");
  image.Resize(2, 1, ui::Rgb(0x112233));
  const std::string text = ui::PngBase64(image);
  EXPECT_THAT(text, StartsWith("iVBORw0KGgoAAAANSUhEUgAAAAIAAAABC"));
  EXPECT_EQ(text.size() % 4, 0U);
}

}  // namespace
}  // namespace foretrain
