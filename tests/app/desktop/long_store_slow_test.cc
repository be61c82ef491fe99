// The desktop on stores of millions of spans: its content before all is loaded, and its times,
// which are printed. Deadlines are far above them, for busy machines and sanitizers. Slow: creating
// such a store takes seconds. FORETRAIN_LONG_SPANS sets the number of spans, FORETRAIN_LONG_RANKS
// that of ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <thread>
#include <utility>

#include "tests/app/desktop/long_store.h"

#if FORETRAIN_HAVE_UI
#include "app/desktop/desktop_stores.h"
#include "app/runs/explained_runs.h"
#include "ui/open_desktop.h"
#include "ui/render/headless.h"
#include "ui/store_loader.h"
#include "ui/view/widgets/fonts.h"

namespace foretrain {
namespace {

using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr int kFrames = 31;
constexpr double kMaxOpenMs = 10'000;  // from the file to the first picture
constexpr double kMaxFrameMs = 500;    // median, of the processor, of the thread that draws
constexpr double kMaxReadMs = 30'000;  // of all that is shown at a zoom
constexpr std::int64_t kMaxResidentBytes = std::int64_t{1} << 30;
constexpr std::int64_t kMiB = std::int64_t{1} << 20;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double CpuMilliseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

std::int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

std::int64_t AskedSpans(std::int64_t otherwise) {
  const char* const asked = std::getenv("FORETRAIN_LONG_SPANS");
  return asked == nullptr ? otherwise : std::atoll(asked);
}

int AskedRanks() {
  const char* const asked = std::getenv("FORETRAIN_LONG_RANKS");
  return asked == nullptr ? 32 : std::atoi(asked);
}

bool Shows(const ui::FrameRecord& record, std::string_view text) {
  return std::any_of(record.labels.begin(), record.labels.end(), [text](const std::string& label) {
    return label.find(text) != std::string::npos;
  });
}

class LongStores : public testing::Test {
 protected:
  void SetUp() override {
    auto view = ui::HeadlessView::Create({1600, 900, 1}, ui::FontFolders());
    if (!view.has_value()) GTEST_SKIP() << view.error().message;
    view_ = *std::move(view);
  }

  void Open(const std::string& path) {
    const std::int64_t before = ResidentBytes();
    const auto begin = Clock::now();
    auto opened = stores_.Open({path, 3, 0});
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    auto desktop = ui::OpenDesktop(std::move(**opened), {});
    ASSERT_TRUE(desktop.has_value()) << desktop.error().message;
    desktop_ = *std::move(desktop);
    first_ = view_->Frame(*desktop_);
    view_->Wait();
    const double opened_ms = MillisecondsSince(begin);
    EXPECT_LE(opened_ms, kMaxOpenMs);
    std::printf("%.0f ms from the file to the first picture, %lld MiB more resident\n", opened_ms,
                static_cast<long long>((ResidentBytes() - before) / kMiB));
    resident_before_ = before;
  }

  // Draws frames until everything on display is loaded. Reading goes on beside them, so that none
  // waits for it.
  const ui::FrameRecord& Settle() {
    const ui::FrameRecord* record = &view_->Frame(*desktop_);
    for (int i = 0; i < 30'000; ++i) {
      const double used = CpuMilliseconds(CLOCK_THREAD_CPUTIME_ID);
      const bool building = desktop_->state().session.IsBuilding();
      const bool changed = loader_.Refresh(0.0, desktop_->state()) || building;
      if (changed) record = &view_->Frame(*desktop_);
      longest_ms_ = std::max(longest_ms_, CpuMilliseconds(CLOCK_THREAD_CPUTIME_ID) - used);
      if (!changed && !loader_.IsBusy()) return *record;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    ADD_FAILURE() << "it reads without end";
    return *record;
  }

  // Prints medians of frames whose view moves by a pixel each, once everything on display is
  // loaded.
  void Report(const char* what, double share) {
    ui::CompareScreen& screen = desktop_->compare();
    const ui::Extent extent = screen.model().all;
    const double whole = extent.end_ns - extent.start_ns;
    const double from = extent.start_ns + (1.0 - share) * whole * 0.4;
    screen.state().viewport = {from, from + share * whole};
    const auto asked = Clock::now();
    std::size_t rectangles = Settle().rectangles;
    const double reading_ms = MillisecondsSince(asked);
    std::vector<double> wall, cpu, all_cpu;
    for (int i = 0; i < kFrames; ++i) {
      const double start = from + i * share * whole / 1600;
      screen.state().viewport = {start, start + share * whole};
      const auto begin = Clock::now();
      const double used = CpuMilliseconds(CLOCK_THREAD_CPUTIME_ID);
      const double all_used = CpuMilliseconds(CLOCK_PROCESS_CPUTIME_ID);
      rectangles = std::max(rectangles, view_->Frame(*desktop_).rectangles);
      view_->Wait();
      wall.push_back(MillisecondsSince(begin));
      cpu.push_back(CpuMilliseconds(CLOCK_THREAD_CPUTIME_ID) - used);
      all_cpu.push_back(CpuMilliseconds(CLOCK_PROCESS_CPUTIME_ID) - all_used);
    }
    for (auto* const times : {&wall, &cpu, &all_cpu}) std::sort(times->begin(), times->end());
    std::printf(
        "%-8s %6.1f ms a frame, CPU %6.1f ms of its thread, %6.1f ms of all, "
        "%5zu rectangles, read in %.0f ms, %lld MiB more resident than before opening\n",
        what, wall[kFrames / 2], cpu[kFrames / 2], all_cpu[kFrames / 2], rectangles, reading_ms,
        static_cast<long long>((ResidentBytes() - resident_before_) / kMiB));
    EXPECT_LE(rectangles, 10'000U);
    EXPECT_LE(cpu[kFrames / 2], kMaxFrameMs);
    EXPECT_LE(reading_ms, kMaxReadMs);
    std::printf("the longest frame while something was read took %.1f ms of its thread\n",
                longest_ms_);
    EXPECT_LE(longest_ms_, kMaxFrameMs);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    EXPECT_LE(ResidentBytes() - resident_before_, kMaxResidentBytes);
#endif
  }

  void ReportAll() {
    Report("all", 1.0);
    Report("10 %", 0.1);
    Report("1 %", 0.01);
    Report("0.01 %", 0.0001);
  }

  // The same with a lane for every rank, if ranks are grouped at first.
  void ReportEveryRank() {
    ui::LaneOrder& order = desktop_->compare().state().order;
    if (!std::exchange(order.grouped, false)) return;
    std::printf("a lane for every rank:\n");
    ReportAll();
  }

  std::size_t SpansRead(ui::Side side) {
    return desktop_->state().session.model().TimelineOf(side).spans.size();
  }

  TemporaryFolder folder_;
  DesktopStores stores_;
  std::unique_ptr<ui::HeadlessView> view_;
  std::unique_ptr<ui::Desktop> desktop_;
  ui::StoreLoader loader_{&stores_, {}, /*follows=*/false};
  ui::FrameRecord first_;
  std::int64_t resident_before_ = 0;
  double longest_ms_ = 0;  // of frames while something is read
};

TEST_F(LongStores, ShowTheWholeAtOnceAndReadTheStepThatIsCompared) {
  const LongStore store = MakeLongStore(folder_, AskedSpans(1'500'000));
  std::printf("%lld spans in %d steps\n", static_cast<long long>(store.spans), store.steps);
  Open(store.path);
  EXPECT_EQ(SpansRead(ui::Side::kMeasured), 0U);
  EXPECT_TRUE(Shows(first_, "rank 0"));
  EXPECT_GT(first_.folded_columns, 1000U);
  const ui::FrameRecord& settled = Settle();
  EXPECT_TRUE(Shows(settled, "is read span by span"));
  const ui::CompareModel& model = desktop_->state().session.model();
  EXPECT_GT(SpansRead(ui::Side::kMeasured), 50'000U);
  EXPECT_LT(SpansRead(ui::Side::kMeasured), static_cast<std::size_t>(store.spans) / 2);
  EXPECT_FALSE(model.worst.empty());
  for (const PairedOp& pair : model.pairs) ASSERT_TRUE(pair.IsPair());
  ReportAll();
}

TEST_F(LongStores, ReadTheNextStepWhenItIsChosen) {
  const LongStore store = MakeLongStore(folder_, 1'500'000);
  Open(store.path);
  Settle();
  ui::CompareOptions options = desktop_->state().session.model().options;
  options.measured_step = store.steps - 1;
  desktop_->state().session.Rebuild(options);
  const ui::FrameRecord* record = &view_->Frame(*desktop_);
  for (int i = 0; i < 30'000 && desktop_->state().session.IsBuilding(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    record = &view_->Frame(*desktop_);
  }
  EXPECT_TRUE(Shows(*record, "are being read"));
  Settle();
  const ui::CompareModel& model = desktop_->state().session.model();
  EXPECT_EQ(model.Of(ui::Side::kMeasured).step, store.steps - 1);
  ASSERT_FALSE(model.worst.empty());
  EXPECT_EQ(model.pairs[model.worst[0]].measured->step, store.steps - 1);
}

// Each span of the measurement is up to 30 % longer than in the forecast, 15 % on average.
TEST_F(LongStores, ExplainAStepWithoutReadingTheOthers) {
  const LongStore store = MakeLongStore(folder_, AskedSpans(1'500'000));
  const auto begin = Clock::now();
  const auto explained = ExplainStoredRuns({.path = store.path, .run = 3}, store.steps / 2);
  std::printf("explained in %.0f ms\n", MillisecondsSince(begin));
  ASSERT_TRUE(explained.has_value()) << explained.error().message;
  ASSERT_TRUE(explained->attribution.has_value())
      << (explained->notes.empty() ? "" : explained->notes[0]);
  const Attribution& gap = *explained->attribution;
  EXPECT_GT(gap.replayed_s, 1.05 * gap.predicted_s);
  EXPECT_NEAR(gap.covered, 1.0, 0.01);
  EXPECT_FALSE(gap.shares.empty());
  EXPECT_FALSE(explained->flops.empty());
}

TEST_F(LongStores, SayWhyAStepOfTooManySpansIsNotExplained) {
  const LongStore store = MakeLongStore(folder_, 2'500'000, /*one_step=*/true);
  const auto explained = ExplainStoredRuns({.path = store.path, .run = 3}, 0);
  ASSERT_TRUE(explained.has_value()) << explained.error().message;
  EXPECT_FALSE(explained->attribution.has_value());
  ASSERT_FALSE(explained->notes.empty());
  EXPECT_THAT(explained->notes[0], HasSubstr("`foretrain compare` does that"));
}

TEST_F(LongStores, ReadWhatIsZoomedIntoOfAStepTooLongToBeReadWhole) {
  const LongStore store =
      MakeLongStore(folder_, AskedSpans(2'000'000), /*one_step=*/true, AskedRanks());
  std::printf("%lld spans in %d step\n", static_cast<long long>(store.spans), store.steps);
  Open(store.path);
  EXPECT_TRUE(Shows(Settle(), "as you zoom in"));
  EXPECT_EQ(SpansRead(ui::Side::kMeasured), 0U);
  ReportAll();
  ReportEveryRank();
  EXPECT_GT(SpansRead(ui::Side::kMeasured), 0U);
}

}  // namespace
}  // namespace foretrain
#endif
