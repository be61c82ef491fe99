// Ranks that are processes of the built program, started as launchers do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "tests/app/commands/small_run.h"
#include "tests/app/run_binary.h"
#include "tests/app/runs/pair.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ProcessesOfTheProgram, TrainAsThreadsAndRankZeroStoresAll) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder) + "--json --steps 4 ";
  const ProgramEnd threads = RunForetrain(folder.path(), train + "--store threads.db");
  ASSERT_EQ(threads.code, 0) << threads.errors;
  const ProgramEnd apart = RunCommand(folder.path(), Pair(train, train));
  EXPECT_EQ(folder.Read("codes"), "0 0\n") << apart.errors << folder.Read("err1");
  EXPECT_EQ(LossesOf(apart.output), LossesOf(threads.output));
  EXPECT_EQ(folder.Read("out1"), "");
  const ProgramEnd analyze = RunForetrain(folder.path(), "analyze");
  EXPECT_THAT(analyze.output, AllOf(HasSubstr("rank   0 |"), HasSubstr("rank   1 |")));
  const ProgramEnd compare = RunForetrain(folder.path(), "compare --json");
  EXPECT_EQ(compare.code, 0) << compare.errors;
}

// A file that is no library stands for a machine without UCX.
TEST(ProcessesOfTheProgram, UseTcpWithoutUcxAndSaySo) {
  const TemporaryFolder folder;
  folder.Write("libucp.so.0", "no library");
  const std::string train = SmallTraining(folder) + "--steps 2 ";
  const ProgramEnd end = RunCommand(
      folder.path(), "export LD_LIBRARY_PATH=" + folder.path() + "; " + Pair(train, train));
  EXPECT_EQ(folder.Read("codes"), "0 0\n") << end.errors << folder.Read("err1");
  EXPECT_THAT(end.output, HasSubstr("ranks: 2 processes, TCP, as shared memory needs UCX 1.13 or "
                                    "later: rank 0 has no UCX ("));
}

struct Death {
  const char* signal;
  int code;  // of the shell
};

class DeathOfAProcess : public testing::TestWithParam<Death> {};

// A sanitizer would take the signal for a crash of its own.
TEST_P(DeathOfAProcess, EndsTheOthersByName) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder) + "--json --steps 100000 --timeout 60s ";
  const std::string unhandled =
      "export ASAN_OPTIONS=$ASAN_OPTIONS:handle_segv=0 TSAN_OPTIONS=$TSAN_OPTIONS:handle_segv=0; ";
  const ProgramEnd end = RunCommand(
      folder.path(),
      unhandled + Pair(train, train,
                       kAfterAStep + ("kill -" + std::string(GetParam().signal)) + " $other) & "));
  EXPECT_EQ(folder.Read("codes"), "3 " + std::to_string(GetParam().code) + "\n") << end.errors;
  EXPECT_THAT(end.errors, HasSubstr("rank 1: its process has ended without saying why"));
  const nlohmann::json runs = RunsIn(folder);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[1].at("status"), "failed");
}

INSTANTIATE_TEST_SUITE_P(Signals, DeathOfAProcess,
                         testing::Values(Death{"KILL", 137}, Death{"SEGV", 139},
                                         Death{"ABRT", 134}),
                         [](const auto& test) { return std::string(test.param.signal); });

// Rank 0 stores the rings of all processes, that of the process at fault among them.
TEST(ProcessesOfTheProgram, LeaveTheNewestOpsOfEveryRankInTheStore) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder) + "--json --steps 100000 --timeout 60s ";
  const ProgramEnd end =
      RunCommand(folder.path(), "export FORETRAIN_FAULT=1:3:5:fail FORETRAIN='" +
                                    StoppableBinary() + "'; " + Pair(train, train));
  EXPECT_EQ(folder.Read("codes"), "3 3\n") << end.errors;
  const ProgramEnd ops = RunForetrain(folder.path(), "runs --last-ops 2");
  EXPECT_EQ(ops.code, 0) << ops.errors;
  // "rank 1, step 3, forward layer 0 mb 0, norm: an injected fault": the op's text is in between.
  const std::string place = "rank 1, step 3, ";
  const std::size_t at = end.errors.find(place);
  ASSERT_NE(at, std::string::npos) << end.errors;
  const std::string rest = end.errors.substr(at + place.size());
  const std::string op = rest.substr(0, rest.find(": ")) + " (step 3)";
  std::array<int, 2> lines{};
  bool culprit = false;
  for (const std::string_view line : Split(ops.output, '\n')) {
    if (line.starts_with("rank 0: ")) ++lines[0];
    if (!line.starts_with("rank 1: ")) continue;
    ++lines[1];
    culprit = culprit || line.ends_with(op);
  }
  EXPECT_TRUE(culprit) << op << "\n" << ops.output;
  for (const int count : lines) {
    EXPECT_GT(count, 0);
    EXPECT_LE(count, 1'024);
  }
}

// A library may end a process by itself, even as if all were well.
TEST(ProcessesOfTheProgram, AreToldByNameOfOneThatExits) {
  for (const int code : {0, 1}) {
    const TemporaryFolder folder;
    const std::string train = SmallTraining(folder) + "--json --steps 100000 --timeout 60s ";
    const ProgramEnd end = RunCommand(
        folder.path(), "export FORETRAIN_FAULT=1:3:5:exit-" + std::to_string(code) +
                           " FORETRAIN='" + StoppableBinary() + "'; " + Pair(train, train));
    EXPECT_EQ(folder.Read("codes"), "3 " + std::to_string(code) + "\n") << end.errors;
    EXPECT_THAT(end.errors, HasSubstr("rank 1: its process has ended without saying why"));
    EXPECT_EQ(RunsIn(folder).at(1).at("status"), "failed");
  }
}

// Whichever process is asked, all end with a signal's code, and the run says who was.
TEST(ProcessesOfTheProgram, EndWithASignalsCodeWhoeverWasStopped) {
  for (const bool first : {true, false}) {
    const TemporaryFolder folder;
    const std::string train = SmallTraining(folder) + "--json --steps 100000 --timeout 60s ";
    // Rank 1 is $other, rank 0 the other process of the program in this folder.
    const std::string stop =
        first ? "for p in /proc/[0-9]*; do [ \"$(cat $p/comm)\" != foretrain ] || "
                "[ \"$(readlink $p/cwd)\" != \"$PWD\" ] || [ ${p#/proc/} = $other ] || "
                "kill -TERM ${p#/proc/}; done"
              : "kill -TERM $other";
    const ProgramEnd end =
        RunCommand(folder.path(), Pair(train, train, kAfterAStep + stop + ") & "));
    EXPECT_EQ(folder.Read("codes"), "143 143\n") << end.errors;
    const nlohmann::json run = RunsIn(folder).at(1);
    EXPECT_EQ(run.at("status"), "interrupted");
    EXPECT_THAT(run.at("message").get<std::string>(),
                HasSubstr(first ? "stopped by SIGTERM" : "stopped by the process of another rank"));
  }
}

TEST(ProcessesOfTheProgram, RefuseToTrainDifferentThings) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder) + "--steps 4 ";
  const ProgramEnd end = RunCommand(folder.path(), Pair(train, train + "--seed 7 "));
  EXPECT_EQ(folder.Read("codes"), "2 2\n") << end.errors;
  EXPECT_THAT(end.errors, HasSubstr("rank 1 has another command than rank 0"));
  EXPECT_THAT(folder.Read("err1"), HasSubstr("rank 1 has another command than rank 0"));

  folder.Write("other.txt", std::string(1 << 14, 'x'));
  std::string other = train;
  other.replace(other.find("text.txt"), 8, "other.txt");
  const ProgramEnd data = RunCommand(folder.path(), Pair(train, other));
  EXPECT_EQ(folder.Read("codes"), "2 2\n") << data.errors;
  EXPECT_THAT(data.errors, HasSubstr("rank 1 has another data file than rank 0: 16384 tokens"));
}

TEST(ProcessesOfTheProgram, SayWhoHasNotCome) {
  const TemporaryFolder folder;
  const ProgramEnd end = RunCommand(
      folder.path(),
      "MASTER_ADDR=127.0.0.1 WORLD_SIZE=2 RANK=0 MASTER_PORT=" + std::to_string(FreePort()) +
          " $FORETRAIN " + SmallTraining(folder) + "--steps 4 --timeout 300ms");
  EXPECT_EQ(end.code, 3);
  EXPECT_THAT(end.errors, HasSubstr("for the processes of rank 1"));
}

TEST(ProcessesOfTheProgram, RefuseAPlanOfOtherSize) {
  const TemporaryFolder folder;
  const ProgramEnd end = RunCommand(folder.path(),
                                    "MASTER_ADDR=127.0.0.1 WORLD_SIZE=3 RANK=0 MASTER_PORT=29400 "
                                    "$FORETRAIN " +
                                        SmallTraining(folder) + "--steps 4");
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.errors, HasSubstr("3 processes were launched, and the plan has 2 ranks"));
}

TEST(ProcessesOfTheProgram, MpirunStartsThem) {
  const TemporaryFolder folder;
  if (RunCommand(folder.path(), "mpirun --version").code != 0) {
    GTEST_SKIP() << "mpirun is not installed; with it: app_tests --gtest_filter='*MpirunStarts*'";
  }
  const ProgramEnd end = RunCommand(
      folder.path(), "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 MASTER_PORT=" +
                         std::to_string(FreePort()) + " mpirun --oversubscribe -n 2 $FORETRAIN " +
                         SmallTraining(folder) + "--json --steps 4");
  EXPECT_EQ(end.code, 0) << end.errors;
  EXPECT_EQ(LossesOf(end.output).size(), 4U);
}

}  // namespace
}  // namespace foretrain
