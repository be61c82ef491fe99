// A process that is killed while it saves leaves a whole checkpoint, and a run that goes on has the
// losses of one that was not interrupted. Slow: each kill is two runs of the program.
// FORETRAIN_SAVE_KILLS sets the number of kills at random moments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "tests/app/commands/small_run.h"

namespace foretrain {
namespace {

constexpr int kSteps = 12;  // the text below says 12 too

class KilledSave : public testing::Test {
 protected:
  void SetUp() override {
    train_ = SmallTraining(folder_) + "--json --capture off --steps " + std::to_string(kSteps);
    const ProgramEnd whole = RunForetrain(folder_.path(), train_);
    ASSERT_EQ(whole.code, 0) << whole.errors;
    losses_ = LossesOf(whole.output);
    ASSERT_EQ(losses_.size(), static_cast<std::size_t>(kSteps));
    saving_ = train_ + " --save --save-every 2";
  }

  // Goes on from what the killed run has left. Its checkpoints may be none if it was killed early.
  void ExpectGoesOn(const std::string& what) {
    const ProgramEnd rest = RunForetrain(folder_.path(), "train --resume --json");
    if (rest.code == 2 && rest.errors.find("no checkpoint in this folder") != std::string::npos) {
      ++without_;
    } else if (rest.errors.find("has 12 steps of 12 already") == std::string::npos) {
      ASSERT_EQ(rest.code, 0) << what << ": " << rest.errors;
      EXPECT_EQ(rest.errors.find("damaged"), std::string::npos) << what << ": " << rest.errors;
      const std::vector<double> last = LossesOf(rest.output);
      EXPECT_TRUE(last.size() <= losses_.size() &&
                  std::equal(last.begin(), last.end(),
                             losses_.end() - static_cast<std::ptrdiff_t>(last.size())))
          << what;
      const std::string names = RunCommand(folder_.path(), "ls checkpoints").output;
      EXPECT_EQ(std::count(names.begin(), names.end(), '\n'), 2) << what << " left " << names;
    }
    RunCommand(folder_.path(), "rm -rf checkpoints foretrain.db*");
  }

  const TemporaryFolder folder_;
  std::string train_, saving_;
  std::vector<double> losses_;
  int without_ = 0;  // kills before the first checkpoint
};

// At each named point of the second save, of each rank where a point belongs to one.
TEST_F(KilledSave, AtEachPointLeavesAWholeCheckpoint) {
  RunStoppable(folder_.path(), saving_, {"FORETRAIN_STOP_LOG=points"});
  RunCommand(folder_.path(), "rm -rf checkpoints foretrain.db*");
  std::map<std::string, int> passes;
  std::istringstream lines(folder_.Read("points"));
  for (std::string name, rank; lines >> name >> rank;) {
    if (name.starts_with("checkpoint.")) ++passes[rank == "-1" ? name : name + "@" + rank];
  }
  EXPECT_GE(passes.size(), 15U);
  for (const auto& [point, count] : passes) {
    const std::string at = point + (count > 1 ? "#2" : "");
    const ProgramEnd killed = RunStoppable(folder_.path(), saving_, {"FORETRAIN_STOP_AT=" + at});
    EXPECT_EQ(killed.code, 128 + 9) << at;
    ExpectGoesOn(at);
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(without_, 0);
}

TEST_F(KilledSave, AtRandomMomentsLeavesAWholeCheckpoint) {
  const char* asked = std::getenv("FORETRAIN_SAVE_KILLS");
  const int kills = asked == nullptr ? 10 : std::max(1, std::atoi(asked));
  std::mt19937_64 random(14);
  for (int i = 0; i < kills; ++i) {
    const std::string wait = "0." + std::to_string(1000 + random() % 400).substr(1);
    RunCommand(folder_.path(), "$FORETRAIN " + saving_ + " >out 2>&1 & program=$!; sleep " + wait +
                                   "; kill -KILL $program; wait $program 2>/dev/null; true");
    ExpectGoesOn("after " + wait + " s");
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace foretrain
