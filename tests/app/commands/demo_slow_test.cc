// The demo runs as it is shown. It trains for half a minute.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>

#include "tests/app/commands/small_run.h"
#include "tests/app/run_binary.h"

namespace foretrain {
namespace {

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
