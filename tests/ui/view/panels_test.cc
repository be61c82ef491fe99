// Parts that open over a view, with mouse and keys, without a display: details, search, critical
// path, help, the panel of stores. With FORETRAIN_PICTURES=FOLDER each is also written there as a
// PNG for review.
#include <gtest/gtest.h>
#include <imgui.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "tests/ui/headless_frames.h"
#include "tests/ui/sample_run.h"
#include "ui/render/png.h"
#include "ui/view/desktop/input.h"
#include "ui/view/screens/view_table.h"
#include "ui/view/widgets/fonts.h"

namespace foretrain {
namespace {

class Panels : public HeadlessFrames {
 protected:
  // Uses separate colours, size and scale if pictures are requested.
  void SetUp() override {
    HeadlessFrames::SetUp();
    if (view_ == nullptr || std::getenv("FORETRAIN_PICTURES") == nullptr) return;
    view_.reset();  // its destructor resets the current context
    auto view = ui::HeadlessView::Create({1280, 720, 1}, ui::FontFolders());
    ASSERT_TRUE(view.has_value()) << view.error().message;
    view_ = *std::move(view);
  }

  void Open(const char* view = "compare") {
    OpenDesktop(SampleInput({.stages = 2, .layers = 4, .micro_batches = 4}));
    ASSERT_TRUE(whole_->Show(view).has_value());
    Frame();
    Frame();
  }

  void Keep(const std::string& name) {
    const char* const folder = std::getenv("FORETRAIN_PICTURES");
    if (folder == nullptr) return;
    const auto written = ui::WritePng(Pixels(), std::string(folder) + "/" + name + ".png");
    EXPECT_TRUE(written.has_value());
  }

  // Clicks the middle of the first measured span of the second lane.
  void ClickASpan() {
    const float y = YOf(1, 2);
    for (float x = Compare().layout().plot_x0 + 60; x < Compare().layout().plot_x1; x += 37) {
      MoveTo(x, y);
      const bool span =
          std::any_of(last_.tooltip.begin(), last_.tooltip.end(),
                      [](const std::string& line) { return line.rfind("place", 0) == 0; });
      if (!span) continue;
      Click(x, y);
      return;
    }
    FAIL() << "no span on the second lane";
  }
};

TEST_F(Panels, DetailsTellOfASpanAndCloseByEscape) {
  Open();
  ClickASpan();
  EXPECT_TRUE(Shows(Frame(), "op id"));
  EXPECT_TRUE(Shows(Frame(), "counterpart starts"));
  Keep("details");
  ImGui::GetIO().KeysDown[ui::kKeyEscape] = true;
  Frame();
  ImGui::GetIO().KeysDown[ui::kKeyEscape] = false;
  EXPECT_FALSE(Shows(Frame(), "op id"));
}

TEST_F(Panels, SearchGoesFromOneFindToTheNext) {
  Open();
  Type('/');
  Frame();
  for (const char c : std::string("attn")) Type(c);
  Frame();
  EXPECT_TRUE(Shows(Frame(), "1 of "));
  Keep("search");
  ImGui::GetIO().KeysDown[ui::kKeyEnter] = true;
  Frame();
  ImGui::GetIO().KeysDown[ui::kKeyEnter] = false;
  Frame();
  EXPECT_TRUE(Shows(Frame(), "2 of "));
}

TEST_F(Panels, CriticalPathGoesFromMeasuredToPredictedToNone) {
  Open();
  EXPECT_TRUE(Shows(Type('c'), "measured critical path"));
  Keep("path");
  EXPECT_TRUE(Shows(Type('c'), "predicted critical path"));
  EXPECT_FALSE(Shows(Type('c'), "critical path"));
}

TEST_F(Panels, ABubbleTellsWhatTheStepsBubbleIsMadeOf) {
  Open();
  bool told = false;
  for (float x = Compare().layout().plot_x0; x < Compare().layout().plot_x1 && !told; x += 7) {
    for (const std::string& line : MoveTo(x, YOf(1, 2)).tooltip) {
      told = told || (line.rfind("bubble of the step: ", 0) == 0 &&
                      line.find("schedule") != std::string::npos);
    }
  }
  EXPECT_TRUE(told);
  Keep("bubble");
}

TEST_F(Panels, HelpOfEachViewOpensByItsButton) {
  for (const ui::ViewEntry& entry : ui::ViewTable()) {
    Open(std::string(entry.name).c_str());
    EXPECT_TRUE(Shows(ClickOn("? help"), "Keys and mouse")) << entry.name;
    Keep("help-" + std::string(entry.name));
  }
}

TEST_F(Panels, StoresListRunsAndAskForOne) {
  Open();
  ui::DesktopState& state = whole_->state();
  state.stores.recent = {"/runs/demo.db", "/runs/old.db"};
  std::vector<RunInfo> runs;
  for (const RunId id : {1, 2, 3}) {
    RunInfo run;
    run.id = id;
    run.kind = id == 1 ? RunKind::kPredicted : RunKind::kMeasured;
    run.status = RunStatus::kFinished;
    run.label = "gpt-10m dp1 tp1 pp2 zb-h1 mb8 x2";
    run.metrics = {{-1, -1, "step_time_s", 2.1}};
    runs.push_back(run);
  }
  state.session.SetStore({.path = "/runs/demo.db", .run = 2}, runs);
  ClickOn("store");
  Frame();
  for (const char* text : {"Open a store", "Recent stores", "/runs/old.db", "shown", "2.10 s"}) {
    EXPECT_TRUE(Shows(Frame(), text)) << text;
  }
  Keep("stores");
  ClickOn("show run 3");
  ASSERT_TRUE(state.stores.wanted.has_value());
  EXPECT_EQ(state.stores.wanted->run, 3);
  state.stores.wanted.reset();
  ClickOn("against run 1");
  ASSERT_TRUE(state.stores.wanted.has_value());
  EXPECT_EQ(state.stores.wanted->against, 1);
  state.stores.wanted.reset();
  ClickOn("/runs/old.db");
  ASSERT_TRUE(state.stores.wanted.has_value());
  EXPECT_EQ(state.stores.wanted->path, "/runs/old.db");
  EXPECT_FALSE(Shows(Type('o'), "Open a store"));
}

}  // namespace
}  // namespace foretrain
