// Opening stores from the desktop: the panel, the thread that loads, and errors.
#include "ui/store_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imgui.h>

#include <atomic>
#include <chrono>
#include <map>
#include <thread>

#include "tests/ui/hand_made.h"
#include "tests/ui/headless_frames.h"
#include "ui/view/desktop/input.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Stores by path; a path that is not listed cannot be opened.
class FakeStores final : public StoreAccess {
 public:
  Result<std::unique_ptr<OpenedStore>> Open(const StoreRequest& request) override {
    asked_.push_back(request);
    while (held_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (request.path == "throws.db") throw std::runtime_error("thrown while reading");
    if (request.path == "bad.db") {
      return Fail(ErrorCode::kCorruptInput, request.path + ": page 3 is damaged");
    }
    auto opened = Opened(request.run == 0 ? 2 : request.run);
    opened->path = request.path;
    return opened;
  }
  Result<std::unique_ptr<OpenedStore>> Read(const std::array<std::vector<Stretch>, 2>&) override {
    return Fail(ErrorCode::kAborted, "no long run is open");
  }
  Result<std::unique_ptr<OpenedStore>> Newer() override {
    ++newer_;
    if (gone_) return Fail(ErrorCode::kIo, "good.db: the file is gone");
    return nullptr;
  }

  static std::unique_ptr<OpenedStore> Opened(RunId run) {
    auto opened = std::make_unique<OpenedStore>();
    opened->path = "good.db";
    opened->run = run;
    opened->input = TwoRanks();
    opened->runs = {{.id = 1, .kind = RunKind::kPredicted, .label = "the forecast"},
                    {.id = 2, .status = RunStatus::kFinished, .label = "the measured one"},
                    {.id = 3, .status = RunStatus::kInterrupted, .label = "stopped early"}};
    return opened;
  }

  std::vector<StoreRequest> asked_;
  std::atomic<int> newer_ = 0;
  std::atomic<bool> gone_ = false;
  std::atomic<bool> held_ = false;  // opening waits until this is false
};

class StorePanel : public HeadlessFrames {
 protected:
  void SetUp() override {
    HeadlessFrames::SetUp();
    if (!IsSkipped()) OpenDesktop({});
  }

  ui::DesktopState& desktop() { return whole_->state(); }

  // Draws frames until no load is in progress. The clock stands at `now_s`.
  const ui::FrameRecord& Settle(double now_s = 0.0) {
    loader_.Refresh(now_s, desktop());
    while (loader_.IsBusy() || !desktop().stores.dropped.empty()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      loader_.Refresh(now_s, desktop());
    }
    return Frame();
  }

  FakeStores stores_;
  ui::StoreLoader loader_{&stores_};
};

TEST_F(StorePanel, WelcomesWithTheCommandsThatMakeAStore) {
  desktop().stores.recent = {"good.db", "old.db"};
  Frame();
  for (const char* text : {"Open a store", "Recent stores", "old.db", "foretrain demo"}) {
    EXPECT_TRUE(Shows(last_, text)) << text;
  }
  ClickOn("good.db");
  EXPECT_EQ(whole_->state().stores.wanted.value_or(StoreRequest{}).path, "good.db");
  Settle();
  EXPECT_FALSE(whole_->ShowsStores());
  EXPECT_TRUE(Shows(Frame(), "rank 0"));
  EXPECT_TRUE(Shows(last_, "3 runs"));
}

TEST_F(StorePanel, OpensThePathThatIsTyped) {
  Frame();
  ClickOn("##store path");
  for (const char c : std::string("good.db")) Type(c);
  EXPECT_EQ(whole_->view(), "compare");  // the letters went to the field
  Frame();
  ClickOn("Open");
  Settle();
  EXPECT_EQ(desktop().session.shown().path, "good.db");
  EXPECT_THAT(desktop().stores.recent, ElementsAre("good.db"));
}

TEST_F(StorePanel, SaysWhatIsWrongWithAStoreAndOpensTheNext) {
  desktop().stores.wanted = StoreRequest{.path = "bad.db"};
  EXPECT_TRUE(Shows(Settle(), "bad.db: page 3 is damaged"));
  EXPECT_TRUE(whole_->ShowsStores());
  desktop().stores.wanted = StoreRequest{.path = "throws.db"};
  EXPECT_TRUE(Shows(Settle(), "thrown while reading"));
  desktop().stores.wanted = StoreRequest{.path = "good.db"};
  EXPECT_FALSE(Shows(Settle(), "damaged"));
  EXPECT_TRUE(Shows(last_, "rank 0"));
  // The open store stays.
  desktop().stores.wanted = StoreRequest{.path = "bad.db"};
  EXPECT_TRUE(Shows(Settle(), "page 3 is damaged"));
  EXPECT_EQ(desktop().session.shown().path, "good.db");
  Type('o');
  EXPECT_TRUE(Shows(Frame(), "rank 0"));
}

TEST_F(StorePanel, SaysWhatItIsAtForAsLongAsItIs) {
  stores_.held_ = true;
  ui::StoreLoader loader(&stores_, [] { return std::string("Importing: reading a.json, 40.0 %"); });
  desktop().stores.wanted = StoreRequest{.path = "good.db"};
  loader.Refresh(0.0, desktop());
  EXPECT_THAT(desktop().notices, ElementsAre("Importing: reading a.json, 40.0 %"));
  loader.Refresh(0.0, desktop());
  EXPECT_THAT(desktop().notices, testing::SizeIs(1));
  stores_.held_ = false;
  while (loader.IsBusy()) loader.Refresh(0.0, desktop());
  EXPECT_THAT(desktop().notices, testing::IsEmpty());
  EXPECT_EQ(desktop().session.shown().path, "good.db");
}

TEST_F(StorePanel, OpensAllThatIsDroppedAtOnceAndShowsTheLast) {
  desktop().stores.dropped = {"one.db", "bad.db", "good.db"};
  Settle();
  EXPECT_EQ(desktop().session.shown().path, "good.db");
  EXPECT_THAT(desktop().stores.recent, ElementsAre("good.db", "one.db"));
  EXPECT_FALSE(whole_->ShowsStores());
  EXPECT_TRUE(Shows(last_, "Not opened: bad.db: page 3 is damaged"));
  EXPECT_TRUE(Shows(last_, "rank 0"));
  // The next store removes the message.
  desktop().stores.dropped = {"one.db"};
  EXPECT_FALSE(Shows(Settle(), "damaged"));
  EXPECT_EQ(desktop().session.shown().path, "one.db");
}

TEST_F(StorePanel, KeepsTheStoreThatCouldBeOpenedOfSeveralAndTellsOfTheOthers) {
  desktop().stores.dropped = {"good.db", "throws.db", "bad.db"};
  Settle();
  EXPECT_EQ(desktop().session.shown().path, "good.db");
  EXPECT_TRUE(Shows(last_, "Not opened: thrown while reading"));
  EXPECT_TRUE(Shows(last_, "Not opened: bad.db"));
  EXPECT_FALSE(whole_->ShowsStores());
}

TEST_F(StorePanel, TellsOfASingleDroppedFileInThePanel) {
  desktop().stores.dropped = {"bad.db"};
  EXPECT_TRUE(Shows(Settle(), "bad.db: page 3 is damaged"));
  EXPECT_TRUE(whole_->ShowsStores());
}

TEST_F(StorePanel, OpensWhatIsChosenMeanwhileAfterTheFilesThatWereDropped) {
  desktop().stores.dropped = {"one.db", "two.db"};
  loader_.Refresh(0.0, desktop());
  desktop().stores.wanted = StoreRequest{.path = "good.db"};
  Settle();
  Settle();
  EXPECT_EQ(desktop().session.shown().path, "good.db");
  EXPECT_THAT(desktop().stores.recent, ElementsAre("good.db", "two.db", "one.db"));
}

TEST_F(StorePanel, ShowsOtherRunsOfTheStore) {
  desktop().stores.wanted = StoreRequest{.path = "good.db"};
  Settle();
  Type('o');
  Frame();
  for (const char* text : {"Runs of good.db", "the measured one", "interrupted", "shown"}) {
    EXPECT_TRUE(Shows(last_, text)) << text;
  }
  ClickOn("show run 3");
  Settle();
  EXPECT_EQ(stores_.asked_.back().run, 3);
  EXPECT_EQ(desktop().session.shown().run, 3);
  Type('o');
  Frame();
  ClickOn("against run 2");
  Settle();
  EXPECT_EQ(stores_.asked_.back().run, 3);
  EXPECT_EQ(stores_.asked_.back().against, 2);
}

TEST_F(StorePanel, SaysWhenTheOpenStoreCannotBeReadAgain) {
  desktop().stores.wanted = StoreRequest{.path = "good.db"};
  Settle();
  stores_.gone_ = true;
  EXPECT_TRUE(Shows(Settle(2.0), "the file is gone"));
  EXPECT_TRUE(Shows(last_, "rank 0"));
  stores_.gone_ = false;
  EXPECT_FALSE(Shows(Settle(4.0), "the file is gone"));
  EXPECT_EQ(stores_.newer_, 2);
  // It is not asked again within a second.
  Settle(4.5);
  EXPECT_EQ(stores_.newer_, 2);
}

}  // namespace
}  // namespace foretrain
