// A training run as a child process, with the real program.
#include "app/training/child_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/app/commands/small_run.h"
#include "tests/paths.h"
#include "ui/view_model/runs/run_model.h"

// The desktop's view model reads the lines of a run.
#if FORETRAIN_HAVE_UI

namespace foretrain {
namespace {

using testing::HasSubstr;

constexpr auto kPause = std::chrono::milliseconds(20);
constexpr int kMaxPauses = 6000;  // two minutes, for a busy machine

// The arguments of the small training with absolute paths: a child starts in the folder of the
// tests.
std::vector<std::string> Arguments(const TemporaryFolder& folder, const std::string& more) {
  auto words = ui::SplitWords(SmallTraining(folder) + more + " --json --store " + folder.path() +
                              "/foretrain.db");
  std::replace(words->begin(), words->end(), std::string("text.txt"), folder.path() + "/text.txt");
  return *words;
}

// Takes news until `done` returns true or the run ends.
template <class Done>
void Follow(TrainingProcess& process, ui::RunModel& model, Done done) {
  for (int i = 0; i < kMaxPauses && model.IsGoing() && !done(); ++i) {
    std::this_thread::sleep_for(kPause);
    ui::Take(process.Poll(), model);
  }
}

ui::RunModel Started(const std::string& steps) {
  ui::RunModel model;
  ui::RunForm form;
  form.steps = steps;
  ui::Start(form, model);
  return model;
}

TEST(ChildRun, TrainsAndTellsEachStep) {
  const TemporaryFolder folder;
  auto process = ChildRun::Start(ForetrainBinary(), Arguments(folder, "--steps 4"));
  ASSERT_TRUE(process.has_value()) << process.error().message;
  ui::RunModel model = Started("4");
  Follow(**process, model, [] { return false; });
  EXPECT_EQ(model.phase, ui::RunPhase::kDone) << model.reason;
  ASSERT_EQ(model.log.steps().size(), 4U);
  EXPECT_GT(model.log.steps()[3].tokens_per_s, 0.0);
  EXPECT_TRUE(model.CanCompare());
  EXPECT_EQ(ValueIn(folder,
                    "SELECT count(*) FROM v_run WHERE status = 'finished' AND kind = "
                    "'measured' AND run_id = " +
                        std::to_string(*model.log.run())),
            1);
}

TEST(ChildRun, StopsAtAStepAndKeepsWhatThereIs) {
  const TemporaryFolder folder;
  auto process = ChildRun::Start(ForetrainBinary(), Arguments(folder, "--steps 1000000"));
  ASSERT_TRUE(process.has_value()) << process.error().message;
  ui::RunModel model = Started("1000000");
  Follow(**process, model, [&] { return model.log.steps().size() > 2; });
  ASSERT_TRUE(model.IsGoing()) << model.reason;
  EXPECT_GT(model.peak_resident_bytes, 0);
  (*process)->Stop();
  Follow(**process, model, [] { return false; });
  EXPECT_EQ(model.phase, ui::RunPhase::kStopped) << model.reason;
  EXPECT_TRUE(model.CanCompare());
}

TEST(ChildRun, TellsTheSentenceOfBadInput) {
  const TemporaryFolder folder;
  auto process = ChildRun::Start(ForetrainBinary(),
                                 {"train", "--data", folder.path() + "/missing.txt", "--json"});
  ASSERT_TRUE(process.has_value()) << process.error().message;
  ui::RunModel model = Started("4");
  Follow(**process, model, [] { return false; });
  EXPECT_EQ(model.phase, ui::RunPhase::kFailed);
  EXPECT_THAT(model.reason, HasSubstr("missing.txt"));
}

TEST(ChildRun, TellsASignalApart) {
  auto process = ChildRun::Start("/bin/sh", {"-c", "kill -SEGV $$"});
  ASSERT_TRUE(process.has_value()) << process.error().message;
  ui::RunModel model = Started("4");
  Follow(**process, model, [] { return false; });
  EXPECT_EQ(model.phase, ui::RunPhase::kFailed);
  EXPECT_THAT(model.reason, HasSubstr("SIGSEGV"));
}

TEST(ChildRun, SaysWhyItCannotStart) {
  const auto process = ChildRun::Start("/no/such/program", {"train"});
  ASSERT_FALSE(process.has_value());
  EXPECT_THAT(process.error().message, HasSubstr("/no/such/program: cannot be started"));
}

TEST(ChildRun, EndsWithTheDesktopOnlyWhereAsked) {
  for (const bool ends : {true, false}) {
    const TemporaryFolder folder;
    // The shell's pid is the child's: it keeps running, and records a signal.
    const std::string script = "trap 'echo stopped > " + folder.path() +
                               "/noted; exit 0' INT; i=0; while [ $i -lt 300 ] "
                               "&& [ ! -e " +
                               folder.path() + "/go ]; do echo x > " + folder.path() +
                               "/began; sleep 0.1; i=$((i+1)); done; echo alone > " +
                               folder.path() + "/noted";
    auto process = ChildRun::Start("/bin/sh", {"-c", script});
    ASSERT_TRUE(process.has_value()) << process.error().message;
    for (int i = 0; i < kMaxPauses && folder.Read("began").empty(); ++i) {
      std::this_thread::sleep_for(kPause);
    }
    (*process)->EndsWithDesktop(ends);
    process->reset();
    if (!ends) folder.Write("go", "");
    for (int i = 0; i < kMaxPauses && folder.Read("noted").empty(); ++i) {
      std::this_thread::sleep_for(kPause);
    }
    EXPECT_EQ(folder.Read("noted"), ends ? "stopped\n" : "alone\n");
  }
}

}  // namespace
}  // namespace foretrain

#endif  // FORETRAIN_HAVE_UI
