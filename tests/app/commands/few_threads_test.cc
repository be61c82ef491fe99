// Commands at a limit of threads, as in a container.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/app/commands/small_run.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

ProgramEnd RunWithThreads(const TemporaryFolder& folder, int threads, const std::string& command) {
  return RunCommand(folder.path(), "FEW_THREADS=" + std::to_string(threads) +
                                       " OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 LD_PRELOAD=" +
                                       TestPlugin("few_threads") + " exec \"$FORETRAIN\" " +
                                       command);
}

// Work that is only shared among threads ends the same with one.
TEST(FewThreads, PlansTheSameWithOneThread) {
  const TemporaryFolder folder;
  const std::string plan = "plan --model gpt2-124m --cluster h100 --ranks 8 --json";
  const ProgramEnd many = RunForetrain(folder.path(), plan);
  const ProgramEnd one = RunWithThreads(folder, 0, plan);
  ASSERT_EQ(one.code, 0) << one.errors;
  const auto plans = [](const ProgramEnd& end) {
    return end.output.substr(end.output.find("\"plans\""));
  };
  EXPECT_EQ(plans(one), plans(many));
}

// A run needs its threads: without them it ends with a sentence, wherever the limit lies.
TEST(FewThreads, EndATrainingWithASentence) {
  int ended = 0;
  for (int threads = 0;; ++threads) {
    const TemporaryFolder folder;
    const ProgramEnd end = RunWithThreads(folder, threads, SmallTraining(folder) + "--steps 2");
    if (end.code == 0) break;
    ASSERT_LT(threads, 100);
    ++ended;
    EXPECT_EQ(end.code, 3) << threads << ": " << end.errors;
    EXPECT_THAT(end.errors, HasSubstr("thread")) << threads;
    EXPECT_THAT(end.errors, HasSubstr("raise the limit")) << threads;
  }
  EXPECT_GT(ended, 2);
}

}  // namespace
}  // namespace foretrain
