// `train --save` and `--resume` as users run them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "tests/app/commands/small_run.h"
#include "tests/app/runs/pair.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

TEST(ResumedRun, AloneGoesOnWithTheOptionsOfTheRunBefore) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder);
  const ProgramEnd whole = RunForetrain(folder.path(), train + "--steps 8 --json");
  const ProgramEnd killed =
      RunStoppable(folder.path(), train + "--steps 8 --json --save --save-every 2",
                   {"FORETRAIN_STOP_AT=train.step#6"});
  EXPECT_EQ(killed.code, 128 + 9);
  const ProgramEnd rest = RunForetrain(folder.path(), "train --resume --json");
  ASSERT_EQ(rest.code, 0) << rest.errors;
  const std::vector<double> all = LossesOf(whole.output), last = LossesOf(rest.output);
  ASSERT_EQ(all.size(), 8U);
  ASSERT_GE(last.size(), 2U);
  ASSERT_LE(last.size(), 6U);
  EXPECT_TRUE(
      std::equal(last.begin(), last.end(), all.end() - static_cast<std::ptrdiff_t>(last.size())));
  EXPECT_EQ(LastLine(rest.output)["checkpoint"], "checkpoints/step-00000008");
}

TEST(ResumedRun, MayHaveAnotherPlan) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder);
  const ProgramEnd whole = RunForetrain(folder.path(), train + "--steps 6 --json");
  ASSERT_EQ(RunForetrain(folder.path(), train + "--steps 3 --save here --save-every 3").code, 0);
  const ProgramEnd rest =
      RunForetrain(folder.path(), "train --resume here --steps 6 --ranks 4 --dp 2 --tp 2 --json");
  ASSERT_EQ(rest.code, 0) << rest.errors;
  const std::vector<double> all = LossesOf(whole.output), last = LossesOf(rest.output);
  ASSERT_EQ(last.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(last[i], all[i + 3], 1e-5 * all[i + 3]);
}

TEST(ResumedRun, SavesWhenItIsStopped) {
  const TemporaryFolder folder;
  const ProgramEnd stopped =
      RunStoppable(folder.path(), SmallTraining(folder) + "--steps 100000 --save",
                   {"FORETRAIN_STOP_AT=train.step#5", "FORETRAIN_STOP_HOW=terminate"});
  EXPECT_EQ(stopped.code, 143) << stopped.errors;
  EXPECT_THAT(stopped.errors, HasSubstr("saved checkpoints/step-0000"));
  EXPECT_EQ(RunForetrain(folder.path(), "train --resume --steps 12").code, 0);
}

TEST(ResumedRun, CountsTheTimeOfTheRunsBefore) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder) + "--capture off --json ";
  const ProgramEnd first = RunForetrain(folder.path(), train + "--steps 20 --save");
  ASSERT_EQ(first.code, 0) << first.errors;
  const ProgramEnd rest = RunForetrain(folder.path(), "train --resume --steps 21 --json");
  ASSERT_EQ(rest.code, 0) << rest.errors;
  const auto time_of = [&](const std::string& checkpoint) {
    return nlohmann::json::parse(
        folder.Read("checkpoints/" + checkpoint + "/manifest.json"))["time"];
  };
  const nlohmann::json before = time_of("step-00000020"), after = time_of("step-00000021");
  EXPECT_EQ(after["began_unix_ns"], before["began_unix_ns"]);
  EXPECT_GT(after["steps_ns"], before["steps_ns"]);
  // The first run ended by itself: the pause until the second is no part of the training.
  EXPECT_EQ(before["paused_ns"], 0);
  const double paused_ns = after["paused_ns"];
  EXPECT_GT(paused_ns, 0);
  EXPECT_LT(paused_ns,
            after["saved_unix_ns"].get<double>() - before["saved_unix_ns"].get<double>());
  const double all_ns =
      after["saved_unix_ns"].get<double>() - after["began_unix_ns"].get<double>() - paused_ns;
  EXPECT_GT(LastLine(rest.output)["goodput"], 0);
  EXPECT_LE(LastLine(rest.output)["goodput"], after["steps_ns"].get<double>() / all_ns);
  const ProgramEnd unsaved = RunForetrain(folder.path(), train + "--steps 2");
  EXPECT_FALSE(LastLine(unsaved.output).contains("goodput"));
}

TEST(ResumedRun, PassesOverADamagedCheckpointAndSaysSo) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder);
  ASSERT_EQ(RunForetrain(folder.path(), train + "--steps 4 --save --save-every 2").code, 0);
  RunCommand(folder.path(), "truncate -s 5000 checkpoints/step-00000004/rank-00001.safetensors");
  const ProgramEnd rest = RunForetrain(folder.path(), "train --resume --steps 5");
  EXPECT_EQ(rest.code, 0) << rest.errors;
  EXPECT_THAT(rest.errors, HasSubstr("passed over a damaged checkpoint: "
                                     "checkpoints/step-00000004/rank-00001.safetensors"));
}

TEST(ResumedRun, RefusesWhatItCannotGoOnWith) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder);
  ASSERT_EQ(RunForetrain(folder.path(), train + "--steps 2 --save").code, 0);
  folder.Write("other.txt", std::string(5000, 'x'));
  folder.Write("vocabulary.json", R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 64, "n_head": 4,
      "n_inner": 256, "vocab_size": 512, "n_positions": 1024})");
  for (const auto& [options, text] :
       {std::pair("--resume nowhere", "nowhere: no checkpoint in this folder"),
        std::pair("--resume", "has 2 steps of 2 already; give more with --steps"),
        std::pair("--resume --steps 9 --hidden 32", "in this model; resume with the model"),
        std::pair("--resume --steps 9 --model vocabulary.json", "in this model; resume with"),
        std::pair("--resume --steps 9 --seed 7", "leave --seed as it was"),
        std::pair("--resume --steps 9 --global-batch 8", "leave --global-batch and --sequence"),
        std::pair("--resume --steps 9 --shuffle", "in another order; give its --data"),
        std::pair("--resume --steps 9 --data other.txt", "was trained on other data")}) {
    const ProgramEnd end = RunForetrain(folder.path(), std::string("train ") + options);
    EXPECT_EQ(end.code, 2) << options;
    EXPECT_THAT(end.errors, HasSubstr(text));
  }
  EXPECT_EQ(RunsIn(folder).size(), 2U);  // refused runs leave none
}

// Ranks as processes save their own files; threads or processes go on from them.
TEST(ResumedRun, GoesOnAsThreadsOrProcesses) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder);
  const ProgramEnd whole = RunForetrain(folder.path(), train + "--steps 6 --json");
  const std::string saving = train + "--json --steps 4 --save --save-every 2 ";
  const ProgramEnd first = RunCommand(folder.path(), Pair(saving, saving));
  ASSERT_EQ(folder.Read("codes"), "0 0\n") << first.errors << folder.Read("err1");
  const std::string more = "train --resume --json --steps 6 --store more.db --keep 9 ";
  const ProgramEnd processes = RunCommand(folder.path(), Pair(more, more));
  ASSERT_EQ(folder.Read("codes"), "0 0\n") << processes.errors << folder.Read("err1");
  const ProgramEnd threads =
      RunForetrain(folder.path(), "train --resume checkpoints/step-00000004 --json --steps 6");
  ASSERT_EQ(threads.code, 0) << threads.errors;
  const std::vector<double> all = LossesOf(whole.output);
  ASSERT_EQ(all.size(), 6U);
  const std::vector<double> last(all.begin() + 4, all.end());
  EXPECT_EQ(LossesOf(processes.output), last);
  EXPECT_EQ(LossesOf(threads.output), last);
}

// Two saves of two ranks. The copy is done before the write of its file begins, and no metric
// counts them.
TEST(Saves, AreSpansOfTheRun) {
  for (const bool processes : {false, true}) {
    const TemporaryFolder folder;
    const std::string train = SmallTraining(folder) + "--steps 4 --save --save-every 2 ";
    const ProgramEnd end = processes ? RunCommand(folder.path(), Pair(train, train))
                                     : RunForetrain(folder.path(), train);
    ASSERT_EQ(end.code, 0) << end.errors;
    const std::string copies = "FROM v_span WHERE name = 'checkpoint copy'";
    EXPECT_EQ(ValueIn(folder, "SELECT count(*) " + copies + " AND queue = 'd2h'"), 4);
    EXPECT_EQ(ValueIn(folder, "SELECT count(DISTINCT rank) " + copies), 2);
    EXPECT_EQ(ValueIn(folder, "SELECT sum(step) " + copies), 2 * (1 + 3));
    EXPECT_EQ(ValueIn(folder,
                      "SELECT count(*) FROM v_span w JOIN v_span c USING(run_id, rank, step) WHERE "
                      "w.name = 'checkpoint write' AND c.name = 'checkpoint copy' AND w.queue = "
                      "'nvme' AND c.end_ns <= w.start_ns"),
              4);
  }
}

// Each attempt is killed at its sixth step, so that the training needs at least three.
TEST(Restarts, GoOnFromTheNewestCheckpointUntilTheEnd) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder) + "--steps 10 --capture off --json ";
  const ProgramEnd whole = RunForetrain(folder.path(), train);
  const ProgramEnd end = RunStoppable(folder.path(), train + "--save --save-every 2 --restarts 9",
                                      {"FORETRAIN_STOP_AT=train.step#6"});
  EXPECT_EQ(end.code, 0) << end.errors;
  EXPECT_THAT(end.errors, HasSubstr("the training was ended by signal 9; it starts again from "));
  EXPECT_THAT(end.errors, testing::ContainsRegex("the training was restarted [2-9] times"));
  EXPECT_EQ(LossesOf(end.output).back(), LossesOf(whole.output).back());
}

// Rank 1 fails in step 5 of each attempt, before a checkpoint. One rank trains to the end.
TEST(Restarts, GoOnWithFewerRanksWhereARankFailsAgainAndAgain) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder) + "--capture off --json ";
  ASSERT_EQ(RunForetrain(folder.path(), train + "--save --steps 3").code, 0);
  const ProgramEnd whole = RunForetrain(folder.path(), train + "--steps 12");
  ASSERT_EQ(whole.code, 0) << whole.errors;
  const ProgramEnd end =
      RunStoppable(folder.path(),
                   train + "--steps 12 --resume --save --save-every 100 --restarts 9 --min-ranks 1",
                   {"FORETRAIN_FAULT=1:5:3:fail"});
  EXPECT_EQ(end.code, 0) << end.errors;
  EXPECT_THAT(end.errors, HasSubstr("it starts again from step 3 (1 of 9)"));
  EXPECT_THAT(end.errors, HasSubstr("it starts again from step 3 with 1 rank (2 of 9)"));
  EXPECT_THAT(end.errors, HasSubstr("--replan: 1 rank instead of 2: "));
  EXPECT_NEAR(LossesOf(end.output).back(), LossesOf(whole.output).back(), 1e-5);
}

TEST(Restarts, ReplanNeedsATrainingToGoOnWith) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder);
  EXPECT_THAT(RunForetrain(folder.path(), train + "--replan").errors, HasSubstr("--replan: "));
  EXPECT_THAT(RunForetrain(folder.path(), train + "--min-ranks 1").errors,
              HasSubstr("--min-ranks: must be >= 1, and needs --restarts"));
}

// Other ranks, other plan, same losses; the checkpoint's own ranks keep its plan.
TEST(Replan, TrainsByAPlanOfTheRanksThatThereAre) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder) + "--capture off --json ";
  const ProgramEnd whole = RunForetrain(folder.path(), train + "--steps 6");
  ASSERT_EQ(RunForetrain(folder.path(), train + "--steps 3 --zero 3 --save").code, 0);
  for (const char* ranks : {"1", "2", "3", "4"}) {
    const ProgramEnd end =
        RunForetrain(folder.path(), std::string("train --resume --replan --steps 6 --ranks ") +
                                        ranks + " --save other" + ranks + " --json");
    EXPECT_EQ(end.code, 0) << end.errors;
    EXPECT_EQ(end.errors.find(" instead of 2: ") != std::string::npos,
              std::string(ranks) == "1" || std::string(ranks) == "4")
        << end.errors;
    EXPECT_EQ(end.errors.find("3 ranks have no plan; the training takes 2") != std::string::npos,
              std::string(ranks) == "3");
    EXPECT_NEAR(LossesOf(end.output).back(), LossesOf(whole.output).back(), 1e-5) << ranks;
  }
}

TEST(Restarts, EndWhenTheyAreUsedUpOrCannotHelp) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder) + "--steps 50 --capture off ";
  const ProgramEnd end = RunStoppable(folder.path(), train + "--save --restarts 1",
                                      {"FORETRAIN_STOP_AT=train.step#2"});
  EXPECT_EQ(end.code, 3);
  EXPECT_THAT(end.errors, HasSubstr("after 1 restart; no more were asked for"));
  EXPECT_EQ(RunForetrain(folder.path(), train + "--restarts 2").code, 2);
  // Bad input is no failure of the training.
  const ProgramEnd bad =
      RunForetrain(folder.path(), "train --data nothing.txt --save --restarts 2");
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.errors, testing::Not(HasSubstr("again")));
}

// Another training starts from a checkpoint's weights, or from the folder that convert makes of it.
TEST(SavedWeights, StartAnotherTrainingAndBecomeAFolderOfTheLibrary) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder);
  ASSERT_EQ(RunForetrain(folder.path(), train + "--steps 4 --save --zero 1").code, 0);
  const ProgramEnd convert =
      RunForetrain(folder.path(), "convert checkpoints --out library --json");
  ASSERT_EQ(convert.code, 0) << convert.errors;
  EXPECT_EQ(LastLine(convert.output)["model_type"], "gpt2");
  const ProgramEnd from_checkpoint =
      RunForetrain(folder.path(), train + "--steps 3 --json --init checkpoints");
  const ProgramEnd from_folder =
      RunForetrain(folder.path(), train + "--steps 3 --json --init library");
  ASSERT_EQ(from_checkpoint.code, 0) << from_checkpoint.errors;
  ASSERT_EQ(from_folder.code, 0) << from_folder.errors;
  const std::vector<double> losses = LossesOf(from_checkpoint.output);
  ASSERT_EQ(losses.size(), 3U);
  EXPECT_EQ(LossesOf(from_folder.output), losses);
  const ProgramEnd fresh = RunForetrain(folder.path(), train + "--steps 1 --json");
  EXPECT_LT(losses[0], LossesOf(fresh.output)[0]);
}

}  // namespace
}  // namespace foretrain
