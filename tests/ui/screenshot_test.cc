#include <gtest/gtest.h>

#include <cstdlib>

#include <imgui.h>
#include "tests/ui/sample_run.h"
#include "ui/compare_view.h"
#include "ui/render/headless.h"
#include "ui/render/png.h"

namespace foretrain::ui {
namespace {

TEST(Screenshot, Draft) {
  const CompareInput input = SampleInput({.stages = 2, .replicas = 2, .layers = 12});
  ViewOptions options;
  const auto done = ScreenshotCompare(input, options, testing::TempDir() + "/a.png");
  ASSERT_TRUE(done.has_value()) << done.error().message;
  options.window_start_s = 0.0345;
  options.window_end_s = 0.0395;
  options.light = true;
  ASSERT_TRUE(ScreenshotCompare(input, options, testing::TempDir() + "/b.png").has_value());
  options.light = false;
  options.queues = true;
  options.window_start_s = 0.033;
  options.window_end_s = 0.063;
  ASSERT_TRUE(ScreenshotCompare(input, options, testing::TempDir() + "/c.png").has_value());
  CompareInput alone;
  alone.predicted = input.predicted;
  ASSERT_TRUE(ScreenshotCompare(alone, {}, testing::TempDir() + "/d.png").has_value());
}

TEST(Screenshot, DraftHover) {
  const CompareInput input = SampleInput({.stages = 2, .replicas = 2, .layers = 12});
  auto view = HeadlessView::Create({1600, 900, 1}, FontFolders());
  ASSERT_TRUE(view.has_value());
  CompareScreen screen(input, {});
  (*view)->Frame(screen);
  auto key = [&](char c) {
    ImGui::GetIO().AddInputCharacter(c);
    (*view)->Frame(screen);
  };
  key(']');
  key(']');
  key(']');
  ImGui::GetIO().MousePos = {870, 430};
  (*view)->Frame(screen);
  ImGui::GetIO().MousePos = {850, 630};
  (*view)->Frame(screen);
  ASSERT_TRUE(WritePng((*view)->Read(), testing::TempDir() + "/e.png").has_value());
  key('u');
  key('u');
  key('u');
  ImGui::GetIO().MousePos = {270, 180};
  (*view)->Frame(screen);
  ASSERT_TRUE(WritePng((*view)->Read(), testing::TempDir() + "/f.png").has_value());
  key('?');
  ASSERT_TRUE(WritePng((*view)->Read(), testing::TempDir() + "/g.png").has_value());
}

}  // namespace
}  // namespace foretrain::ui
