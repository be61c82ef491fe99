#include "app/training/outputs/step_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "app/training/outputs/tensorboard.h"
#include "tests/app/commands/small_run.h"
#include "tests/base/fault_file_system.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct NoonClock final : Clock {
  std::int64_t RealtimeNs() override { return 1'000'000'000'500'000'000; }
  std::int64_t MonotonicNs() override { return 0; }
};

StepReport Report(std::int64_t step) {
  StepReport report;
  report.step = step;
  report.loss = 2.5;
  report.seconds = 0.5;
  report.tokens_per_s = 128;
  return report;
}

std::string BytesOfHex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

// The CRC-32C of "123456789" is e3069283 (RFC 3720). Rotated right by 15 it is 2507c60d, and with
// a282ead8 added c78ab0e5. The CRC of the length comes from a bitwise computation in Python.
TEST(TensorBoardBytes, FrameARecordWithMaskedChecksums) {
  EXPECT_EQ(TfRecord("123456789"),
            BytesOfHex("090000000000000037f97139313233343536373839e5b08ac7"));
}

// Event: 09 is field 1, fixed64: 1.0 is 3ff0 and zeros. 10 is field 2, varint: 300 is ac 02. 2a is
// field 5 of 10 bytes: 0a, one Value of 8 bytes: 0a 01 "a" is its tag, 15 its simple_value: 0.5 is
// 3f000000.
TEST(TensorBoardBytes, EncodeAStepAsProtobuf) {
  const TensorBoardScalar scalar{"a", 0.5F};
  EXPECT_EQ(TensorBoardStep(1.0, 300, std::span(&scalar, 1)),
            TfRecord(BytesOfHex("09000000000000f03f"
                                "10ac02"
                                "2a0a0a080a0161150000003f")));
  EXPECT_EQ(TensorBoardHeader(1.0), TfRecord(BytesOfHex("09000000000000f03f"
                                                        "1a0d") +
                                             "brain.Event:2"));
}

TEST(StepFiles, AddsToTheLinesOfEarlierTrainings) {
  FaultFileSystem files;
  NoonClock clock;
  files.Put("a.jsonl", "{\"step\":0}\n{\"st");  // the second line was cut by a kill
  auto opened = StepFiles::Open(files, clock, {.lines = "a.jsonl", .tensorboard = ""});
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  EXPECT_EQ(files.Get("a.jsonl"), "{\"step\":0}\n");
  ASSERT_TRUE((*opened)->Add(Report(7), /*run=*/3, {.step_s = 0.25}).has_value());
  EXPECT_EQ(files.Get("a.jsonl"),
            "{\"step\":0}\n"
            "{\"step\":7,\"loss\":2.5,\"step_time_s\":0.5,\"predicted_step_time_s\":0.25,"
            "\"tokens_per_s\":128.0,\"learning_rate\":0.0,\"resident_bytes\":0,\"run\":3}\n");
}

TEST(StepFiles, WritesNothingMoreAfterAnError) {
  FaultFileSystem files;
  NoonClock clock;
  auto opened = StepFiles::Open(files, clock, {.lines = "a.jsonl", .tensorboard = "events"});
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  const std::string events =
      "events/events.out.tfevents.1000000000.foretrain." + std::to_string(getpid());
  ASSERT_TRUE(files.Exists(events));
  ASSERT_TRUE((*opened)->Add(Report(0), 1, {}).has_value());
  const std::string before = files.Get(events);
  EXPECT_THAT(before, HasSubstr("train/loss"));
  files.FailAt(0);
  EXPECT_FALSE((*opened)->Add(Report(1), 1, {}).has_value());
  EXPECT_TRUE((*opened)->Add(Report(2), 1, {}).has_value());
  EXPECT_EQ(files.Get(events), before);
}

TEST(StepFiles, LeavesTheOldLinesIfTheyCannotBeCopied) {
  NoonClock clock;
  for (std::int64_t call = 0;; ++call) {
    FaultFileSystem files;
    files.Put("a.jsonl", "{\"step\":0}\n");
    files.FailAt(call);
    const auto opened = StepFiles::Open(files, clock, {.lines = "a.jsonl", .tensorboard = ""});
    if (!files.fired()) break;
    EXPECT_FALSE(opened.has_value()) << call;
    files.FailNever();
    EXPECT_EQ(files.Get("a.jsonl"), "{\"step\":0}\n") << call;
    const auto names = files.List(".");
    ASSERT_TRUE(names.has_value());
    EXPECT_THAT(*names, ElementsAre("a.jsonl")) << call;
  }
}

TEST(StepFiles, FollowATrainingAndAreRefusedBeforeIt) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder) + "--lr-schedule linear --steps 4 ";
  const ProgramEnd end = RunForetrain(folder.path(), train + "--metrics steps.jsonl");
  ASSERT_EQ(end.code, 0) << end.errors;
  EXPECT_THAT(end.errors, HasSubstr(" a step (forecast "));
  std::istringstream lines(folder.Read("steps.jsonl"));
  std::string line;
  std::vector<double> rates;
  while (std::getline(lines, line)) {
    const nlohmann::json step = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    EXPECT_EQ(step.at("step"), rates.size());
    EXPECT_EQ(step.at("run"), 2);
    EXPECT_GT(step.at("predicted_step_time_s"), 0.0);
    EXPECT_GT(step.at("resident_bytes"), 0);
    rates.push_back(step.at("learning_rate"));
  }
  ASSERT_EQ(rates.size(), 4U);
  EXPECT_FLOAT_EQ(static_cast<float>(rates[2]), 3e-4F / 2);

  for (const auto& [option, says] :
       {std::pair{"--metrics missing/a.jsonl", "--metrics: missing/a.jsonl: there is no folder"},
        std::pair{"--metrics foretrain.db", "--metrics: foretrain.db: is a database"},
        std::pair{"--tensorboard text.txt/a",
                  "--tensorboard: text.txt/a: text.txt is no folder"}}) {
    const ProgramEnd refused = RunForetrain(folder.path(), train + option);
    EXPECT_EQ(refused.code, 3) << option;
    EXPECT_THAT(refused.errors, HasSubstr(says));
    EXPECT_THAT(refused.errors, Not(HasSubstr("step 1/4")));
  }
}

}  // namespace
}  // namespace foretrain
