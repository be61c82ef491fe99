// Contents of the store after a run that ended abnormally: nothing stored before is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/app/commands/small_run.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

bool IsOneLine(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n') == 1 && text.ends_with('\n');
}

// The last line of `errors`, without the progress before it.
std::string LastErrorLine(const std::string& errors) {
  const auto at = errors.rfind("foretrain: ");
  return at == std::string::npos ? errors : errors.substr(at);
}

TEST(NewerStore, IsRefusedByEveryCommandAndLeftAlone) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder);
  ASSERT_EQ(RunForetrain(folder.path(), train + "--steps 2").code, 0);
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open((folder.path() + "/foretrain.db").c_str(), &database), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(database, "PRAGMA user_version = 7", nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(database);
  const std::string before = folder.Read("foretrain.db");
  ASSERT_GT(before.size(), 8192U);
  for (const std::string& command :
       {std::string("runs"), train + "--steps 2", std::string("compare"), std::string("analyze"),
        std::string("export --out trace.json"), std::string("runs --delete 1"),
        std::string("sql foretrain.db 'SELECT 1'"),
        std::string("view --screenshot view.png foretrain.db"),
        std::string("predict --model gpt-10m --ranks 1 --store foretrain.db")}) {
    const ProgramEnd end = RunForetrain(folder.path(), command);
    EXPECT_EQ(end.code, 2) << command << end.output;
    EXPECT_TRUE(IsOneLine(end.errors)) << end.errors;
    if (end.errors.find("this build has no desktop") != std::string::npos) continue;
    // File, field, its value, the known value, and what to do.
    EXPECT_THAT(end.errors, AllOf(HasSubstr("foretrain.db"), HasSubstr("schema"), HasSubstr("7"),
                                  HasSubstr("2"), HasSubstr("newer foretrain")))
        << command;
    EXPECT_TRUE(folder.Read("foretrain.db") == before) << command;
  }
}

// Expects the two earlier runs, and a third and fourth that state what went wrong.
void ExpectRunsAfterFullDisk(const TemporaryFolder& folder, const nlohmann::json& runs) {
  ASSERT_EQ(runs.size(), 4U) << runs;
  EXPECT_EQ(runs[1].at("status"), "finished");
  EXPECT_GT(runs[1].at("spans"), 0);
  EXPECT_NE(runs[3].at("status"), "finished");
  EXPECT_NE(runs[3].at("status"), "running");
  EXPECT_EQ(IntegrityOf(folder), "ok");
}

TEST(FullDisk, EndsARunAtTheFileSizeLimitAndKeepsWhatIsStored) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder);
  ASSERT_EQ(RunForetrain(folder.path(), train + "--steps 2").code, 0);
  // A limit of 512 KiB with its signal ignored, so that writes fail as on a full disk.
  const ProgramEnd end =
      RunCommand(folder.path(), "trap '' XFSZ; ulimit -f 1024; exec \"$FORETRAIN\" " + train +
                                    "--recording required --steps 100000");
  EXPECT_EQ(end.code, 3);
  EXPECT_THAT(LastErrorLine(end.errors), AllOf(HasSubstr("foretrain.db"), HasSubstr("ulimit -f"),
                                               HasSubstr("raise the limit")));
  EXPECT_TRUE(IsOneLine(LastErrorLine(end.errors))) << end.errors;
  ExpectRunsAfterFullDisk(folder, RunsIn(folder));
  EXPECT_EQ(RunForetrain(folder.path(), "analyze --run 2").code, 0);
  // Once there is room again, the next run is recorded.
  EXPECT_EQ(RunForetrain(folder.path(), train + "--steps 2").code, 0);
}

TEST(FullDisk, EndsARunOnAFullFileSystemAndKeepsWhatIsStored) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder);
  folder.Write("full.sh",
               "mkdir small && mount -t tmpfs -o size=1500k none small || exit 99\n"
               "cp text.txt small && cd small\n"
               "\"$FORETRAIN\" " +
                   train +
                   "--steps 2 >/dev/null 2>&1 || exit 98\n"
                   "\"$FORETRAIN\" " +
                   train +
                   "--recording required --steps 100000\n"
                   "code=$?\n"
                   "\"$FORETRAIN\" runs --json >../runs.json || exit 97\n"
                   "cp foretrain.db* ..\n"
                   "exit $code\n");
  const ProgramEnd end =
      RunCommand(folder.path(), "exec unshare --user --map-root-user --mount sh full.sh");
  if (end.code == 99 || end.code == 127 || end.code == 1) {
    GTEST_SKIP()
        << "needs a user namespace that may mount (as root, or where unshare --user works): "
        << end.errors;
  }
  EXPECT_EQ(end.code, 3) << end.errors;
  EXPECT_THAT(LastErrorLine(end.errors),
              AllOf(HasSubstr("foretrain.db"), HasSubstr("disk is full"), HasSubstr("free some")));
  EXPECT_TRUE(IsOneLine(LastErrorLine(end.errors))) << end.errors;
  ExpectRunsAfterFullDisk(folder, LastLine(folder.Read("runs.json")).at("runs"));
}

TEST(FullDisk, LetsTheTrainingGoOnAndSaysSo) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder);
  ASSERT_EQ(RunForetrain(folder.path(), train + "--steps 2").code, 0);
  const ProgramEnd end =
      RunCommand(folder.path(), "trap '' XFSZ; ulimit -f 1024; exec \"$FORETRAIN\" " + train +
                                    "--json --steps 2000");
  EXPECT_EQ(end.code, 0) << end.errors;
  EXPECT_THAT(end.errors, AllOf(HasSubstr("the training goes on unrecorded"),
                                HasSubstr("--recording required"), HasSubstr("ulimit -f")));
  const nlohmann::json summary = LastLine(end.output);
  EXPECT_EQ(summary.at("steps"), 2000);
  EXPECT_THAT(summary.at("unrecorded").get<std::string>(), HasSubstr("foretrain.db"));
  ExpectRunsAfterFullDisk(folder, RunsIn(folder));
}

// The exit code tells a launcher that the loss is lost; the store says at which op.
TEST(NotFinite, EndsTheRunAsFailedAndIsNamed) {
  const TemporaryFolder folder;
  const ProgramEnd end = RunStoppable(folder.path(), SmallTraining(folder) + "--clip 1 --steps 5",
                                      {"FORETRAIN_FAULT=1:2:9:nan"});
  EXPECT_EQ(end.code, 3);
  EXPECT_THAT(LastErrorLine(end.errors),
              AllOf(HasSubstr("rank 1, step 2, "), HasSubstr("infinite or NaN"),
                    HasSubstr("the parameters are those before this step")));
  const nlohmann::json runs = RunsIn(folder);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[1].at("status"), "failed");
  EXPECT_THAT(runs[1].at("message").get<std::string>(), HasSubstr("rank 1, step 2, "));
}

TEST(KilledRun, IsShownAsInterruptedWithTheSpansItHadFlushed) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder);
  // The first batches hold the forecast's spans and metrics; on a slow machine a batch holds few
  // steps. The process dies in what would be its twelfth transaction.
  const ProgramEnd end = RunStoppable(folder.path(), train + "--json --steps 100000",
                                      {"FORETRAIN_STOP_AT=store.batch#12"});
  EXPECT_EQ(end.code, 128 + 9);
  const nlohmann::json runs = RunsIn(folder);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].at("status"), "finished");
  EXPECT_EQ(runs[1].at("status"), "interrupted");
  EXPECT_THAT(runs[1].at("message").get<std::string>(),
              testing::MatchesRegex("ended at step [0-9]+, [0-9.]+ MiB resident: process [0-9]+, "
                                    "which recorded it, ended without finishing it"));
  const auto spans = ValueIn(folder, "SELECT count(*) FROM v_span WHERE run_id = 2");
  EXPECT_GT(spans, 100);
  EXPECT_EQ(runs[1].at("spans"), spans);
  EXPECT_EQ(IntegrityOf(folder), "ok");
  // Metrics of the steps that were flushed.
  EXPECT_EQ(RunForetrain(folder.path(), "analyze --run 2").code, 0);
}

// The forecast says 1.11 GiB, which the machine's memory would hold. A limit of the shell refuses
// it.
TEST(RefusedMemory, IsStoredBesideTheForecastOfTheRun) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer reserves more addresses than the limit; runs in preset release";
#endif
  const TemporaryFolder folder;
  SmallTraining(folder);
  const ProgramEnd end = RunCommand(
      folder.path(),
      "ulimit -v 900000; exec \"$FORETRAIN\" train --model gpt2-124m --layers 4 --sequence 64 "
      "--global-batch 4 --micro-batch 4 --ranks 1 --steps 2 --data text.txt");
  EXPECT_EQ(end.code, 3) << end.errors;
  EXPECT_THAT(end.errors, HasSubstr("was refused"));
  const nlohmann::json runs = RunsIn(folder);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].at("kind"), "predicted");
  EXPECT_GT(runs[0].at("metrics").at("peak_device_bytes"), std::int64_t{1} << 30);
  EXPECT_EQ(runs[1].at("status"), "failed");
  EXPECT_EQ(runs[1].at("forecast"), 1);
  EXPECT_THAT(runs[1].at("message").get<std::string>(),
              AllOf(HasSubstr("rank 0: the arena of 1.11 GiB (optimizer_state 517 MiB"),
                    HasSubstr("was refused")));
}

class StoppedRun : public testing::TestWithParam<std::tuple<const char*, int, const char*>> {};

TEST_P(StoppedRun, EndsAtAStepAndIsStoredAsFarAsItCame) {
  const auto [how, code, name] = GetParam();
  const TemporaryFolder folder;
  const ProgramEnd end =
      RunStoppable(folder.path(), SmallTraining(folder) + "--json --steps 100000",
                   {"FORETRAIN_STOP_AT=train.step#5", std::string("FORETRAIN_STOP_HOW=") + how});
  EXPECT_EQ(end.code, code);
  const nlohmann::json summary = LastLine(end.output);
  EXPECT_EQ(summary.at("stopped"), true);
  // The signal came during the report of the fifth step; hosts run at most a few steps ahead of it.
  const auto steps = summary.at("steps").get<std::int64_t>();
  EXPECT_GE(steps, 5);
  EXPECT_LT(steps, 5 + 1024);
  EXPECT_TRUE(IsOneLine(end.errors)) << end.errors;
  EXPECT_THAT(end.errors, AllOf(HasSubstr("stopped"), HasSubstr("run 2"),
                                HasSubstr(std::to_string(steps) + " of 100000 steps are stored")));
  const nlohmann::json runs = RunsIn(folder);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[1].at("status"), "interrupted");
  EXPECT_THAT(runs[1].at("message").get<std::string>(),
              HasSubstr(std::string(name) + " after " + std::to_string(steps) + " of 100000"));
  // Only whole steps, on both ranks.
  EXPECT_EQ(ValueIn(folder, "SELECT count(*) FROM v_step WHERE run_id = 2"), 2 * steps);
  EXPECT_EQ(ValueIn(folder, "SELECT count(*) FROM v_counter WHERE run_id = 2 AND name = 'loss'"),
            steps);
}

INSTANTIATE_TEST_SUITE_P(Signals, StoppedRun,
                         testing::Values(std::tuple{"interrupt", 130, "Ctrl-C"},
                                         std::tuple{"terminate", 143, "SIGTERM"},
                                         std::tuple{"hangup", 143, "SIGHUP"}),
                         [](const auto& at) { return std::string(std::get<0>(at.param)); });

// A rank that stalls never comes to the end of its step, so the first signal stops nothing.
TEST(SecondSignal, EndsARunThatDoesNotStopAndKeepsWhatIsStored) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder) + "--json --steps 100000 --timeout 600s ";
  const ProgramEnd end = RunCommand(
      folder.path(), "FORETRAIN_FAULT=1:3:9:stall " + StoppableBinary() + " " + train +
                         "> out & program=$!; until grep -q '\"step\"' out; do sleep 0.1; done; "
                         "sleep 1; kill -INT $program; sleep 1; kill -0 $program && echo waits > "
                         "first; kill -INT $program; wait $program; exit $?");
  EXPECT_EQ(end.code, 130) << end.errors;
  EXPECT_EQ(folder.Read("first"), "waits\n");
  const nlohmann::json runs = RunsIn(folder);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].at("status"), "finished");
  EXPECT_EQ(runs[1].at("status"), "interrupted");
  EXPECT_GT(ValueIn(folder, "SELECT count(*) FROM v_span WHERE run_id = 2"), 0);
  EXPECT_EQ(IntegrityOf(folder), "ok");
}

TEST(StopPoints, AreNotInTheProduct) {
  const TemporaryFolder folder;
  const ProgramEnd end = RunCommand(folder.path(),
                                    "export FORETRAIN_STOP_AT=train.step FORETRAIN_STOP_LOG=log "
                                    "FORETRAIN_FAULT=0:0:0:throw; exec \"$FORETRAIN\" " +
                                        SmallTraining(folder) + "--steps 2");
  EXPECT_EQ(end.code, 0) << end.errors;
  EXPECT_EQ(folder.Read("log"), "");
  const ProgramEnd strings =
      RunCommand(folder.path(), "grep -c -e FORETRAIN_STOP_AT -e FORETRAIN_FAULT \"$FORETRAIN\"");
  EXPECT_EQ(strings.output, "0\n");
}

TEST(StoreAsOutput, IsRefusedAndKept) {
  const TemporaryFolder folder;
  ASSERT_EQ(RunForetrain(folder.path(), SmallTraining(folder) + "--store runs.db").code, 0);
  std::vector<const char*> commands{"export --store runs.db --out runs.db",
                                    "calibrate --seconds 1 --out runs.db"};
#if FORETRAIN_HAVE_UI
  commands.insert(commands.end(),
                  {"view runs.db --screenshot runs.db", "demo --screenshot runs.db"});
#endif
  for (const char* arguments : commands) {
    const ProgramEnd end = RunForetrain(folder.path(), arguments);
    EXPECT_EQ(end.code, 3) << arguments;
    EXPECT_THAT(end.errors, HasSubstr("runs.db: is a database, such as a store of runs"))
        << arguments;
  }
  EXPECT_EQ(RunForetrain(folder.path(), "compare --store runs.db").code, 0);
}

TEST(UnwritableFolder, IsNamedBeforeAnythingIsDone) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder);
  const ProgramEnd missing =
      RunForetrain(folder.path(), train + "--steps 2 --store no/such/folder/runs.db");
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.errors, AllOf(HasSubstr("no/such/folder/runs.db"), Not(HasSubstr("step 1"))));
  const ProgramEnd special = RunForetrain(folder.path(), train + "--steps 2 --store /proc/runs.db");
  EXPECT_THAT(special.code, testing::AnyOf(2, 3));
  EXPECT_THAT(special.errors, HasSubstr("/proc/runs.db"));
  const ProgramEnd out = RunForetrain(folder.path(), "export --out no/such/trace.json");
  EXPECT_THAT(out.code, testing::AnyOf(2, 3));
  // The data file is a folder.
  const ProgramEnd data = RunForetrain(folder.path(), train + "--steps 2 --data .");
  EXPECT_EQ(data.code, 2);
}

}  // namespace
}  // namespace foretrain
