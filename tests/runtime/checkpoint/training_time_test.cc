#include <gtest/gtest.h>

#include "runtime/checkpoint/checkpoint_files.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

constexpr TrainingTime kSaved{.began_unix_ns = 1000,
                              .paused_ns = 100,
                              .steps_ns = 300,
                              .saved_unix_ns = 2000,
                              .ended = false};

TEST(TrainingTime, CountsWhatPassedSinceARunThatFailed) {
  const TrainingTime time = ContinuedTime(kSaved, 2500);
  EXPECT_EQ(time.paused_ns, 100);
  EXPECT_DOUBLE_EQ(GoodputOf(time, 2600), 300.0 / 1500);
}

TEST(TrainingTime, LeavesOutWhatPassedSinceARunThatEnded) {
  TrainingTime saved = kSaved;
  saved.ended = true;
  const TrainingTime time = ContinuedTime(saved, 2500);
  EXPECT_EQ(time.paused_ns, 600);
  EXPECT_FALSE(time.ended);
  EXPECT_DOUBLE_EQ(GoodputOf(time, 2600), 300.0 / 1000);
}

TEST(TrainingTime, MayComeFromAnOlderCheckpointOrAClockThatWentBack) {
  EXPECT_EQ(GoodputOf({}, 5000), 0);
  TrainingTime saved = kSaved;
  saved.ended = true;
  EXPECT_EQ(ContinuedTime(saved, 1500).paused_ns, 100);
  EXPECT_EQ(GoodputOf(kSaved, 900), 0);
  EXPECT_EQ(GoodputOf(kSaved, 1101), 1);
}

TEST(TrainingTime, IsInTheManifest) {
  Manifest manifest;
  manifest.model = TinyGpt();
  manifest.plan = TinyPlan();
  manifest.time = kSaved;
  manifest.time.ended = true;
  const auto read = ParseManifest(ManifestText(manifest), "manifest");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->time.began_unix_ns, 1000);
  EXPECT_EQ(read->time.paused_ns, 100);
  EXPECT_EQ(read->time.steps_ns, 300);
  EXPECT_EQ(read->time.saved_unix_ns, 2000);
  EXPECT_TRUE(read->time.ended);
}

}  // namespace
}  // namespace foretrain
