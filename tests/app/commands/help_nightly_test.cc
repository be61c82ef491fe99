// The examples of the forecasting commands' --help run as they are shown: searches of large
// clusters, minutes together.
#include <gtest/gtest.h>

#include <sstream>
#include <string>

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

}  // namespace
}  // namespace foretrain
