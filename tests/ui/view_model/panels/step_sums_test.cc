#include "ui/view_model/panels/step_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/ui/hand_made.h"
#include "tests/ui/headless_frames.h"
#include "ui/view_model/panels/memory_model.h"
#include "ui/view_model/timeline/hue.h"

namespace foretrain {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kRanks = 2;
constexpr std::int64_t kSpans = 160'000;  // of a rank: together more than are read at once
constexpr std::int64_t kEveryNs = 20;
constexpr std::int64_t kBusyNs = 10;

// One step; a span of 10 ns every 20 ns on each rank. Its metrics and sums are stored, its spans
// and samples are not read. The last ones are sends.
RunView UnreadStep(int samples) {
  std::vector<Span> spans;
  RunView run;
  for (int rank = 0; rank < kRanks; ++rank) {
    for (std::int64_t i = 0; i < kSpans; ++i) {
      const Place place{.rank = rank, .op = static_cast<int>(i % 4000)};
      const std::int64_t at = i * kEveryNs;
      spans.push_back(i < kSpans / 2 ? ComputeSpan(place, at, at + kBusyNs)
                                     : SendSpan(place, at, at + kBusyNs));
    }
  }
  run = RunOfSpans(std::move(spans));
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int i = 0; i < samples; ++i) {
      run.timeline.memory.push_back({i * kSpans * kEveryNs / samples, 1000 + i,
                                     static_cast<std::int16_t>(rank), Category::kActivations});
    }
  }
  const Metrics metrics = ComputeMetrics(run.timeline, run.metrics);
  run.stored_metrics = Flatten(metrics);
  SpanSummer summer(kRanks * kSpans);
  for (const Span& span : run.timeline.spans) {
    summer.Add(span.rank, span.queue, span.start_ns, span.end_ns, ui::HueOf(span));
  }
  for (const MemorySample& sample : run.timeline.memory) summer.Add(sample);
  run.sums = std::make_shared<const SpanSums>(summer.Take());
  run.timeline.spans.clear();
  run.timeline.memory.clear();
  return run;
}

TEST(StepSums, TellAStepThatIsNotReadByClassAndByWork) {
  const CompareInput input{.predicted = UnreadStep(0)};
  const ui::CompareModel model = ModelOf(input);
  const ui::SideModel& side = model.Of(ui::Side::kPredicted);
  EXPECT_TRUE(ui::IsSummed(side));
  EXPECT_THAT(ui::DescribeSummed(model),
              ElementsAre(HasSubstr("Step 0 of the forecast has about 320000 spans, more than")));
  // 10 of 20 ns of the first half compute; the sends of the second half overlap with nothing.
  const double half_s = 1e-9 * kBusyNs * kSpans / 2;
  const auto row = [](const std::vector<ui::WaitRow>& rows, const std::string& name) {
    const auto at = std::find_if(rows.begin(), rows.end(),
                                 [&](const ui::WaitRow& of) { return of.name == name; });
    return at == rows.end() ? -1.0 : at->seconds[0].value_or(-1.0);
  };
  const auto classes = ui::ClassRows(model);
  EXPECT_NEAR(row(classes, "compute"), half_s, 1e-6);
  EXPECT_NEAR(row(classes, "exposed comm"), half_s, 1e-6);
  EXPECT_TRUE(classes.back().total);
  const auto work = ui::WorkRows(model);
  EXPECT_NEAR(row(work, std::string(ui::Name(ui::Hue::kForward))), half_s, 1e-6);
  EXPECT_NEAR(row(work, std::string(ui::Name(ui::Hue::kPointToPoint))), half_s, 1e-6);
}

TEST(StepSums, AreNotNeededForAStepThatIsRead) {
  const CompareInput input = TwoRanks();
  const ui::CompareModel model = ModelOf(input);
  EXPECT_FALSE(ui::IsSummed(model.Of(ui::Side::kMeasured)));
  EXPECT_THAT(ui::DescribeSummed(model), IsEmpty());
}

TEST(StepSums, ShowMemoryByTheMomentsThatTheyKeep) {
  const CompareInput input{.predicted = UnreadStep(20'000)};
  const ui::CompareModel model = ModelOf(input);
  const ui::MemoryModel memory = ui::BuildMemoryModel(model, std::nullopt, std::nullopt);
  EXPECT_GE(memory.rank, 0);
  EXPECT_TRUE(memory.Has(ui::Side::kPredicted));
  EXPECT_GT(memory.Peak(ui::Side::kPredicted).total_bytes, 1000);
  EXPECT_THAT(memory.notices, Contains(HasSubstr("moments that sums keep")));
}

TEST(StepSums, SayWhyThereIsNoMemoryInsteadOfThatNoneWasRecorded) {
  const CompareInput input{.predicted = UnreadStep(10)};
  const ui::CompareModel model = ModelOf(input);
  const ui::MemoryModel memory = ui::BuildMemoryModel(model, std::nullopt, std::nullopt);
  EXPECT_THAT(memory.notices, Contains(HasSubstr("too many to be read at once")));
}

class SummedStep : public HeadlessFrames {};

TEST_F(SummedStep, IsShownInTimeAndHasACommunicationRowInCompare) {
  OpenDesktop({.predicted = UnreadStep(0)});
  const ui::Layout& layout = Compare().layout();
  ASSERT_FALSE(layout.lane_boxes.empty());
  EXPECT_EQ(layout.lane_boxes[0].strips.size(), 2U);
  ASSERT_TRUE(whole_->Show("time").has_value());
  Frame();
  for (const char* text : {"by class", "busy time by work", "exposed comm", "Step 0 of the"}) {
    EXPECT_TRUE(Shows(Frame(), text)) << text;
  }
  EXPECT_FALSE(Shows(Frame(), "There is no step whose time could be told"));
}

}  // namespace
}  // namespace foretrain
