#include "ui/desktop_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/ui/hand_made.h"
#include "tests/ui/render/read_png.h"

namespace foretrain {
namespace {

constexpr const char* kNoEgl = "needs surfaceless EGL, as libegl-mesa0 with libgl1-mesa-dri has: ";

using testing::HasSubstr;

class DesktopView : public testing::Test {
 protected:
  // The error of drawing a picture with `options`; kAborted if there was none.
  Error ErrorOf(const ViewOptions& options) const {
    const auto done = ScreenshotDesktop({.input = input_}, options, path_);
    return done.has_value() ? Error{ErrorCode::kAborted, "drawn"} : done.error();
  }

  CompareInput input_ = TwoRanks();
  // Tests run at the same time, so each writes a file of its own.
  std::string path_ = testing::TempDir() + "/desktop_view_" +
                      testing::UnitTest::GetInstance()->current_test_info()->name() + ".png";
};

TEST_F(DesktopView, WritesAPictureOfTheSizeAskedFor) {
  const auto done = ScreenshotDesktop({.input = input_}, {.width = 700, .height = 500}, path_);
  if (!done.has_value() && done.error().code == ErrorCode::kUnsupported) {
    GTEST_SKIP() << kNoEgl << done.error().message;
  }
  ASSERT_TRUE(done.has_value()) << done.error().message;
  const auto image = ui::ReadPng(path_);
  ASSERT_TRUE(image.has_value());
  EXPECT_EQ(image->width, 700);
  EXPECT_EQ(image->height, 500);
}

TEST_F(DesktopView, RefusesWhatTheRunsDoNotHave) {
  if (ErrorOf({}).code == ErrorCode::kUnsupported) GTEST_SKIP() << kNoEgl << ErrorOf({}).message;
  const Error step = ErrorOf({.step = 7});
  EXPECT_EQ(step.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(step.message, HasSubstr("step 7: the run has steps 0 to 0"));
  const Error rank = ErrorOf({.memory_rank = 9});
  EXPECT_EQ(rank.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(rank.message, HasSubstr("rank 9"));
}

TEST_F(DesktopView, RefusesSizesScalesAndWindowsThatCannotBe) {
  EXPECT_EQ(ErrorOf({.width = 0}).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf({.height = 100'000}).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf({.scale = -1.0}).code, ErrorCode::kInvalidArgument);
  const Error window = ErrorOf({.window_start_s = 2e-7, .window_end_s = 1e-7});
  EXPECT_EQ(window.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(window.message, HasSubstr("must end after it starts"));
}

TEST_F(DesktopView, SaysWhatToDoWithoutADisplay) {
  const char* const display = std::getenv("DISPLAY");
  const std::string kept = display != nullptr ? display : "";
  unsetenv("DISPLAY");
  const auto shown = ShowDesktop({.input = TwoRanks()}, {});
  if (display != nullptr) setenv("DISPLAY", kept.c_str(), 1);
  ASSERT_FALSE(shown.has_value());
  EXPECT_EQ(shown.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(shown.error().message, HasSubstr("DISPLAY"));
  EXPECT_THAT(shown.error().message, HasSubstr("--screenshot"));
}

}  // namespace
}  // namespace foretrain
