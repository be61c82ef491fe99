// `foretrain train --cuda-graphs` by its command line, where there is no device that has graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/app/small_run.h"

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

}  // namespace
}  // namespace foretrain
