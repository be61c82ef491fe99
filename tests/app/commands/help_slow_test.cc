// The examples that --help prints, and the demo, run as they are shown. Slow: searches of large
// clusters take seconds, and the demo trains for half a minute.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sstream>
#include <string>

#include "tests/app/commands/small_run.h"
#include "tests/app/run_binary.h"

namespace foretrain {
namespace {

TEST(Help, ExamplesOfForecastsExitWithSuccess) {
  const TemporaryFolder folder;
  int examples = 0;
  for (const std::string command : {"plan", "sweep", "predict", "presets", "fit"}) {
    std::istringstream help(RunForetrain(folder.path(), command + " --help").output);
    for (std::string line; std::getline(help, line);) {
      const std::string start = "  foretrain ";
      if (!line.starts_with(start)) continue;
      const std::string example = line.substr(start.size());
      const ProgramEnd end = RunForetrain(folder.path(), example);
      EXPECT_EQ(end.code, 0) << example << "\n" << end.errors;
      ++examples;
    }
  }
  EXPECT_GE(examples, 8);
}

TEST(Demo, WritesIntoItsFolderAlone) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; text.size() < 20000; ++i) text += "line " + std::to_string(i % 97) + "\n";
  folder.Write("text.txt", text);
  ASSERT_EQ(RunForetrain(folder.path(), "calibrate --seconds 1 --out rates.json").code, 0);
  const ProgramEnd demo =
      RunForetrain(folder.path(), "demo --json --device-profile rates.json --data text.txt");
  ASSERT_EQ(demo.code, 0) << demo.errors;
  EXPECT_GT(LastLine(demo.output).at("measured").at("step_time_s").get<double>(), 0);
  // RunCommand keeps each command's output in files of its own.
  EXPECT_EQ(RunCommand(folder.path(), "ls -I stdout -I stderr").output,
            "foretrain-demo\nrates.json\ntext.txt\n");
  EXPECT_THAT(RunCommand(folder.path(), "ls foretrain-demo").output,
              testing::HasSubstr("foretrain.db\n"));
}

}  // namespace
}  // namespace foretrain
