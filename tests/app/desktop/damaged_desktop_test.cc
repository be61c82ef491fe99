// Stores that are damaged, or change while the desktop shows them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#if FORETRAIN_HAVE_UI
#include <unistd.h>

#include <filesystem>

#include "tests/app/desktop/store_desktop.h"
#include "traces/store.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST_F(DamagedStores, AreToldWithFileAndReasonAndTheNextOneOpens) { ExpectEachIsTold(0, 50); }

class ChangedStores : public StoreDesktop {
 protected:
  void SetUp() override {
    StoreDesktop::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    WriteStore("shown.db", good_);
    Ask("shown.db");
    ASSERT_EQ(state().session.shown().path, PathOf("shown.db"));
  }

  // The open runs stay, and the store opens again once it is restored.
  void ExpectTold(const char* what) {
    Later(2.0);
    EXPECT_THAT(Messages(), AllOf(HasSubstr("shown.db"), HasSubstr(what)));
    EXPECT_TRUE(Shows("rank 0"));
    ExpectSenseInEveryView();
    Later(2.0);
    EXPECT_THAT(Messages(), HasSubstr(what));
  }

  void ExpectReopens() {
    std::filesystem::remove_all(PathOf("shown.db"));
    WriteStore("shown.db", good_);
    Later(2.0);
    EXPECT_EQ(Messages(), "");
    Ask("shown.db");
    EXPECT_EQ(Messages(), "");
    EXPECT_TRUE(Shows("rank 0"));
  }
};

TEST_F(ChangedStores, SayThatTheyWereDeleted) {
  std::filesystem::remove(PathOf("shown.db"));
  ExpectTold("the file is gone");
  ExpectReopens();
}

TEST_F(ChangedStores, ShowTheStoreThatTookTheirPlace) {
  ASSERT_TRUE(SetPinned(PathOf("good.db"), 2, true).has_value());
  std::filesystem::copy_file(PathOf("good.db"), PathOf("other.db"));
  std::filesystem::rename(PathOf("other.db"), PathOf("shown.db"));
  ASSERT_FALSE(state().session.runs().at(1).pinned);
  Later(2.0);
  EXPECT_EQ(Messages(), "");
  EXPECT_TRUE(state().session.runs().at(1).pinned);
}

TEST_F(ChangedStores, SayThatTheyWereReplacedByWhatIsNoStore) {
  std::filesystem::remove(PathOf("shown.db"));
  WriteStore("shown.db", "not a store at all, but longer than its magic");
  ExpectTold("not an SQLite database");
  ExpectReopens();
}

TEST_F(ChangedStores, SayThatTheyWereTruncated) {
  ASSERT_EQ(::truncate(PathOf("shown.db").c_str(), 3 * 8192), 0);
  ExpectTold("malformed");
  ExpectReopens();
}

TEST_F(ChangedStores, SayThatTheyWereEmptied) {
  ASSERT_EQ(::truncate(PathOf("shown.db").c_str(), 0), 0);
  ExpectTold("the file is empty");
  ExpectReopens();
}

TEST_F(ChangedStores, SayThatTheyCannotBeReadAnyMore) {
  if (geteuid() == 0) {
    // Root may read everything except a folder.
    std::filesystem::remove(PathOf("shown.db"));
    std::filesystem::create_directory(PathOf("shown.db"));
    ExpectTold("folder");
  } else {
    std::filesystem::permissions(PathOf("shown.db"), std::filesystem::perms::none);
    ExpectTold("ermission");
  }
  ExpectReopens();
}

class EmptyStores : public StoreDesktop {};

TEST_F(EmptyStores, SayThatNoRunIsInThem) {
  Store::Open(PathOf("empty.db")).value();
  Ask("empty.db");
  EXPECT_THAT(state().stores.error, AllOf(HasSubstr("empty.db"), HasSubstr("no run in it yet")));
  EXPECT_TRUE(desktop_->ShowsStores());
  ExpectSenseInEveryView();
}

// A run that ended before its first span, as an interrupted one may.
TEST_F(EmptyStores, ShowARunWithoutSpans) {
  {
    const auto store = Store::Open(PathOf("good.db")).value();
    const auto reader = StoreReader::Open(PathOf("good.db")).value();
    const StoredRun run = reader.LoadRun(2, {.timeline = false}).value();
    const auto recorder =
        store->BeginRun({.world = 2, .specs = run.specs, .forecast = RunId{1}}).value();
    const std::string profile = reader.Attachment(2, "device_profile").value();
    ASSERT_TRUE(recorder->Attach("device_profile", profile).has_value());
    ASSERT_TRUE(recorder->Finish(RunStatus::kInterrupted, "stopped at once").has_value());
  }
  Ask("good.db");
  EXPECT_EQ(Messages(), "");
  EXPECT_EQ(state().session.shown().run, 3);
  EXPECT_TRUE(Shows("The measured run holds no spans."));
  ExpectSenseInEveryView();
}

}  // namespace
}  // namespace foretrain
#endif
