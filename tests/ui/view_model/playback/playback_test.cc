#include "ui/view_model/playback/playback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/ui/hand_made.h"
#include "ui/view_model/timeline/interaction.h"

namespace foretrain::ui {
namespace {

using testing::ElementsAre;

// Relative to the step, the measured run of TwoRanks has ops on rank 0 at [0, 100), [100, 240) and
// a send at [100, 150), on rank 1 at [110, 200) and [240, 350).
class PlaybackTest : public testing::Test {
 protected:
  std::vector<double> Moments(PlayCommand command, int count) {
    std::vector<double> moments;
    for (int i = 0; i < count; ++i) {
      Do(command, model_, play_);
      moments.push_back(play_.at_ns);
    }
    return moments;
  }

  CompareInput input_ = TwoRanks();
  CompareModel model_ = ModelOf(input_);
  Playback play_;
};

TEST_F(PlaybackTest, StepsFromOpToOpForwardsAndBackwards) {
  EXPECT_FALSE(play_.on);
  EXPECT_THAT(Moments(PlayCommand::kForward, 8), ElementsAre(0, 100, 110, 150, 200, 240, 350, 350));
  EXPECT_TRUE(play_.on);
  EXPECT_THAT(Moments(PlayCommand::kBack, 7), ElementsAre(240, 200, 150, 110, 100, 0, 0));
}

TEST_F(PlaybackTest, BeginsAtTheEndIfItGoesBack) {
  EXPECT_THAT(Moments(PlayCommand::kBack, 2), ElementsAre(350, 240));
  EXPECT_THAT(Moments(PlayCommand::kToStart, 1), ElementsAre(0));
  EXPECT_THAT(Moments(PlayCommand::kToEnd, 1), ElementsAre(350));
  Do(PlayCommand::kStop, model_, play_);
  EXPECT_FALSE(play_.on);
}

TEST_F(PlaybackTest, StepsThroughOneRankOrTheOtherRun) {
  play_.rank = 1;
  EXPECT_THAT(Moments(PlayCommand::kForward, 5), ElementsAre(0, 110, 200, 240, 350));
  play_ = {.side = Side::kPredicted};
  EXPECT_THAT(Moments(PlayCommand::kForward, 5), ElementsAre(0, 100, 200, 300, 300));
}

// Between two ops a step goes to the nearer one on that side.
TEST_F(PlaybackTest, StepsFromAMomentBetweenOps) {
  play_ = {.on = true, .at_ns = 120.5};
  EXPECT_EQ(NextEvent(model_, play_), 150.0);
  EXPECT_EQ(PreviousEvent(model_, play_), 110.0);
}

// 350 ns last 20 s: half a second moves by 8.75 ns, but a frame counts as at most 0.1 s.
TEST_F(PlaybackTest, PlaysTheStepInTwentySecondsAndStopsAtItsEnd) {
  Do(PlayCommand::kToggle, model_, play_);
  EXPECT_TRUE(play_.playing);
  Advance(model_, 0.05, play_);
  EXPECT_NEAR(play_.at_ns, 0.875, 1e-9);
  Advance(model_, 5.0, play_);
  EXPECT_NEAR(play_.at_ns, 2.625, 1e-9);
  play_.speed = 4;
  for (int i = 0; i < 60; ++i) Advance(model_, 0.1, play_);
  EXPECT_DOUBLE_EQ(play_.at_ns, 350);
  EXPECT_FALSE(play_.playing);
  // It begins again.
  Do(PlayCommand::kToggle, model_, play_);
  EXPECT_DOUBLE_EQ(play_.at_ns, 0);
  // A step by hand pauses.
  Do(PlayCommand::kForward, model_, play_);
  EXPECT_FALSE(play_.playing);
}

TEST_F(PlaybackTest, TakesItsKeysAndLeavesOthers) {
  InputFrame input;
  input.typed = {U'x', U' '};
  HandlePlayKeys(model_, input, play_);
  EXPECT_TRUE(play_.playing);
  EXPECT_THAT(input.typed, ElementsAre(U'x'));
  input = {};
  input.arrows = 2;
  HandlePlayKeys(model_, input, play_);
  EXPECT_DOUBLE_EQ(play_.at_ns, 110);
  EXPECT_EQ(input.arrows, 0);
  input.arrows = -1;
  HandlePlayKeys(model_, input, play_);
  EXPECT_DOUBLE_EQ(play_.at_ns, 100);
  input = {};
  input.end = true;
  HandlePlayKeys(model_, input, play_);
  EXPECT_DOUBLE_EQ(play_.at_ns, 350);
  input = {};
  input.escape = true;
  HandlePlayKeys(model_, input, play_);
  EXPECT_FALSE(play_.on);
  EXPECT_TRUE(input.escape);
}

TEST_F(PlaybackTest, KeepsTheMomentInView) {
  Viewport viewport{100, 200};
  FollowMoment({.on = true, .at_ns = 150}, viewport);
  EXPECT_EQ(viewport, (Viewport{100, 200}));
  FollowMoment({.on = true, .at_ns = 240}, viewport);
  EXPECT_EQ(viewport, (Viewport{190, 290}));
  FollowMoment({.on = false, .at_ns = 0}, viewport);
  EXPECT_EQ(viewport, (Viewport{190, 290}));
}

TEST(Playback, DoesNothingWithoutARun) {
  const CompareInput none;
  const CompareModel model = ModelOf(none);
  Playback play;
  for (const PlayCommand command : {PlayCommand::kToggle, PlayCommand::kForward, PlayCommand::kBack,
                                    PlayCommand::kToStart, PlayCommand::kToEnd}) {
    Do(command, model, play);
    EXPECT_FALSE(play.on);
  }
  play.on = play.playing = true;
  Advance(model, 0.1, play);
  EXPECT_DOUBLE_EQ(play.at_ns, 0);
}

}  // namespace
}  // namespace foretrain::ui
