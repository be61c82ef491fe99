// Time of a frame in milliseconds. Prints medians for docs/ui.md and asserts nothing.
#include <gtest/gtest.h>
#include <imgui.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/ui/headless_frames.h"
#include "tests/ui/many_spans.h"

namespace foretrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kFrames = 31;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

class FrameTimes : public testing::Test {
 protected:
  // The median of frames of 1600x900 pixels whose viewport moves by a pixel each. Also the part of
  // it that passes before anything is drawn.
  void Report(const char* what, std::int64_t count, double share) {
    ui::CompareScreen& screen = desktop_->compare();
    const ui::Extent extent = screen.model().all;
    const double whole = extent.end_ns - extent.start_ns;
    std::vector<double> build, all;
    std::size_t rectangles = 0;
    for (int i = 0; i < kFrames; ++i) {
      const double start = extent.start_ns + (1.0 - share) * whole / 2 + i * share * whole / 1600;
      screen.state().viewport = {start, start + share * whole};
      const auto begin = Clock::now();
      rectangles = view_->Advance(*desktop_).rectangles;
      build.push_back(MillisecondsSince(begin));
      screen.state().viewport.start_ns += whole * share / 3200;
      const auto again = Clock::now();
      view_->Frame(*desktop_);
      view_->Wait();
      all.push_back(MillisecondsSince(again));
    }
    for (std::vector<double>* times : {&build, &all}) std::sort(times->begin(), times->end());
    std::printf(
        "%10lld spans, %-22s  %6.1f ms a frame, %6.1f of it before drawing, %zu rectangles\n",
        static_cast<long long>(count), what, all[kFrames / 2], build[kFrames / 2], rectangles);
  }

  // Time of another alignment or other rows, which the desktop computes on a thread.
  void ReportRebuilds(std::int64_t count) {
    const ui::DesktopState& state = desktop_->state();
    for (const ui::Alignment alignment : {ui::Alignment::kWallClock, ui::Alignment::kWarp}) {
      for (const ui::LaneRows rows : {ui::LaneRows::kMerged, ui::LaneRows::kQueues}) {
        const auto begin = Clock::now();
        const ui::CompareModel model = BuildCompareModel(
            state.session.input(), state.session.facts(), {.alignment = alignment, .rows = rows});
        std::printf("%10lld spans, %zu pairs, %s, %s: %.0f ms to build\n",
                    static_cast<long long>(count), model.pairs.size(),
                    std::string(Name(alignment)).c_str(),
                    rows == ui::LaneRows::kMerged ? "merged rows" : "a row a queue",
                    MillisecondsSince(begin));
      }
    }
  }

  std::unique_ptr<ui::HeadlessView> view_;
  std::unique_ptr<ui::Desktop> desktop_;
};

TEST_F(FrameTimes, AreWhatTheNotesSay) {
  const char* const asked = std::getenv("FORETRAIN_FRAME_SPANS");
  if (asked == nullptr) {
    GTEST_SKIP() << "measures, asserts nothing; run it on an idle machine with "
                    "FORETRAIN_FRAME_SPANS=1000000";
  }
  auto view = ui::HeadlessView::Create({1600, 900, 1}, ui::FontFolders());
  if (!view.has_value()) GTEST_SKIP() << view.error().message;
  view_ = *std::move(view);
  const auto count = static_cast<std::int64_t>(std::atoll(asked));
  auto input = std::make_unique<CompareInput>();
  input->predicted = ManySpans(static_cast<std::size_t>(count / 2), 1);
  input->measured = ManySpans(static_cast<std::size_t>(count - count / 2), 2);
  const auto begin = Clock::now();
  desktop_ = std::make_unique<ui::Desktop>(std::move(input));
  view_->Frame(*desktop_);
  std::printf("%10lld spans: %.0f ms from spans in memory to the first picture\n",
              static_cast<long long>(count), MillisecondsSince(begin));
  Report("all on the screen", count, 1.0);
  Report("1 % of the run", count, 0.01);
  Report("0.01 % of the run", count, 0.0001);
  ReportRebuilds(count);
}

}  // namespace
}  // namespace foretrain
