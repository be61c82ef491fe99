// No text is cut, lies over another or is hard to read, in every view and at every size from
// 1024x640 on. More states: golden_set_slow_test.cc.
#include "tests/ui/text_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/ui/clean_frames.h"
#include "tests/ui/planning_samples.h"
#include "tests/ui/sample_run.h"
#include "tests/ui/text_contrast.h"

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

// A text that covers a tenth of its box, in each of the four colours, on a ground of 20 x 20
// pixels.
ui::Image ImageOf(ui::Colour ground, ui::Colour ink) {
  ui::Image image;
  image.Resize(20, 20, ground);
  image.FillBox(4, 4, 6, 16, ink);
  return image;
}

TEST(ContrastProblems, AreTextsThatDoNotStandOut) {
  const ui::Colour white = ui::Rgb(0xffffff), grey = ui::Rgb(0x777777), black = ui::Rgb(0x000000);
  const ui::Box window{0, 0, 20, 20};
  const auto record = [&](ui::Colour colour, bool disabled = false) {
    return RecordOf(
        {{.text = "a", .box = window, .clip = window, .colour = colour, .disabled = disabled}});
  };
  EXPECT_THAT(ContrastProblems(record(black), ImageOf(white, black)), IsEmpty());
  EXPECT_THAT(ContrastProblems(record(grey), ImageOf(white, grey)),
              ElementsAre(HasSubstr("contrast 4.48 of 777777 on ffffff")));
  EXPECT_THAT(ContrastProblems(record(grey, true), ImageOf(white, grey)), IsEmpty());
  // Two fifths of the ground are nearly as dark as the text.
  ui::Image halves = ImageOf(white, black);
  halves.FillBox(12, 0, 20, 20, ui::Rgb(0x003050));
  EXPECT_THAT(ContrastProblems(record(black), halves), ElementsAre(HasSubstr("on 003050")));
  EXPECT_THAT(ContrastProblems(record(white), ImageOf(white, white)),
              ElementsAre(HasSubstr("contrast 1.00")));
  // A text that is half transparent is as pale as it looks.
  EXPECT_THAT(ContrastProblems(record(ui::Faded(black, 0.3F)), ImageOf(white, black)),
              ElementsAre(HasSubstr("on ffffff")));
}

class TextLayout : public CleanFrames, public testing::WithParamInterface<FrameSize> {
 protected:
  void SetUp() override {
    CleanFrames::SetUp();
    if (view_ != nullptr) Resize(GetParam());
  }

  static CompareInput Sample() {
    return SampleInput({.stages = 2, .replicas = 2, .layers = 4, .micro_batches = 4});
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

TEST_P(TextLayout, IsCleanInThePanelsOfWhatIf) {
  OpenDesktop({});
  whole_->state().plan_start.setup = SampleSetup();
  ASSERT_TRUE(whole_->Show("what-if").has_value());
  Settle();
  const ui::Point at = MiddleOf("global batch");
  MoveTo(at.x, at.y);
  DragTo(at.x + 60, at.y);
  Settle();
  for (const char* const panel : {"both", "play", "passes", "difference", "sweep", "history"}) {
    ClickOn(panel);
    Settle();
    MoveTo(2.0F, 2.0F);
    Settle();
    ExpectClean(std::string("what-if ") + panel);
  }
}

TEST_P(TextLayout, IsCleanWhileAStepIsPlayed) {
  OpenDesktop(Sample());
  whole_->state().plan_start.setup = SampleSetup();
  Frame();
  whole_->compare().state().play = {.on = true};
  whole_->state().dock.Open(ui::DockTab::kPlay);
  const ui::CompareModel& model = whole_->compare().model();
  for (const double share : {0.0, 0.3, 0.7, 1.0}) {
    whole_->compare().state().play.at_ns = share * model.extent.end_ns;
    Frame();
    ExpectClean("compare at " + std::to_string(share));
  }
  ASSERT_TRUE(whole_->Show("what-if").has_value());
  Settle();
  ClickOn("play");
  Frame();
  for (int i = 0; i < 3; ++i) ClickOn("next >");
  MoveTo(2.0F, 2.0F);
  Settle();
  ExpectClean("what-if, step 3");
}

TEST_P(TextLayout, IsCleanWithGroupsOfRanks) {
  OpenDesktop(SampleInput({.stages = 4, .replicas = 4, .layers = 4, .micro_batches = 4}));
  Frame();
  Type('r');
  Frame();
  ExpectClean("groups");
  whole_->compare().state().order.open = {4};
  whole_->compare().state().order.pinned = {9, 2};
  Frame();
  ExpectClean("groups, one expanded, two ranks pinned");
  Type('q');
  Frame();
  ExpectClean("groups, queues");
}

INSTANTIATE_TEST_SUITE_P(Sizes, TextLayout,
                         testing::Values(FrameSize{1024, 640}, FrameSize{1280, 720},
                                         FrameSize{1366, 768}, FrameSize{1600, 900}),
                         [](const auto& of) {
                           return std::to_string(of.param.width) + "x" +
                                  std::to_string(of.param.height);
                         });

}  // namespace
}  // namespace foretrain
