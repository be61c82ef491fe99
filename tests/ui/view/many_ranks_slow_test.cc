// 16,384 ranks in the desktop: what is shown, and how long it takes, which is printed. Deadlines
// are far above that, for busy machines. Slow: it draws a hundred frames.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "tests/ui/hand_made.h"
#include "tests/ui/headless_frames.h"
#include "ui/view/screens/ranks_screen.h"

namespace foretrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRanks = 16'384;
constexpr int kStages = 16;
constexpr int kSlow = 9'000;
constexpr int kFrames = 31;
constexpr double kMaxOpenMs = 60'000;
constexpr double kMaxFrameMs = 1'000;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Each rank computes 20 times for 100 ns, one rank for 110 ns, and sends as often.
RunView ManyRanks() {
  std::vector<Span> spans;
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::int64_t length = rank == kSlow ? 110 : 100;
    for (int i = 0; i < 20; ++i) {
      const Place place{.rank = rank, .micro_batch = i};
      spans.push_back(ComputeSpan(place, 150 * i, 150 * i + length));
      spans.push_back(SendSpan(place, 150 * i + length, 150 * i + length + 20));
    }
  }
  RunView run = RunOfSpans(std::move(spans));
  run.is_measurement = true;
  run.label = "run 1";
  run.metrics.pipelines = PipelinesOf(kRanks, kStages);
  return run;
}

class ManyRanksTest : public HeadlessFrames {
 protected:
  void ReportFrames(const char* what) {
    std::vector<double> times;
    for (int i = 0; i < kFrames; ++i) {
      whole_->compare().state().viewport.start_ns += 1.0;
      whole_->compare().state().viewport.end_ns += 1.0;
      const auto begin = Clock::now();
      view_->Frame(*content_);
      view_->Wait();
      times.push_back(MillisecondsSince(begin));
    }
    std::sort(times.begin(), times.end());
    std::printf("%s: %.1f ms a frame\n", what, times[kFrames / 2]);
    EXPECT_LE(times[kFrames / 2], kMaxFrameMs);
  }
};

TEST_F(ManyRanksTest, OpenGroupedAndNameTheSlowOne) {
  const CompareInput input{.measured = ManyRanks()};
  const auto begin = Clock::now();
  OpenDesktop(input);
  view_->Frame(*content_);
  view_->Wait();
  const double opened_ms = MillisecondsSince(begin);
  std::printf("%d ranks, %zu spans: %.0f ms from spans in memory to the first picture\n", kRanks,
              input.measured->timeline.spans.size(), opened_ms);
  EXPECT_LE(opened_ms, kMaxOpenMs);
  // A row for each stage; the slow rank stands for its own.
  const std::vector<ui::LaneRow>& rows = whole_->compare().layout().list->rows;
  ASSERT_EQ(rows.size(), static_cast<std::size_t>(kStages));
  EXPECT_EQ(rows[0].stands_for, kRanks / kStages);
  EXPECT_EQ(rows[kSlow / (kRanks / kStages)].lane, static_cast<std::size_t>(kSlow));
  EXPECT_TRUE(Shows(Frame(), "1,024 ranks"));
  ReportFrames("16 groups");
  Type('r');
  Frame();
  EXPECT_EQ(whole_->compare().layout().list->rows.size(), static_cast<std::size_t>(kRanks));
  ReportFrames("a lane for every rank");
  Type('l');
  Frame();
  EXPECT_EQ(whole_->compare().layout().list->rows[0].lane, static_cast<std::size_t>(kSlow));
  ASSERT_TRUE(whole_->Show("ranks").has_value());
  const auto ranks_begin = Clock::now();
  Frame();
  std::printf("Ranks: %.0f ms to the first picture\n", MillisecondsSince(ranks_begin));
  const auto& screen = dynamic_cast<const ui::RanksScreen&>(whole_->screen());
  ASSERT_EQ(screen.entries().size(), static_cast<std::size_t>(kRanks));
  EXPECT_EQ(screen.entries()[0].rank, kSlow);
}

}  // namespace
}  // namespace foretrain
