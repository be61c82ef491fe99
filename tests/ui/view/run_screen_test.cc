// A training run in the desktop, with a scripted process.
#include "ui/view/screens/run_screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/io/file_system.h"
#include "tests/ui/hand_made.h"
#include "tests/ui/headless_frames.h"

namespace foretrain {
namespace {

using testing::Contains;

// The input and output of the tests' process.
struct Script {
  std::vector<std::string> arguments;
  std::vector<TrainingNews> news;  // the next one is last
  int stops = 0;
  bool ends_with_desktop = false;
};

class FakeProcess final : public TrainingProcess {
 public:
  explicit FakeProcess(Script& script) : script_(script) {}
  TrainingNews Poll() override {
    if (script_.news.empty()) return {};
    TrainingNews news = script_.news.back();
    script_.news.pop_back();
    return news;
  }
  void Stop() override { ++script_.stops; }
  void EndsWithDesktop(bool ends) override { script_.ends_with_desktop = ends; }

 private:
  Script& script_;
};

class RunView : public HeadlessFrames {
 protected:
  void Show() {
    OpenDesktop(TwoRanks());
    whole_->state().services.start_training =
        [this](
            const std::vector<std::string>& arguments) -> Result<std::unique_ptr<TrainingProcess>> {
      if (refuses_) return Fail(ErrorCode::kResourceExhausted, "no process can be made");
      script_.arguments = arguments;
      return std::make_unique<FakeProcess>(script_);
    };
    ASSERT_TRUE(whole_->Show("run").has_value());
    Frame();
    Frame();
    Run().form().data = "book.txt";
    Run().form().steps = "3";
    Run().form().store = "runs.db";
    Frame();
  }
  ui::RunScreen& Run() { return dynamic_cast<ui::RunScreen&>(whole_->screen()); }
  void Say(TrainingNews news) {
    script_.news = {std::move(news)};
    Frame();
  }

  Script script_;
  bool refuses_ = false;
};

TEST_F(RunView, StartsWatchesAndComparesARun) {
  Show();
  EXPECT_TRUE(Shows(Frame(), "foretrain train"));
  ClickOn("Start");
  EXPECT_THAT(script_.arguments, Contains("book.txt"));
  EXPECT_TRUE(Shows(Frame(), "starting"));
  Say({.output = "{\"step\":0,\"loss\":5.5,\"step_time_s\":1,\"tokens_per_s\":64}\n"
                 "{\"step\":1,\"loss\":5.25,\"step_time_s\":2,\"tokens_per_s\":32}\n"});
  EXPECT_TRUE(Shows(Frame(), "training"));
  EXPECT_TRUE(Shows(Frame(), "step 2 of 3, 2.00 s left"));
  EXPECT_TRUE(Shows(Frame(), "5.2500"));
  TrainingNews end{.output = "{\"schema\":1,\"run\":7,\"forecast\":6}\n"};
  end.end = TrainingEnd{};
  Say(end);
  EXPECT_TRUE(Shows(Frame(), "all steps are done"));
  ClickOn("Open in Compare");
  ASSERT_TRUE(whole_->state().stores.wanted.has_value());
  EXPECT_EQ(whole_->state().stores.wanted->path, "runs.db");
  EXPECT_EQ(whole_->state().stores.wanted->run, 7);
}

TEST_F(RunView, StopsARun) {
  Show();
  ClickOn("Start");
  ClickOn("ends with the desktop");
  EXPECT_TRUE(script_.ends_with_desktop);
  ClickOn("Stop");
  EXPECT_EQ(script_.stops, 1);
  EXPECT_TRUE(Shows(Frame(), "stopping"));
  ClickOn("Stop at once");
  EXPECT_EQ(script_.stops, 2);
  TrainingNews end;
  end.end = TrainingEnd{130, 0};
  Say(end);
  EXPECT_EQ(Run().run().phase, ui::RunPhase::kStopped);
}

TEST_F(RunView, SaysWhyARunDoesNotStart) {
  Show();
  refuses_ = true;
  ClickOn("Start");
  EXPECT_TRUE(Shows(Frame(), "no process can be made"));
  Run().form().data.clear();
  Frame();
  ClickOn("Start");
  EXPECT_TRUE(Shows(Frame(), "data: give a text"));
}

TEST_F(RunView, TakesTheModelOfThePinnedPlan) {
  Show();
  ui::PinnedPlan pinned{.title = "dp 2"};
  pinned.model.name = "llama3-8b";
  pinned.plan.dp = 2;
  whole_->state().selection.Pin(pinned);
  Frame();
  EXPECT_EQ(Run().form().model, "llama3-8b");
  EXPECT_EQ(Run().form().ranks, "2");
  EXPECT_THAT(Run().form().options, testing::HasSubstr("--dp 2"));
}

TEST_F(RunView, ShowsTheForecastBesideWhatIsMeasured) {
  Show();
  ClickOn("Start");
  TrainingNews news{.output =
                        "{\"step\":0,\"loss\":5.5,\"step_time_s\":1,\"predicted_step_time_s\":1,"
                        "\"tokens_per_s\":64,\"predicted_resident_bytes\":1000}\n"
                        "{\"step\":1,\"loss\":5.25,\"step_time_s\":2,\"predicted_step_time_s\":1,"
                        "\"tokens_per_s\":32,\"predicted_resident_bytes\":1000}\n"};
  news.resident_bytes = 1100;
  Say(news);
  EXPECT_TRUE(Shows(Frame(), "50.0 % under forecast"));
  EXPECT_TRUE(Shows(last_, "10.0 % over forecast"));
}

TEST_F(RunView, FollowsARunThatAnotherProcessRecords) {
  Show();
  int reads = 0;
  whole_->state().services.read_progress = [&reads](const std::string& store,
                                                    RunId run) -> Result<RunProgress> {
    EXPECT_EQ(store, "/runs/other.db");
    RunProgress progress;
    progress.info.id = run;
    progress.info.status = ++reads < 2 ? RunStatus::kRunning : RunStatus::kFinished;
    progress.tokens_per_step = 64;
    progress.series = {{"loss", -1, 0, 0, 5.5}, {"loss", -1, 1, 0, 4.5}};
    return progress;
  };
  std::vector<RunInfo> runs(1);
  runs[0].id = 9;
  whole_->state().session.SetStore({.path = "/runs/other.db", .run = 9}, runs);
  Frame();
  ClickOn("Follow run 9");
  const auto until = [&](ui::RunPhase phase) {
    for (int i = 0; i < 2000 && Run().run().phase != phase; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      Frame();
    }
    return Run().run().phase == phase;
  };
  ASSERT_TRUE(until(ui::RunPhase::kTraining));
  EXPECT_TRUE(whole_->IsWatching());
  EXPECT_TRUE(Shows(Frame(), "4.5000"));
  // It is read again while it goes on, and no more after its end.
  ASSERT_TRUE(until(ui::RunPhase::kDone));
  EXPECT_FALSE(whole_->IsWatching());
  ClickOn("Open in Compare");
  ASSERT_TRUE(whole_->state().stores.wanted.has_value());
  EXPECT_EQ(whole_->state().stores.wanted->run, 9);
}

TEST_F(RunView, SavesTheScheduleOfThePinnedPlan) {
  Show();
  ui::PinnedPlan pinned{.title = "custom"};
  pinned.model.name = "gpt-10m";
  pinned.plan.pp = 2;
  pinned.plan.schedule = ScheduleKind::kCustom;
  const std::string path = testing::TempDir() + "/run_screen_schedule.csv";
  PosixFileSystem files;
  (void)files.Remove(path);
  pinned.plan.slots = SlotOrder::FromCsv("0F0,0B0\n1F0,1B0\n", path).value();
  whole_->state().selection.Pin(pinned);
  Frame();
  EXPECT_THAT(Run().form().options, testing::HasSubstr("--schedule-file " + path));
  ClickOn("Start");
  auto text = ReadFile(files, path, 1000);
  ASSERT_TRUE(text.has_value()) << text.error().message;
  EXPECT_EQ(*text, "0F0,0B0\n1F0,1B0\n");
}

}  // namespace
}  // namespace foretrain
