// State of a store whose process was killed at each write, sync and truncation in turn, while a run
// is created, closed or deleted. Slow: each of the points is a process. The number of points is
// found: a sweep ends at the first call that no longer happens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "tests/base/child.h"
#include "tests/traces/fault_vfs.h"
#include "tests/traces/stores.h"
#include "tests/traces/timelines.h"
#include "traces/store.h"

namespace foretrain {
namespace {

using testing::ElementsAre;

constexpr int kMaxPoints = 2'000;

class KilledAtEachCall : public testing::Test {
 protected:
  KilledAtEachCall() : folder_(/*in_memory=*/true), path_(folder_.File("s.db")) {
    std::mt19937_64 random(101);
    earlier_ = RandomTimeline(random, 2, 200);
    later_ = RandomTimeline(random, 2, 400);
  }

  // Runs `work` on a copy of the store `good` in a process that is killed at call `point`, for each
  // point until `work` ends alive, and checks the file each time. `work` calls its argument where
  // the killing may begin, and returns "" or what went wrong.
  int Sweep(const std::string& good,
            const std::function<std::string(const std::function<void()>&)>& work,
            const std::function<void()>& check) {
    for (int point = 0; point < kMaxPoints; ++point) {
      for (const char* part : {"", "-wal", "-shm"}) std::filesystem::remove(path_ + part);
      if (!good.empty()) std::filesystem::copy_file(good, path_);
      const std::string end = InChild([&]() -> std::string {
        MakeFaultVfsTheDefault();
        const std::string wrong =
            work([point] { ArmFault(point, /*sticky=*/false, FaultKind::kKill); });
        DisarmFault();
        return wrong;
      });
      if (end != "died") {
        EXPECT_EQ(end, "");
        return point;
      }
      check();
      if (HasFailure()) {
        ADD_FAILURE() << "killed at call " << point;
        return point;
      }
    }
    ADD_FAILURE() << "no end of calls";
    return kMaxPoints;
  }

  // A store with `runs` runs: the earlier timeline, then the later one.
  std::string StoreOf(int runs) {
    const std::string good = folder_.File("good.db");
    EXPECT_EQ(StoreTimeline(good, earlier_), 1);
    if (runs == 2) {
      EXPECT_EQ(StoreTimeline(good, later_), 2);
    }
    return good;
  }

  void ExpectSound() {
    EXPECT_THAT(Query(path_, "PRAGMA integrity_check"), ElementsAre("ok"));
    const auto first = LoadFrom(path_, 1);
    ASSERT_TRUE(first.has_value()) << first.error().message;
    EXPECT_TRUE(SameTimeline(first->timeline, earlier_));
  }

  // Run 2 is as it was stored, or there is none.
  void ExpectWholeOrAbsent() {
    const auto run = LoadFrom(path_, 2);
    if (run.has_value()) {
      EXPECT_EQ(run->info.status, RunStatus::kFinished);
      EXPECT_TRUE(SameTimeline(run->timeline, later_));
    } else {
      EXPECT_EQ(run.error().code, ErrorCode::kInvalidArgument) << run.error().message;
    }
  }

  TempFolder folder_;
  std::string path_;
  Timeline earlier_, later_;
};

TEST_F(KilledAtEachCall, OfANewStoreLeavesAStoreOrAFileThatBecomesOne) {
  const int points = Sweep(
      "",
      [this](const std::function<void()>& begin) -> std::string {
        begin();
        auto store = Store::Open(path_);
        if (!store.has_value()) return store.error().message;
        auto run = (*store)->BeginRun({});
        return run.has_value() ? "" : run.error().message;
      },
      [this] {
        const auto reader = StoreReader::Open(path_);
        if (!reader.has_value()) {
          EXPECT_EQ(reader.error().code, ErrorCode::kInvalidArgument) << reader.error().message;
        }
        EXPECT_GT(StoreTimeline(path_, earlier_), 0);
      });
  EXPECT_GE(points, 20);
  std::printf("%d points\n", points);
}

TEST_F(KilledAtEachCall, OfABeginningRunLeavesTheOthers) {
  const int points = Sweep(
      StoreOf(1),
      [this](const std::function<void()>& begin) -> std::string {
        auto store = Store::Open(path_);
        if (!store.has_value()) return store.error().message;
        begin();
        auto run = (*store)->BeginRun({});
        if (!run.has_value()) return run.error().message;
        DisarmFault();
        return "";
      },
      [this] {
        ExpectSound();
        const auto run = LoadFrom(path_, 2);
        if (run.has_value()) {
          EXPECT_EQ(run->info.status, RunStatus::kInterrupted);
        } else {
          EXPECT_EQ(run.error().code, ErrorCode::kInvalidArgument) << run.error().message;
        }
      });
  EXPECT_GE(points, 3);
  std::printf("%d points\n", points);
}

TEST_F(KilledAtEachCall, OfAnEndingRunLeavesItWholeOrInterrupted) {
  const int points = Sweep(
      StoreOf(1),
      [this](const std::function<void()>& begin) -> std::string {
        auto store = Store::Open(path_);
        if (!store.has_value()) return store.error().message;
        RunSetup setup;
        setup.world = later_.world;
        auto run = (*store)->BeginRun(setup);
        if (!run.has_value()) return run.error().message;
        begin();
        for (const Result<void>& result :
             {(*run)->AddTimeline(later_), (*run)->Finish(RunStatus::kFinished),
              (*store)->Close()}) {
          if (!result.has_value()) return result.error().message;
        }
        return "";
      },
      [this] {
        ExpectSound();
        const auto run = LoadFrom(path_, 2);
        ASSERT_TRUE(run.has_value()) << run.error().message;
        if (run->info.status == RunStatus::kFinished) {
          EXPECT_TRUE(SameTimeline(run->timeline, later_));
        } else {
          EXPECT_EQ(run->info.status, RunStatus::kInterrupted);
        }
      });
  EXPECT_GE(points, 10);
  std::printf("%d points\n", points);
}

TEST_F(KilledAtEachCall, OfADeletionLeavesTheRunWholeOrAbsent) {
  const int points = Sweep(
      StoreOf(2),
      [this](const std::function<void()>& begin) -> std::string {
        begin();
        const auto deleted = DeleteRun(path_, 2);
        return deleted.has_value() ? "" : deleted.error().message;
      },
      [this] {
        ExpectSound();
        ExpectWholeOrAbsent();
        EXPECT_THAT(Query(path_,
                          "SELECT count(*) FROM track WHERE run_id NOT IN (SELECT run_id FROM "
                          "run)"),
                    ElementsAre("0"));
      });
  EXPECT_GE(points, 10);
  std::printf("%d points\n", points);
}

}  // namespace
}  // namespace foretrain
