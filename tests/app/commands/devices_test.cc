// `foretrain devices --json`, as a script reads it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/app/run_binary.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

TEST(Devices, TellsTheCpuAndTheGpusOrWhyThereIsNone) {
  const TemporaryFolder folder;
  const ProgramEnd end = RunForetrain(folder.path(), "devices --json");
  ASSERT_EQ(end.code, 0) << end.errors;
  const auto result = nlohmann::json::parse(end.output);
  const auto& devices = result["devices"];
  ASSERT_GE(devices.size(), 1U);
  EXPECT_EQ(devices[0]["name"], "cpu");
  EXPECT_GE(devices[0]["cores"].get<int>(), 1);
  // Either a row for a GPU or a reason why there is none, never both.
  EXPECT_NE(devices.size() > 1, result.contains("why_no_cuda")) << end.output;
  EXPECT_TRUE(result["links"].is_array());
}

TEST(Devices, TrainingOnAGpuThatIsNotThereSaysTheSame) {
  const TemporaryFolder folder;
  const ProgramEnd shown = RunForetrain(folder.path(), "devices --json");
  const auto result = nlohmann::json::parse(shown.output);
  if (!result.contains("why_no_cuda"))
    GTEST_SKIP() << "this machine has a GPU; run where there is none";
  folder.Write("data.txt", "some text");
  const ProgramEnd end = RunForetrain(folder.path(), "train --data data.txt --device cuda");
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.errors, HasSubstr("--device cuda: " + result["why_no_cuda"].get<std::string>()));
  EXPECT_THAT(end.errors, HasSubstr("use --device cpu"));
}

}  // namespace
}  // namespace foretrain
