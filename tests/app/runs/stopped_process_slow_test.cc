// A rank whose process is stopped says nothing and closes nothing: the time-out ends the run. Slow:
// the time-out must be longer than a busy machine takes to start a process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/app/commands/small_run.h"
#include "tests/app/run_binary.h"
#include "tests/app/runs/pair.h"

namespace foretrain {
namespace {

TEST(StoppedProcess, EndsTheOthersInTimeAndByName) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder) + "--json --steps 1000000 --timeout 20s ";
  const ProgramEnd end =
      RunCommand(folder.path(), Pair(train + "|| { code=$?; touch ended; (exit $code); }", train,
                                     std::string(kAfterAStep) +
                                         "touch stopped; kill -STOP $other; n=0; until [ -e ended "
                                         "] || [ $((n += 1)) -gt 600 ]; do sleep 0.1; done; "
                                         "kill -KILL $other) & "));
  EXPECT_EQ(folder.Read("codes"), "3 137\n") << end.errors;
  EXPECT_THAT(end.errors, testing::HasSubstr("rank 1"));
  const auto time = [&folder](const char* name) {
    return std::filesystem::last_write_time(folder.path() + "/" + name);
  };
  ASSERT_FALSE(folder.Read("codes").empty());
  // The time-out, a second, and what a busy machine adds.
  EXPECT_LE(time("ended") - time("stopped"), std::chrono::seconds(30));
  const nlohmann::json runs = RunsIn(folder);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[1].at("status"), "failed");
}

}  // namespace
}  // namespace foretrain
