// No text is cut and none lies over another, in every view and at every size from 1024x640 on. With
// FORETRAIN_PICTURES=FOLDER the installed fonts are used, and each frame is also written there as a
// PNG for review.
#include "tests/ui/text_layout.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/ui/headless_frames.h"
#include "tests/ui/planning_samples.h"
#include "tests/ui/sample_run.h"
#include "ui/render/png.h"
#include "ui/view/screens/view_table.h"
#include "ui/view/widgets/fonts.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ui::FrameRecord RecordOf(const std::vector<ui::TextRecord>& texts) {
  ui::FrameRecord record;
  record.texts = texts;
  return record;
}

TEST(LayoutProblems, AreCutAndOverlappingTexts) {
  const ui::Box window{0, 0, 100, 100};
  EXPECT_THAT(LayoutProblems(RecordOf({{"a", {0, 0, 50, 13}, window},
                                       {"b", {0, 13, 50, 26}, window},
                                       {"c", {50, 0, 100, 13}, window}})),
              IsEmpty());
  EXPECT_THAT(LayoutProblems(RecordOf({{"a", {60, 0, 110, 13}, window}})),
              ElementsAre(HasSubstr("is cut")));
  EXPECT_THAT(LayoutProblems(RecordOf({{"a", {0, 92, 50, 105}, window}})),
              ElementsAre(HasSubstr("is cut")));
  EXPECT_THAT(LayoutProblems(RecordOf({{"a", {0, 92, 50, 105}, window, true}})), IsEmpty());
  EXPECT_THAT(LayoutProblems(RecordOf({{"a", {0, 105, 50, 118}, window}})), IsEmpty());
  EXPECT_THAT(
      LayoutProblems(RecordOf({{"a", {0, 0, 50, 13}, window}, {"b", {40, 5, 90, 18}, window}})),
      ElementsAre(HasSubstr("\"b\" at 40,5 to 90,18 lies over \"a\"")));
}

struct Size {
  int width;
  int height;
};

class TextLayout : public HeadlessFrames, public testing::WithParamInterface<Size> {
 protected:
  void SetUp() override {
    HeadlessFrames::SetUp();
    if (view_ == nullptr) return;
    view_.reset();  // its destructor resets the current context
    const ui::ViewSize size{static_cast<float>(GetParam().width),
                            static_cast<float>(GetParam().height), 1};
    const bool kept = std::getenv("FORETRAIN_PICTURES") != nullptr;
    auto view =
        ui::HeadlessView::Create(size, kept ? ui::FontFolders() : std::vector<std::string>());
    ASSERT_TRUE(view.has_value()) << view.error().message;
    view_ = *std::move(view);
  }

  static CompareInput Sample() {
    return SampleInput({.stages = 2, .replicas = 2, .layers = 4, .micro_batches = 4});
  }

  // Draws until searches and simulations have ended.
  void Settle() {
    Frame();
    for (int i = 0; i < 20'000 && whole_->IsMoving(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      Frame();
    }
    Frame();
  }

  void ExpectClean(const std::string& what) {
    EXPECT_THAT(LayoutProblems(last_), IsEmpty()) << what;
    const char* const folder = std::getenv("FORETRAIN_PICTURES");
    if (folder == nullptr) return;
    const std::string name =
        fmt::format("{}/{}x{} {}.png", folder, GetParam().width, GetParam().height, what);
    EXPECT_TRUE(ui::WritePng(Pixels(), name).has_value());
  }

  void ExpectCleanEverywhere(const std::string& what) {
    for (const ui::ViewEntry& view : ui::ViewTable()) {
      ASSERT_TRUE(whole_->Show(view.name).has_value());
      Settle();
      ExpectClean(what + ", " + std::string(view.name));
    }
  }
};

TEST_P(TextLayout, IsCleanInEveryView) {
  OpenDesktop(Sample());
  whole_->state().plan_start.setup = SampleSetup();
  whole_->state().plan_start.search = true;
  ExpectCleanEverywhere("both runs");
}

TEST_P(TextLayout, IsCleanForOneRunAndForNone) {
  CompareInput measured = Sample();
  measured.predicted.reset();
  OpenDesktop(measured);
  whole_->state().plan_start.setup = SampleSetup();
  ExpectCleanEverywhere("measured");
  CompareInput predicted = Sample();
  predicted.measured.reset();
  OpenDesktop(predicted);
  whole_->state().plan_start.setup = SampleSetup();
  ExpectCleanEverywhere("predicted");
  OpenDesktop({});
  whole_->state().plan_start.setup = SampleSetup();
  ExpectCleanEverywhere("none");
}

TEST_P(TextLayout, IsCleanWithCountersQueuesAndTheCriticalPath) {
  OpenDesktop(SampleInput({.layers = 4, .micro_batches = 4, .counters = true}));
  Frame();
  ExpectClean("counters");
  Type('q');
  Frame();
  ExpectClean("queues");
  Type('q');
  Type('c');
  Frame();
  ExpectClean("critical path");
}

TEST_P(TextLayout, IsCleanInThePanelUnderTheLanes) {
  OpenDesktop(Sample());
  Frame();
  const ui::CompareModel& model = whole_->compare().model();
  whole_->compare().state().selected = ui::SpanRef{
      ui::Side::kMeasured,
      static_cast<std::uint32_t>(model.TimelineOf(ui::Side::kMeasured).spans.size() / 2)};
  whole_->compare().state().measure = ui::Measure{0.0, 1e6};
  whole_->state().dock.search = "mlp";
  whole_->compare().state().found = ui::FindSpans(model, "mlp");
  for (const char* view : {"compare", "time"}) {
    ASSERT_TRUE(whole_->Show(view).has_value());
    for (int tab = 0; tab < ui::kDockTabCount; ++tab) {
      for (int by = 0; by < kSumByCount; ++by) {
        whole_->state().dock.by = static_cast<SumBy>(by);
        whole_->state().dock.Open(static_cast<ui::DockTab>(tab));
        Frame();
        Frame();
        ExpectClean(std::string(view) + ", tab " + std::to_string(tab) + ", by " +
                    std::to_string(by));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, TextLayout,
                         testing::Values(Size{1024, 640}, Size{1280, 720}, Size{1366, 768},
                                         Size{1600, 900}),
                         [](const auto& of) {
                           return std::to_string(of.param.width) + "x" +
                                  std::to_string(of.param.height);
                         });

}  // namespace
}  // namespace foretrain
