// Every kind of bad input ends in one sentence with the cause and the remedy, and in its exit code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/app/run_binary.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string Text(std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += "To be, or not to be, that is the question. ";
  return text;
}

constexpr const char* kSmall =
    "--model gpt-10m --layers 1 --sequence 16 --global-batch 2 --ranks 1 ";

TEST(BadInput, NamesTheNearestCommandOfAnUnknownOne) {
  const TemporaryFolder folder;
  const ProgramEnd end = RunForetrain(folder.path(), "modls");
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.errors, AllOf(HasSubstr("modls"), HasSubstr("Did you mean \"models\"?")));
}

TEST(BadInput, RefusesHeadsThatDoNotDivide) {
  const TemporaryFolder folder;
  const ProgramEnd end = RunForetrain(folder.path(), "predict --model gpt-10m --heads 7");
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.errors, AllOf(HasSubstr("heads"), HasSubstr("7")));
}

TEST(BadInput, RefusesAMicroBatchThatDoesNotDivide) {
  const TemporaryFolder folder;
  const ProgramEnd end = RunForetrain(
      folder.path(), "predict --model gpt-10m --global-batch 8 --micro-batch 3 --ranks 1");
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.errors, AllOf(HasSubstr("micro_batch"), HasSubstr("3")));
}

TEST(BadInput, RefusesRanksThatThePlanDoesNotHave) {
  const TemporaryFolder folder;
  const ProgramEnd end =
      RunForetrain(folder.path(), "predict --model gpt-10m --dp 2 --pp 2 --ranks 2");
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.errors, HasSubstr("4 ranks"));
}

TEST(BadInput, NamesFieldAndFileOfAConfigThatLacksOne) {
  const TemporaryFolder folder;
  const std::string config = folder.Write("config.json", R"({"model_type": "gpt2", "n_layer": 2})");
  const ProgramEnd end = RunForetrain(folder.path(), "predict --model " + config);
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.errors, AllOf(HasSubstr("config.json"), HasSubstr("n_")));
}

TEST(BadInput, RefusesAnEmptyAndAMissingText) {
  const TemporaryFolder folder;
  const std::string empty = folder.Write("empty.txt", "");
  const ProgramEnd first =
      RunForetrain(folder.path(), std::string("train ") + kSmall + "--data " + empty);
  EXPECT_EQ(first.code, 2);
  EXPECT_THAT(first.errors, AllOf(HasSubstr("empty.txt"), HasSubstr("empty")));
  const ProgramEnd second =
      RunForetrain(folder.path(), std::string("train ") + kSmall + "--data missing.txt");
  EXPECT_EQ(second.code, 2);
  EXPECT_THAT(second.errors, HasSubstr("missing.txt"));
}

TEST(BadInput, SaysHowLongATextMustBe) {
  const TemporaryFolder folder;
  const std::string text = folder.Write("short.txt", "too short");
  const ProgramEnd end =
      RunForetrain(folder.path(), std::string("train ") + kSmall + "--data " + text);
  EXPECT_EQ(end.code, 2);
  // 16 tokens and one more target.
  EXPECT_THAT(end.errors, AllOf(HasSubstr("9 tokens"), HasSubstr("needs 17")));
}

TEST(BadInput, AnswersNoToAPlanOverItsBudget) {
  const TemporaryFolder folder;
  const std::string text = folder.Write("text.txt", Text(5000));
  const ProgramEnd end = RunForetrain(
      folder.path(), std::string("train ") + kSmall + "--steps 1 --budget 1MiB --data " + text);
  EXPECT_EQ(end.code, 1);
  EXPECT_THAT(end.errors, AllOf(HasSubstr("parameters"), HasSubstr("1.00 MiB")));
}

TEST(BadInput, RefusesAFileThatIsNoStoreAndLeavesItAlone) {
  const TemporaryFolder folder;
  folder.Write("notes.db",
               "these are my notes, not a database, and they are long enough to look at");
  const ProgramEnd end = RunForetrain(folder.path(), "runs --store notes.db");
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.errors, HasSubstr("notes.db"));
}

TEST(BadInput, NamesTheNearestOptionOfAnUnknownOne) {
  const TemporaryFolder folder;
  const ProgramEnd end = RunForetrain(folder.path(), "predict --modle gpt-10m");
  EXPECT_EQ(end.code, 2);
  EXPECT_EQ(end.errors,
            "foretrain: `foretrain predict` has no option --modle. Did you mean \"--model\"? "
            "`foretrain predict --help all` lists what there is.\n");
  EXPECT_THAT(RunForetrain(folder.path(), "models --jsn").errors, HasSubstr("\"--json\""));
  EXPECT_THAT(RunForetrain(folder.path(), "runs 7").errors, HasSubstr("no argument \"7\""));
  EXPECT_THAT(RunForetrain(folder.path(), "").errors, HasSubstr("give a command"));
}

TEST(BadInput, NamesOptionAndValueThatIsNoNumber) {
  const TemporaryFolder folder;
  const std::string train = std::string("train ") + kSmall + "--data text.txt ";
  folder.Write("text.txt", Text(5000));
  for (const auto& [option, says] :
       {std::pair{"--steps x", "--steps: \"x\" is not a whole number"},
        std::pair{"--steps 0", "below 1"},
        std::pair{"--steps ''", "--steps: \"\" is not a whole number"},
        std::pair{"--steps 99999999999999999999", "is not a whole number"},
        std::pair{"--lr -1", "--lr: -1"}, std::pair{"--lr nan", "--lr: \"nan\" is not a number"},
        std::pair{"--warmup -4", "--warmup: -4"},
        std::pair{"--lr-min 1 --lr-schedule cosine", "--lr-min: 1 is outside 0 to --lr 0.0003"},
        std::pair{"--lr-min 1e-5", "--lr-min: the learning rate is constant"},
        std::pair{"--lr-decay-steps 5", "--lr-decay-steps: the learning rate is constant"},
        std::pair{"--lr-decay-steps -5", "--lr-decay-steps: -5 is below 0"},
        std::pair{"--steps 9 --lr-schedule wsd --lr-decay-steps 10", "exceed the 9 steps"},
        std::pair{"--steps 9 --lr-schedule wsd --lr-decay-steps 4 --warmup 6", "--warmup 5 or"},
        std::pair{"--steps 9 --lr-schedule cosine --warmup 9", "--warmup 8 or less"},
        std::pair{"--lr-schedule step", "constant, linear, cosine, wsd"},
        std::pair{"--timeout 0s", "--timeout: \"0s\""},
        std::pair{"--capture some", "off, launches, full"},
        std::pair{"--init", "--init: PATH is missing"}}) {
    const ProgramEnd end = RunForetrain(folder.path(), train + option);
    EXPECT_EQ(end.code, 2) << option;
    EXPECT_THAT(end.errors, HasSubstr(says)) << option;
  }
}

TEST(BadInput, NamesStepsAndSharesThatAreNone) {
  const TemporaryFolder folder;
  folder.Write("text.txt", Text(5000));
  const std::string train = std::string("train ") + kSmall + "--steps 3 --data text.txt";
  ASSERT_EQ(RunForetrain(folder.path(), train).code, 0);
  const ProgramEnd step = RunForetrain(folder.path(), "analyze --step 9");
  EXPECT_EQ(step.code, 2);
  EXPECT_THAT(step.errors, AllOf(HasSubstr("no step 9"), HasSubstr("0 to 2")));
  const ProgramEnd share = RunForetrain(folder.path(), "compare --fail-above 3");
  EXPECT_EQ(share.code, 2);
  EXPECT_THAT(share.errors, HasSubstr("write 3%"));
  EXPECT_EQ(RunForetrain(folder.path(), "compare --fail-above 1000000%").code, 0);
}

struct Refusal {
  const char* arguments;
  const char* named;  // a part of the sentence
};

TEST(BadInput, NamesOptionAndValueThatIsOutOfRange) {
  const TemporaryFolder folder;
  for (const Refusal& one : {Refusal{"predict --micro-batch 0", "micro_batch 0: must be from 1"},
                             {"predict --layers 2 --layers 3", "--layers is given 2 times"},
                             {"predict --max-memory 0", "--max-memory: \"0\""},
                             {"plan --top 0", "--top: 0 is outside 1 to 1000"},
                             {"plan --top -1", "--top: -1"},
                             {"plan --tokens nan", "--tokens: \"nan\""},
                             {"plan --tokens 1T --price nan", "--price: \"nan\" is not a number"},
                             {"plan --tokens 1T --price -2", "--price: -2"},
                             {"plan --devices 0", "--devices: 0 is outside 1"},
                             {"fit --models nope", "--models: model \"nope\""},
                             {"fit --sequence 0", "--sequence: 0 is outside 1"},
                             {"calibrate --seconds nan", "--seconds: \"nan\" is not a number"},
                             {"calibrate --nvme missing", "--nvme: missing is no folder"},
                             {"analyze --step -7", "--step: -7"},
                             {"train --data x --lr -1", "--lr: -1 is not a learning rate"}}) {
    const ProgramEnd end = RunForetrain(folder.path(), one.arguments);
    EXPECT_EQ(end.code, 2) << one.arguments;
    EXPECT_THAT(end.errors, HasSubstr(one.named)) << one.arguments;
  }
}

TEST(BadInput, TakesNoFileForTheNameOfAModel) {
  const TemporaryFolder folder;
  for (const auto& [text, named] : {std::pair{"", "is empty"},
                                    {"[]", "is no JSON object; give a config.json"},
                                    {"llama3-8b", "is no JSON: "}}) {
    folder.Write("config.json", text);
    const ProgramEnd end = RunForetrain(folder.path(), "predict --model ./config.json");
    EXPECT_EQ(end.code, 2);
    EXPECT_THAT(end.errors, AllOf(HasSubstr("./config.json: "), HasSubstr(named)));
  }
}

TEST(BadInput, IsFoundBeforeLongWork) {
  const TemporaryFolder folder;
  const std::string table = folder.Write("runs.csv", "id\n");
  for (const char* arguments :
       {"calibrate --out no/folder.json", "demo --screenshot no/folder.png",
        "bench --forecast --record no/folder.md", "export --out no/folder.json",
        "validate runs.csv --out no/folder.csv"}) {
    const ProgramEnd end = RunForetrain(folder.path(), arguments);
    EXPECT_EQ(end.code, 3) << arguments;
    EXPECT_THAT(end.errors, AllOf(HasSubstr("no/folder"), HasSubstr("there is no folder no")))
        << arguments;
    EXPECT_EQ(end.output, "") << arguments;
  }
  const ProgramEnd data = RunForetrain(folder.path(), "demo --data missing.txt");
  EXPECT_EQ(data.code, 2);
  EXPECT_THAT(data.errors, HasSubstr("missing.txt"));
  EXPECT_EQ(data.output, "");
}

TEST(BadInput, LeavesADeviceAlone) {
  const TemporaryFolder folder;
  const ProgramEnd end = RunCommand(folder.path(),
                                    "mkfifo pipe && $FORETRAIN calibrate --seconds 1 --out pipe; "
                                    "e=$?; test -p pipe || exit 9; exit $e");
  EXPECT_EQ(end.code, 3);
  EXPECT_THAT(end.errors, HasSubstr("pipe: is not a regular file"));
}

TEST(BadInput, ChangesNoRunWhereOneOfTwoChangesIsRefused) {
  const TemporaryFolder folder;
  ASSERT_EQ(RunForetrain(folder.path(), std::string("predict --store foretrain.db ") + kSmall).code,
            0);
  for (const Refusal& one : {Refusal{"runs --delete 1 --pin 1", "--delete and --pin"},
                             {"runs --delete -3", "--delete: -3 is no run"},
                             {"runs --rename 1", "--rename 1: give its new --label"},
                             {"runs --label x", "--label: of which run?"}}) {
    const ProgramEnd end = RunForetrain(folder.path(), one.arguments);
    EXPECT_EQ(end.code, 2) << one.arguments;
    EXPECT_THAT(end.errors, HasSubstr(one.named)) << one.arguments;
  }
  const ProgramEnd runs = RunForetrain(folder.path(), "runs --json");
  EXPECT_THAT(runs.output, HasSubstr("\"label\":\"dp1 tp1 pp1"));
}

TEST(LostOutput, IsAFault) {
  const TemporaryFolder folder;
  const ProgramEnd end = RunCommand(folder.path(), "$FORETRAIN models > /dev/full");
  EXPECT_EQ(end.code, 3);
  EXPECT_THAT(end.errors, HasSubstr("cut short: standard output cannot be written"));
}

TEST(BadInput, IsAnObjectWithTheErrorWhereJsonIsAskedFor) {
  const TemporaryFolder folder;
  const ProgramEnd end = RunForetrain(folder.path(), "predict --json --model no-such-model");
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.output,
              AllOf(StartsWith("{"), HasSubstr("\"exit_code\":2"), HasSubstr("no-such-model")));
}

}  // namespace
}  // namespace foretrain
