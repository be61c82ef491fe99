// The views of one rank's memory and of all ranks, used without a display.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imgui.h>

#include <chrono>
#include <random>
#include <thread>

#include "tests/ui/hand_made.h"
#include "tests/ui/headless_frames.h"
#include "tests/ui/sample_run.h"
#include "ui/view/screens/memory_screen.h"
#include "ui/view/screens/ranks_screen.h"
#include "ui/view/screens/view_table.h"

namespace foretrain {
namespace {

class RunViews : public HeadlessFrames {
 protected:
  void Show(const CompareInput& input, const char* view) {
    OpenDesktop(input);
    ASSERT_TRUE(whole_->Show(view).has_value());
    Frame();
    Frame();
  }
};

TEST_F(RunViews, MemoryShowsWhatIsLiveAtThePeak) {
  const CompareInput input = SampleInput({.layers = 4, .micro_batches = 4});
  Show(input, "memory");
  const ui::FrameRecord& record = Frame();
  for (const char* text : {"measured peak", "predicted peak", "live at the peak", "activations",
                           "parameters", "error"}) {
    EXPECT_TRUE(Shows(record, text)) << text;
  }
  const auto& screen = dynamic_cast<const ui::MemoryScreen&>(whole_->screen());
  std::int64_t sum = 0;
  for (const ui::CategoryRow& row : screen.model().rows) sum += *row.bytes[1];
  EXPECT_EQ(sum, screen.model().Peak(ui::Side::kMeasured).total_bytes);
}

TEST_F(RunViews, MemoryChangesRankAndSpace) {
  CompareInput input = TwoRanks();
  input.measured->timeline.memory = {
      {.time_ns = 1000, .bytes = 4096, .rank = 0, .category = Category::kParameters},
      {.time_ns = 1000, .bytes = 2048, .rank = 1, .category = Category::kParameters},
      {.time_ns = 1000,
       .bytes = 512,
       .rank = 0,
       .category = Category::kOptimizerState,
       .space = Space::kHost}};
  SortTimeline(input.measured->timeline);
  Show(input, "memory");
  const auto& screen = dynamic_cast<const ui::MemoryScreen&>(whole_->screen());
  EXPECT_EQ(screen.model().rank, 0);
  ClickOn("host");
  Frame();
  EXPECT_EQ(screen.model().panel.space, Space::kHost);
  EXPECT_TRUE(Shows(Frame(), "optimizer state"));
  ClickOn("##rank");
  Frame();
  ClickOn("rank 1  2.00 KiB");
  Frame();
  EXPECT_EQ(screen.model().rank, 1);
}

TEST_F(RunViews, RanksNamesStragglersAndGoesToCompare) {
  std::vector<Span> spans;
  for (int rank = 0; rank < 3; ++rank) {
    for (int step = 0; step < 4; ++step) {
      spans.push_back(ComputeSpan({.rank = rank, .step = step}, 1000 * step,
                                  1000 * step + (rank == 2 ? 300 : 100)));
    }
  }
  CompareInput input;
  input.measured = RunOfSpans(spans);
  Show(input, "ranks");
  const auto& screen = dynamic_cast<const ui::RanksScreen&>(whole_->screen());
  Frame();
  ASSERT_EQ(screen.entries().size(), 3U);
  EXPECT_EQ(screen.entries()[0].rank, 2);
  EXPECT_TRUE(Shows(last_, "+200.0 %"));
  EXPECT_TRUE(Shows(last_, "gemm 200 ns longer"));
  // The slowest rank is drawn over the steps until another row is clicked.
  EXPECT_EQ(screen.chosen(), 2);
  ClickOn("rank 1");
  EXPECT_EQ(screen.chosen(), 1);
  const ui::Box plot = screen.plot();
  // The last of four steps, the second of three ranks.
  const float x = plot.x1 - plot.Width() / 8, y = (plot.y0 + plot.y1) / 2;
  MoveTo(x, y);
  EXPECT_EQ(Frame().tooltip.at(0), "rank 1, step 3");
  Click(x, y);
  Frame();
  EXPECT_EQ(whole_->view(), "compare");
  EXPECT_EQ(whole_->state().session.model().Of(ui::Side::kMeasured).step, 3);
  EXPECT_EQ(state().memory_lane, 1U);
}

// A low window has no room for the table, so a sentence names the straggler.
TEST_F(RunViews, RanksNamesStragglersInALowWindow) {
  view_.reset();  // its destructor resets the current context
  auto view = ui::HeadlessView::Create({1000, 420, 1}, {});
  ASSERT_TRUE(view.has_value()) << view.error().message;
  view_ = *std::move(view);
  std::vector<Span> spans;
  for (int rank = 0; rank < 3; ++rank) {
    spans.push_back(ComputeSpan({.rank = rank}, 0, rank == 2 ? 300 : 100));
  }
  CompareInput input;
  input.measured = RunOfSpans(spans);
  Show(input, "ranks");
  EXPECT_TRUE(Shows(Frame(), "rank 2: step time 200.0 % over the others"));
}

// Aligned by warp, the forecast in Compare has no memory of its own; the memory view still shows
// it.
TEST_F(RunViews, MemoryShowsTheForecastHoweverCompareIsAligned) {
  Show(SampleInput({.layers = 4, .micro_batches = 4}), "compare");
  Type('x');
  Type('5');
  const auto& screen = dynamic_cast<const ui::MemoryScreen&>(whole_->screen());
  EXPECT_EQ(whole_->state().session.model().options.alignment, ui::Alignment::kWarp);
  EXPECT_TRUE(screen.model().Has(ui::Side::kPredicted));
  EXPECT_TRUE(Shows(Frame(), "predicted peak"));
}

class LiveViews : public RunViews {
 protected:
  // The memory view of a stored run whose program `find` returns.
  void ShowLive(FindLive find) {
    Show(SampleInput({.layers = 4, .micro_batches = 4}), "memory");
    whole_->state().session.SetStore({.path = "runs.db", .run = 2}, {});
    whole_->state().services.find_live = std::move(find);
    Frame();
    for (int i = 0; i < 1000 && whole_->IsMoving(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      Frame();
    }
    Frame();
  }
};

TEST_F(LiveViews, MemoryListsTheLargestTensorsAtThePeak) {
  ShowLive([](const StoreRequest& runs, Space space) -> Result<LiveRanks> {
    EXPECT_EQ(runs.run, 2);
    EXPECT_EQ(space, Space::kDevice);
    LiveAtPeak first{0, 1 << 21, "loss", {}};
    first.tensors = {{"logits of head", Category::kLogits, 4, 1 << 20, "head of forward", "loss"},
                     {"first moment", Category::kOptimizerState, 1, 1 << 18, "", ""}};
    return LiveRanks{{first}, {0, 0}};  // rank 1 shares the tensors of rank 0
  });
  for (const char* text :
       {"largest at the predicted peak", "logits of head", "1.00 MiB", "256 KiB x 4",
        "since head of forward until loss", "for the whole run"}) {
    EXPECT_TRUE(Shows(Frame(), text)) << text;
  }
}

TEST_F(LiveViews, MemoryListsTheStacksOfASnapshot) {
  ShowLive([](const StoreRequest&, Space) -> Result<LiveRanks> {
    LiveAtPeak first{0, 1 << 21, "", {}};
    first.tensors = {{"train.py:12 forward", Category::kActivations, 4, 1 << 20, "", ""}};
    return LiveRanks{{first}, {0, 0}, /*of_snapshot=*/true};
  });
  for (const char* text : {"largest at the peak, by stack", "train.py:12 forward", "256 KiB x 4"}) {
    EXPECT_TRUE(Shows(Frame(), text)) << text;
  }
  EXPECT_FALSE(Shows(Frame(), "for the whole run"));
}

TEST_F(LiveViews, MemorySaysWhyTensorsAreNotKnown) {
  ShowLive([](const StoreRequest&, Space) -> Result<LiveRanks> {
    return Fail(ErrorCode::kUnsupported, "run 2 has no plan");
  });
  EXPECT_TRUE(Shows(Frame(), "Not known: run 2 has no plan"));
}

TEST_F(RunViews, RanksChangesTheMetric) {
  Show(SampleInput({.stages = 2, .replicas = 2, .layers = 4, .micro_batches = 4}), "ranks");
  const auto& screen = dynamic_cast<const ui::RanksScreen&>(whole_->screen());
  ClickOn("peak memory");
  Frame();
  EXPECT_EQ(screen.map().metric, ui::RankMetric::kPeakMemory);
  EXPECT_TRUE(screen.map().HasScale());
}

TEST_F(RunViews, SayWhereThereIsNothing) {
  CompareInput input;
  input.measured = RunView{};
  Show(input, "memory");
  EXPECT_TRUE(Shows(Frame(), "No memory was recorded"));
  Show(input, "ranks");
  EXPECT_TRUE(Shows(Frame(), "There are no steps to show"));
}

// Runs as they may come from elsewhere or be damaged.
std::vector<CompareInput> StrangeInputs() {
  std::vector<CompareInput> inputs(5);
  inputs[0].measured = RunOfSpans({ComputeSpan({}, 5, 5)});  // one span without length
  Span unnamed = ComputeSpan({}, 0, 100);
  unnamed.op = kNoOp;
  inputs[1].measured = RunOfSpans({unnamed});
  inputs[2] = TwoRanks();
  inputs[2].measured->timeline.steps.clear();
  inputs[3] = TwoRanks();
  inputs[3].predicted = RunOfSpans({ComputeSpan({.rank = 7}, 0, 10)});  // other ranks
  inputs[4].measured = RunView{};
  return inputs;
}

TEST_F(RunViews, SurviveRandomInputOnStrangeRuns) {
  std::mt19937 random(5);
  std::vector<CompareInput> inputs = StrangeInputs();
  inputs.push_back(SampleInput({.stages = 2, .replicas = 2, .layers = 4, .micro_batches = 4}));
  for (const CompareInput& input : inputs) {
    for (const char* view : {"time", "memory", "ranks", "run"}) {
      Show(input, view);
      for (int i = 0; i < 90; ++i) {
        ImGuiIO& io = ImGui::GetIO();
        io.MousePos = {static_cast<float>(random() % 1000), static_cast<float>(random() % 700)};
        io.MouseDown[0] = random() % 3 == 0;
        io.MouseWheel = static_cast<float>(random() % 5) - 2.0F;
        if (random() % 4 == 0) io.AddInputCharacter(static_cast<unsigned>(32 + random() % 95));
        const ui::FrameRecord& record = Frame();
        EXPECT_LT(record.rectangles, 20000U);
        for (const std::string& label : record.labels) {
          EXPECT_EQ(label.find("nan"), std::string::npos) << label;
        }
      }
      ImGui::GetIO().MouseDown[0] = false;
    }
  }
}

}  // namespace
}  // namespace foretrain
