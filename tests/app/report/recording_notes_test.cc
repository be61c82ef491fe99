#include "app/runs/recording_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t kSecond = 1'000'000'000;

StoredRun RunOfTenSeconds() {
  StoredRun run;
  run.timeline.steps = {{.start_ns = 2 * kSecond, .end_ns = 12 * kSecond, .step = 4, .rank = 3}};
  return run;
}

TEST(RecordingNotes, AreNoneWhereAllIsWell) {
  EXPECT_THAT(RecordingNotes(RunOfTenSeconds(), 1.0), IsEmpty());
  EXPECT_THAT(RecordingNotes(StoredRun{}, 1.0), IsEmpty());
}

// One reading per second. The power cap holds in four of the window's ten seconds, and always
// before it.
TEST(RecordingNotes, NameAGpuThatWasHeldBack) {
  StoredRun run = RunOfTenSeconds();
  for (std::int64_t second = 0; second < 12; ++second) {
    const bool capped = second < 6;
    run.counters.push_back(
        {"gpu_throttle_reasons", 3, -1, second * kSecond, capped ? double{0x4} : 0.0});
    run.counters.push_back({"gpu_sm_clock_hz", 3, -1, second * kSecond, capped ? 1.41e9 : 1.98e9});
  }
  EXPECT_THAT(RecordingNotes(run, 1.0),
              ElementsAre("rank 3's GPU was power-capped 40.0 % of the window, at 1.41 GHz instead "
                          "of 1.98 GHz"));
}

// Three steps of 10 s; a rank's threads waited for 0.1, 4 and 5 s.
TEST(RecordingNotes, SayThatThreadsWaitedForACore) {
  StoredRun run;
  for (int step = 0; step < 3; ++step) {
    run.timeline.steps.push_back(
        {.start_ns = 10 * step * kSecond, .end_ns = 10 * (step + 1) * kSecond, .step = step});
  }
  run.counters = {{"core_wait_s", -1, 0, 0, 0.1},
                  {"core_wait_s", -1, 1, 0, 4.0},
                  {"core_wait_s", -1, 2, 0, 5.0},
                  {"core_wait_s", -1, 3, 0, 9.0}};
  EXPECT_THAT(
      RecordingNotes(run, 1.0),
      ElementsAre(testing::StartsWith("a rank's threads waited for a core for 40.0 % of a step")));
  run.counters[1].value = 0.2;
  EXPECT_THAT(RecordingNotes(run, 1.0), IsEmpty());
}

TEST(RecordingNotes, BeginWithTheErrorsOfGpus) {
  StoredRun run = RunOfTenSeconds();
  run.info.totals.dropped = 5;
  run.counters = {{"gpu_ecc_corrected", 3, -1, 0, 2.0},
                  {"gpu_ecc_corrected", 3, -1, kSecond, 14.0},
                  {"gpu_xid", 3, -1, kSecond, 64.0}};
  EXPECT_THAT(
      RecordingNotes(run, 1.0),
      ElementsAre(
          "rank 3's GPU reported XID 64: a faulty row of its memory could not be remapped; "
          "reset the GPU, and contact its vendor if this happens again",
          "rank 3's GPU reported 12 memory errors that ECC corrected; nothing is to be done "
          "while they are rare",
          "5 spans were dropped"));
}

TEST(RecordingNotes, SayWhatTheRecordingLacks) {
  StoredRun run = RunOfTenSeconds();
  run.info.totals.dropped = 5;
  run.info.totals.invalid = 2;
  run.notes = {{.text = "the device's work is recorded no further"}};
  EXPECT_THAT(RecordingNotes(run, 0.75),
              ElementsAre("5 spans were dropped", "2 spans have no time and are left out",
                          "25.0 % of the device's time is of no known op",
                          "the device's work is recorded no further"));
}

}  // namespace
}  // namespace foretrain
