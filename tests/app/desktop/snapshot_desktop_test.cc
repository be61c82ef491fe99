// An imported memory snapshot in the desktop: which stacks hold memory at the peak.
#if FORETRAIN_HAVE_UI
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "app/runs/explained_runs.h"
#include "tests/app/run_binary.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

TEST(SnapshotInTheDesktop, TellsTheStacksAtThePeak) {
  const TemporaryFolder folder;
  std::filesystem::copy_file(SourcePath("tests/fuzz/seeds/trace/snapshot_protocol4.pickle"),
                             folder.path() + "/m.pickle");
  const ProgramEnd end = RunForetrain(folder.path(), "import m.pickle --store s.db");
  ASSERT_EQ(end.code, 0) << end.errors;
  const StoreRequest run{.path = folder.path() + "/s.db", .run = 1};
  const auto live = LiveOfStoredRun(run, Space::kDevice);
  ASSERT_TRUE(live.has_value()) << live.error().message;
  EXPECT_TRUE(live->of_snapshot);
  const LiveAtPeak* const rank = live->Of(0);
  ASSERT_NE(rank, nullptr);
  EXPECT_EQ(rank->total_bytes, 12'796);
  ASSERT_EQ(rank->tensors.size(), 4U);
  EXPECT_EQ(rank->tensors[0].name, "train.py:91 main");
  EXPECT_EQ(rank->tensors[0].category, Category::kOptimizerState);
  EXPECT_EQ(rank->tensors[3].name, "no stack");
  const auto host = LiveOfStoredRun(run, Space::kHost);
  ASSERT_FALSE(host.has_value());
  EXPECT_THAT(host.error().message, testing::HasSubstr("a memory snapshot does"));
}

}  // namespace
}  // namespace foretrain
#endif
