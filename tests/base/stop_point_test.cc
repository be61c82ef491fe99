#include "base/stop_point.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace foretrain {
namespace {

struct Setting {
  const char* name;
  std::string value;
};

// Wait status of a child that passes three points under the given environment and exits with 7.
// Each child reads the environment anew, because the parent has passed no point.
int StatusOfChild(const std::vector<Setting>& settings) {
  const pid_t child = fork();
  if (child == 0) {
    for (const Setting& setting : settings) setenv(setting.name, setting.value.c_str(), 1);
    for (int step = 0; step < 2; ++step) {
      StopPoint("save.before_write");
      StopPoint("save.before_rename", step);
    }
    _exit(7);
  }
  int status = -1;
  waitpid(child, &status, WUNTRACED);
  if (WIFSTOPPED(status)) {
    kill(child, SIGKILL);
    int last = 0;
    waitpid(child, &last, 0);
  }
  return status;
}

bool ReachedTheEnd(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 7; }

TEST(StopPoint, DoesNothingUnlessAsked) {
  EXPECT_TRUE(ReachedTheEnd(StatusOfChild({})));
  EXPECT_TRUE(ReachedTheEnd(StatusOfChild({{"FORETRAIN_STOP_AT", "save"}})));
}

TEST(StopPoint, KillsExitsAbortsOrPauses) {
  const Setting at{"FORETRAIN_STOP_AT", "save.before_rename"};
  int status = StatusOfChild({at});
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  status = StatusOfChild({at, {"FORETRAIN_STOP_HOW", "exit"}});
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1);
  status = StatusOfChild({at, {"FORETRAIN_STOP_HOW", "abort"}});
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  status = StatusOfChild({at, {"FORETRAIN_STOP_HOW", "pause"}});
  EXPECT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  status = StatusOfChild({at, {"FORETRAIN_STOP_HOW", "interrupt"}});
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
}

TEST(StopPoint, CountsPassingsAndTellsRanksApart) {
  EXPECT_TRUE(WIFSIGNALED(StatusOfChild({{"FORETRAIN_STOP_AT", "save.before_write#2"}})));
  EXPECT_TRUE(ReachedTheEnd(StatusOfChild({{"FORETRAIN_STOP_AT", "save.before_write#3"}})));
  EXPECT_TRUE(WIFSIGNALED(StatusOfChild({{"FORETRAIN_STOP_AT", "save.before_rename@1"}})));
  EXPECT_TRUE(ReachedTheEnd(StatusOfChild({{"FORETRAIN_STOP_AT", "save.before_rename@2"}})));
  EXPECT_TRUE(ReachedTheEnd(StatusOfChild({{"FORETRAIN_STOP_AT", "save.before_rename@1#2"}})));
}

TEST(StopPoint, LogsEachPassing) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("foretrain_stop_point_" + std::to_string(getpid()) + ".log");
  EXPECT_TRUE(ReachedTheEnd(StatusOfChild({{"FORETRAIN_STOP_LOG", file.string()}})));
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  std::filesystem::remove(file);
  EXPECT_EQ(text.str(),
            "save.before_write -1\nsave.before_rename 0\nsave.before_write -1\n"
            "save.before_rename 1\n");
}

}  // namespace
}  // namespace foretrain
