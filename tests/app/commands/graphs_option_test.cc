// `foretrain train --cuda-graphs` on the command line of a machine whose devices have no graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/app/commands/small_run.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

TEST(GraphsOption, RefusesOtherWordsOtherDevicesAndVirtualTime) {
  const TemporaryFolder folder;
  const std::pair<const char*, const char*> wrong[] = {
      {"--cuda-graphs maybe", "--cuda-graphs: \"maybe\" is neither on nor off"},
      {"--cuda-graphs on --virtual-time", "--virtual-time measures op by op"},
      {"--cuda-graphs on", "cpu: this device has no graphs; leave --cuda-graphs out"}};
  for (const auto& [arguments, message] : wrong) {
    const ProgramEnd end =
        RunForetrain(folder.path(), SmallTraining(folder) + "--steps 1 " + arguments);
    EXPECT_EQ(end.code, 2) << arguments;
    EXPECT_THAT(end.errors, HasSubstr(message));
  }
  EXPECT_EQ(RunForetrain(folder.path(), SmallTraining(folder) + "--steps 1 --cuda-graphs off").code,
            0);
}

TEST(GraphsOption, ForecastsTheHostsTimeAndTheMemoryOfGraphs) {
  const TemporaryFolder folder;
  // The host takes 40 us per op and layers take microseconds, so the host is the bottleneck.
  const std::string predict =
      "predict --preset ddp --model gpt-10m --layers 4 --hidden 64 --heads 4 --cluster 1x1xh100 "
      "--sequence 16 --global-batch 2 ";
  const auto step_s = [&](const std::string& more) {
    const ProgramEnd end = RunForetrain(folder.path(), predict + "--json " + more);
    EXPECT_EQ(end.code, 0) << end.errors;
    return LastLine(end.output).at("step_time_s").get<double>();
  };
  EXPECT_LT(step_s("--cuda-graphs on"), step_s("--cuda-graphs off"));
  EXPECT_EQ(step_s(""), step_s("--cuda-graphs off"));
  const ProgramEnd with = RunForetrain(folder.path(), predict + "--cuda-graphs on");
  EXPECT_THAT(with.output, HasSubstr("CUDA graphs"));
  EXPECT_THAT(RunForetrain(folder.path(), predict).output, testing::Not(HasSubstr("CUDA graphs")));
  const ProgramEnd cpu = RunForetrain(folder.path(), "predict --cuda-graphs on --model gpt-10m");
  EXPECT_EQ(cpu.code, 2);
  EXPECT_THAT(cpu.errors, HasSubstr("has no GPUs; leave it out"));
}

}  // namespace
}  // namespace foretrain
