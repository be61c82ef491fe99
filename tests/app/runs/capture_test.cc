// Which parts of a run are recorded: --capture and the window of steps and ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/app/commands/small_run.h"

namespace foretrain {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Capture, KeepsTheStepsAndRanksOfTheWindowAlone) {
  const TemporaryFolder folder;
  const ProgramEnd train =
      RunForetrain(folder.path(), SmallTraining(folder) +
                                      "--json --steps 9 --profile-step-start 3 "
                                      "--profile-step-end 6 --profile-ranks 1");
  ASSERT_EQ(train.code, 0) << train.errors;
  for (const char* view : {"v_span", "v_step"}) {
    const std::string of = std::string("FROM ") + view + " WHERE run_id = 2";
    EXPECT_GT(ValueIn(folder, "SELECT count(*) " + of), 0) << view;
    EXPECT_EQ(ValueIn(folder, "SELECT min(step) " + of), 3) << view;
    EXPECT_EQ(ValueIn(folder, "SELECT max(step) " + of), 5) << view;
    EXPECT_EQ(ValueIn(folder, "SELECT min(rank) " + of), 1) << view;
  }
  // All recorded steps have the same number of spans: the window cuts between steps.
  EXPECT_EQ(ValueIn(folder,
                    "SELECT count(DISTINCT n) FROM (SELECT count(*) AS n FROM v_span "
                    "WHERE run_id = 2 GROUP BY step)"),
            1);
  // The losses of all steps are recorded.
  EXPECT_EQ(ValueIn(folder, "SELECT count(*) FROM v_counter WHERE run_id = 2 AND name = 'loss'"),
            9);
  // Three of the steps after the first are recorded and five are not.
  const nlohmann::json result = LastLine(train.output);
  EXPECT_GT(result.at("recorded_step_s").get<double>(), 0);
  EXPECT_GT(result.at("unrecorded_step_s").get<double>(), 0);
  EXPECT_EQ(ValueIn(folder,
                    "SELECT count(*) FROM v_metric WHERE run_id = 2 AND name IN "
                    "('recording_share', 'recorded_step_s', 'unrecorded_step_s')"),
            3);
}

TEST(Capture, TakesMemoryWithinTheWindowWithAllThatIsLiveAtItsStart) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder) + "--steps 6 ";
  ASSERT_EQ(RunForetrain(folder.path(), train).code, 0);
  ASSERT_EQ(RunForetrain(folder.path(), train + "--profile-step-start 2 --profile-step-end 4").code,
            0);
  // Runs 2 and 4 are the measured ones. Parameters never change: a run has one sample of them per
  // rank, and so does the window.
  const auto parameters = [&](int run) {
    return ValueIn(folder,
                   "SELECT sum(bytes) FROM v_memory WHERE category = 'parameters' AND run_id = " +
                       std::to_string(run));
  };
  EXPECT_GT(parameters(2), 0);
  EXPECT_EQ(parameters(4), parameters(2));
  const auto peak = [&](int run) {
    return ValueIn(folder,
                   "SELECT value FROM v_metric WHERE name = 'peak_device_bytes' AND rank = -1 AND "
                   "run_id = " +
                       std::to_string(run));
  };
  // Tokens and targets of the next sample, 4 bytes each, may be loaded before or after the peak.
  constexpr std::int64_t kNextSample = 2 * 16 * 4;
  EXPECT_THAT(peak(4) - peak(2), testing::AnyOf(-kNextSample, 0, kNextSample));
  EXPECT_EQ(ValueIn(folder,
                    "SELECT count(*) FROM v_memory m WHERE run_id = 4 AND time_ns > "
                    "(SELECT max(end_ns) FROM v_step WHERE run_id = 4)"),
            0);
}

TEST(Capture, OfLaunchesKeepsOpsButNoMemory) {
  const TemporaryFolder folder;
  const ProgramEnd train =
      RunForetrain(folder.path(), SmallTraining(folder) + "--steps 3 --capture launches");
  ASSERT_EQ(train.code, 0) << train.errors;
  EXPECT_THAT(train.output, HasSubstr("recording"));
  EXPECT_GT(ValueIn(folder, "SELECT count(*) FROM v_span WHERE run_id = 2"), 0);
  EXPECT_EQ(ValueIn(folder, "SELECT count(*) FROM v_memory WHERE run_id = 2"), 0);
  const ProgramEnd analyze = RunForetrain(folder.path(), "analyze");
  EXPECT_EQ(analyze.code, 0) << analyze.errors;
  EXPECT_THAT(analyze.output, HasSubstr("--capture launches"));
  const ProgramEnd compare = RunForetrain(folder.path(), "compare");
  EXPECT_EQ(compare.code, 0) << compare.errors;
}

TEST(Capture, ComparesTheRanksThatWereRecorded) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder) + "--steps 5 --profile-ranks 0";
  ASSERT_EQ(RunForetrain(folder.path(), train).code, 0);
  const ProgramEnd compare = RunForetrain(folder.path(), "compare");
  EXPECT_EQ(compare.code, 0) << compare.errors;
  EXPECT_THAT(compare.output, HasSubstr("1 of 2 ranks were recorded"));
  EXPECT_THAT(compare.output, Not(HasSubstr("only in")));
  EXPECT_EQ(RunForetrain(folder.path(), "analyze").code, 0);
}

TEST(Capture, RefusesAWindowOfNothing) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder) + "--steps 4 ";
  for (const auto& [options, says] :
       {std::pair{"--profile-step-start 4", "--profile-step-start"},
        std::pair{"--profile-step-start 2 --profile-step-end 2", "--profile-step-end"},
        std::pair{"--profile-ranks 2", "--profile-ranks"},
        std::pair{"--profile-ranks 0,,1", "--profile-ranks"},
        std::pair{"--capture off --profile-ranks 0", "--capture off records nothing"},
        std::pair{"--capture off --sample-counters 1ms", "--capture off records nothing"},
        std::pair{"--sample-counters 10us", "outside 100us to 1s"},
        std::pair{"--sample-counters 1ms", "train with --device cuda"}}) {
    const ProgramEnd end = RunForetrain(folder.path(), train + options);
    EXPECT_EQ(end.code, 2) << options;
    EXPECT_THAT(end.errors, HasSubstr(says)) << options;
  }
}

}  // namespace
}  // namespace foretrain
