// Pipeline schedules as files, on the command line: export, check, import, forecast and training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/app/commands/small_run.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

nlohmann::json JsonOf(const ProgramEnd& end) {
  return nlohmann::json::parse(end.output, nullptr, false);
}

TEST(ScheduleCommand, ExportsChecksAndForecastsThePlanAgain) {
  const TemporaryFolder folder;
  const std::string plan = "--model gpt-10m --ranks 2 --pp 2 --global-batch 4 --sequence 64 ";
  const ProgramEnd out =
      RunForetrain(folder.path(), "schedule export " + plan + "--schedule zb-h1 --out zb.csv");
  ASSERT_EQ(out.code, 0) << out.errors;
  EXPECT_EQ(folder.Read("zb.csv"),
            "0F0,0F1,0I0,0W0,0F2,0I1,0W1,0F3,0I2,0W2,0I3,0W3\n"
            "1F0,1I0,1F1,1I1,1W0,1F2,1I2,1W1,1F3,1I3,1W2,1W3\n");
  const ProgramEnd printed =
      RunForetrain(folder.path(), "schedule export " + plan + "--schedule zb-h1");
  EXPECT_EQ(printed.output, folder.Read("zb.csv"));

  const ProgramEnd check = RunForetrain(folder.path(), "schedule check zb.csv --json");
  ASSERT_EQ(check.code, 0) << check.errors;
  const auto checked = JsonOf(check);
  ASSERT_TRUE(checked.is_object()) << check.output;
  EXPECT_TRUE(checked.at("works").get<bool>());
  EXPECT_EQ(checked.at("peak_live"), nlohmann::json({2, 2}));
  // 3 m + (p - 1) (F + I - W) of ZB-H1: 13 units, 12 of them work.
  EXPECT_DOUBLE_EQ(checked.at("makespan").get<double>(), 13);
  EXPECT_DOUBLE_EQ(checked.at("bubble").get<double>(), 1 - 12.0 / 13);

  const ProgramEnd wanted =
      RunForetrain(folder.path(), "predict " + plan + "--schedule zb-h1 --json");
  const ProgramEnd made = RunForetrain(
      folder.path(),
      "predict --model gpt-10m --ranks 2 --sequence 64 --schedule-file zb.csv --json --out p.json");
  ASSERT_EQ(made.code, wanted.code) << made.errors;
  EXPECT_EQ(JsonOf(made).at("step_time_s"), JsonOf(wanted).at("step_time_s"));
  EXPECT_EQ(JsonOf(made).at("options").at("schedule"), "custom");
  // The plan file holds the schedule itself, so it works without the other file.
  const ProgramEnd again =
      RunCommand(folder.path(),
                 "rm zb.csv && $FORETRAIN predict --model gpt-10m --ranks 2 --plan p.json --json");
  ASSERT_EQ(again.code, made.code) << again.errors;
  EXPECT_EQ(JsonOf(again).at("step_time_s"), JsonOf(wanted).at("step_time_s"));
}

TEST(ScheduleCommand, SaysWhyAScheduleDoesNotWork) {
  const TemporaryFolder folder;
  folder.Write("s.csv", "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n");
  const ProgramEnd check = RunForetrain(folder.path(), "schedule check s.csv");
  EXPECT_EQ(check.code, 1);
  EXPECT_THAT(check.output,
              HasSubstr("deadlock: rank 0, cell 2 (0B0) waits for rank 1, cell 3 (1B0); "
                        "rank 1, cell 2 (1F1) waits for rank 0, cell 3 (0F1)"));
  EXPECT_THAT(check.output, HasSubstr("rank 1: at most 2 activations live"));
  for (const char* command :
       {"predict --model gpt-10m --ranks 2 --schedule-file s.csv", "schedule import s.csv"}) {
    const ProgramEnd refused = RunForetrain(folder.path(), command);
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.errors, HasSubstr("s.csv: deadlock: rank 0, cell 2 (0B0)"));
  }
}

TEST(ScheduleCommand, ImportsTheFormWithCommunicationAndIdleCells) {
  const TemporaryFolder folder;
  folder.Write("s.csv",
               "0UNSHARD,0F0,0SEND_F0,,0RECV_B0,0B0,0REDUCE_GRAD\n1RECV_F0,1F0,1B0,1SEND_B0\n");
  const ProgramEnd end = RunForetrain(folder.path(), "schedule import s.csv");
  ASSERT_EQ(end.code, 0) << end.errors;
  EXPECT_EQ(end.output, "0F0,0B0\n1F0,1B0\n");
  EXPECT_THAT(end.errors, HasSubstr("left out 6 actions of communication"));
}

TEST(ScheduleCommand, RefusesWhatItCannotDo) {
  const TemporaryFolder folder;
  folder.Write("s.csv", "0F0,0B0\n");
  const auto refused = [&](const std::string& command, const std::string& says) {
    const ProgramEnd end = RunForetrain(folder.path(), command);
    EXPECT_EQ(end.code, 2) << command;
    EXPECT_THAT(end.errors, HasSubstr(says)) << command;
  };
  refused("schedule draw s.csv", "schedule draw: use `schedule check FILE`");
  refused("schedule check", "schedule check: names no file");
  refused("schedule check none.csv", "none.csv");
  refused("schedule export s.csv", "takes no file to read");
  refused("schedule export --pp 2 --ranks 2 --schedule pipedream-2bw", "its steps overlap");
  refused("predict --schedule 1f1b --schedule-file s.csv", "the file is the schedule");
  refused("predict --schedule custom", "give --schedule-file FILE");
  refused("predict --ranks 2 --pp 2 --schedule-file s.csv", "it has 1 ranks; use pp 1");
  refused("predict --ranks 1 --global-batch 2 --schedule-file s.csv", "use global_batch 1");
  refused("plan --ranks 1 --schedule-file s.csv", "a search tries schedules that fit any pipeline");
}

TEST(ScheduleCommand, TrainsInTheOrderOfAFileToTheLossesOfOneRank) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; text.size() < 5000; ++i) text += "line " + std::to_string(i % 97) + " of it\n";
  folder.Write("text.txt", text);
  const std::string train =
      "train --model gpt-10m --layers 2 --hidden 64 --heads 4 --sequence 16 --data text.txt --json "
      "--steps 3 --seed 3 ";
  folder.Write(
      "s.csv",
      "0F1,0F0,0I0,0F2,0W0,0B1,0F3,0I3,0B2,0W3\n1F1,1F0,1B0,1B1,1F2,1F3,1I3,1I2,1W2,1W3\n");
  const ProgramEnd one =
      RunForetrain(folder.path(), train + "--ranks 1 --dp 1 --global-batch 4 --micro-batch 1");
  ASSERT_EQ(one.code, 0) << one.errors;
  const ProgramEnd file =
      RunForetrain(folder.path(), train + "--ranks 2 --dp 1 --micro-batch 1 --schedule-file s.csv");
  ASSERT_EQ(file.code, 0) << file.errors;
  const std::vector<double> wanted = LossesOf(one.output), losses = LossesOf(file.output);
  ASSERT_EQ(losses.size(), 3U);
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], wanted[i], 1e-5);
}

}  // namespace
}  // namespace foretrain
