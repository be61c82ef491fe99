#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/app/run_binary.h"

namespace foretrain {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kSmall = "sweep --model gpt2-124m --layers 2 --cluster 2xv100 --tp 1 --pp 1 ";

TEST(Sweep, FindsAPlanForEachCombination) {
  const TemporaryFolder folder;
  const ProgramEnd end = RunForetrain(
      folder.path(),
      std::string(kSmall) +
          "--vary nodes=1,2 --vary sequence=128,1k --tokens 1B --json --picture sweep.svg");
  ASSERT_EQ(end.code, 0) << end.errors;
  const nlohmann::json json = nlohmann::json::parse(end.output);
  ASSERT_EQ(json["points"].size(), 4U);
  const nlohmann::json& first = json["points"][0];
  EXPECT_EQ(first["options"], (nlohmann::json{{"nodes", "1"}, {"sequence", "128"}}));
  const nlohmann::json& last = json["points"][3];
  EXPECT_EQ(last["options"], (nlohmann::json{{"nodes", "2"}, {"sequence", "1k"}}));
  EXPECT_EQ(last["plan_options"]["sequence"], 1024);
  for (const nlohmann::json& point : json["points"]) {
    EXPECT_TRUE(point["fits"]);
    EXPECT_EQ(point["devices"], point["options"]["nodes"] == "1" ? 2 : 4);
    const double rate = point["tokens_per_s"];
    EXPECT_NEAR(point["training_time_s"], 1e9 / rate, 1e-6 * 1e9 / rate);
    EXPECT_NEAR(point["tokens_per_s_per_device"].get<double>() * point["devices"].get<double>(),
                rate, 1e-6 * rate);
  }
  const std::string picture = folder.Read("sweep.svg");
  EXPECT_THAT(picture, StartsWith("<svg "));
  EXPECT_THAT(picture, HasSubstr(">sequence 128</text>"));
  EXPECT_THAT(picture, HasSubstr(">nodes</text>"));
}

// The plan of each row is the one that `plan` recommends.
TEST(Sweep, AgreesWithPlan) {
  const TemporaryFolder folder;
  const std::string options = "--model gpt2-124m --layers 2 --tp 1 --pp 1 --sequence 128 --json ";
  const ProgramEnd sweep =
      RunForetrain(folder.path(), "sweep " + options + "--cluster 2xv100 --vary nodes=3");
  const ProgramEnd plan = RunForetrain(folder.path(), "plan " + options + "--cluster 3x2xv100");
  ASSERT_EQ(sweep.code, 0) << sweep.errors;
  ASSERT_EQ(plan.code, 0) << plan.errors;
  const nlohmann::json point = nlohmann::json::parse(sweep.output)["points"][0];
  const nlohmann::json plans = nlohmann::json::parse(plan.output)["plans"];
  for (const nlohmann::json& found : plans) {
    if (!found["recommended"]) continue;
    EXPECT_EQ(point["plan"], found["plan"]);
    EXPECT_EQ(point["step_time_s"], found["step_time_s"]);
  }
}

TEST(Sweep, GoesOnWhereNothingFits) {
  const TemporaryFolder folder;
  const ProgramEnd end =
      RunForetrain(folder.path(), std::string(kSmall) + "--csv --vary max-memory=16GiB,1MiB");
  ASSERT_EQ(end.code, 0) << end.errors;
  EXPECT_THAT(end.output, StartsWith("max-memory,devices,best plan,"));
  EXPECT_THAT(end.output, HasSubstr("\n16GiB,2,dp2 "));
  EXPECT_THAT(end.output, HasSubstr("\n1MiB,2,nothing fits"));
}

TEST(Sweep, RefusesWhatItCannotVary) {
  const TemporaryFolder folder;
  for (const auto& [options, text] :
       {std::pair{"", "sweep varies nothing; give e.g. --vary sequence=4k,8k"},
        std::pair{"--vary sequence", "\"sequence\" is no option with its values"},
        std::pair{"--vary sequence=1k,,2k", "is no option with its values"},
        std::pair{"--vary seqence=1k", "seqence"}, std::pair{"--vary tp=x", "tp"},
        std::pair{"--cluster local --vary nodes=2", "local has no nodes to vary"}}) {
    const ProgramEnd end = RunForetrain(folder.path(), std::string("sweep ") + options);
    EXPECT_EQ(end.code, 2) << options;
    EXPECT_THAT(end.errors, HasSubstr(text)) << options;
  }
}

}  // namespace
}  // namespace foretrain
