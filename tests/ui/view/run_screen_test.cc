// A training run in the desktop, with a scripted process.
#include "ui/view/screens/run_screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace foretrain
