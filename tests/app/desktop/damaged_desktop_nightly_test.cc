// Opens five hundred damaged stores in the desktop, and kills desktops while they read. Slow: each
// store is shown in every view, and each kill starts the program. FORETRAIN_DESKTOP_KILLS sets the
// number of kills.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#if FORETRAIN_HAVE_UI
#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/app/commands/small_run.h"
#include "tests/app/desktop/long_store.h"
#include "tests/app/desktop/store_desktop.h"

namespace foretrain {
namespace {

int Kills() {
  const char* asked = std::getenv("FORETRAIN_DESKTOP_KILLS");
  return asked == nullptr ? 20 : std::max(1, std::atoi(asked));
}

TEST_F(DamagedStores, AreToldFiveHundredTimes) { ExpectEachIsTold(1'000, 500); }

TEST(KilledDesktop, LeavesTheStoreAsItWas) {
  const TemporaryFolder folder;
  const LongStore store = MakeLongStore(folder, 1'500'000);
  ASSERT_FALSE(HasFailure());
  const auto digest = [&folder] { return RunCommand(folder.path(), "sha256sum long.db").output; };
  const std::string before = digest();
  std::mt19937_64 random(66);
  int killed = 0;
  const int kills = Kills();
  for (int i = 0; i < kills; ++i) {
    const int wait_ms = static_cast<int>(random() % 1500);
    const ProgramEnd end = RunCommand(
        folder.path(),
        "\"$FORETRAIN\" view long.db --view compare --window 10ms..12ms --screenshot view.png "
        ">/dev/null 2>&1 & program=$!; sleep " +
            std::to_string(wait_ms / 1000) + "." + std::to_string(1000 + wait_ms % 1000).substr(1) +
            "; kill -KILL $program && echo killed; wait $program 2>/dev/null; true");
    killed += end.output.find("killed") != std::string::npos ? 1 : 0;
    ASSERT_EQ(digest(), before) << "killed after " << wait_ms << " ms";
    // Files that a reader leaves next to the store hold no rows.
    ASSERT_EQ(RunCommand(folder.path(), "test ! -s long.db-wal").code, 0);
  }
  EXPECT_GT(killed, kills / 4);
  const ProgramEnd after =
      RunForetrain(folder.path(), "view long.db --view compare --screenshot view.png");
  EXPECT_EQ(after.code, 0) << after.errors;
  EXPECT_EQ(digest(), before);
}

// Desktops read the store into which a run records, and are killed meanwhile.
TEST(KilledDesktop, DisturbsNoRunThatIsRecorded) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder) + "--json --recording required ";
  ASSERT_EQ(RunForetrain(folder.path(), train + "--steps 5").code, 0);
  const int kills = Kills();
  const ProgramEnd end = RunCommand(
      folder.path(),
      "\"$FORETRAIN\" " + train +
          "--steps 100000000 >out 2>err & run=$!; killed=0; "
          "for i in $(seq " +
          std::to_string(kills) +
          "); do "
          "\"$FORETRAIN\" view foretrain.db --screenshot view.png >/dev/null 2>&1 & view=$!; "
          "sleep 0.$((i * 7 % 10)); kill -KILL $view 2>/dev/null && killed=$((killed + 1)); "
          "wait $view 2>/dev/null; kill -0 $run || exit 98; done; "
          "kill -INT $run; wait $run; code=$?; echo $killed; exit $code");
  EXPECT_EQ(end.code, 130) << folder.Read("err");
  EXPECT_GT(std::atoi(end.output.c_str()), kills / 4);
  const nlohmann::json runs = RunsIn(folder);
  ASSERT_EQ(runs.size(), 4U);
  EXPECT_EQ(runs[1].at("status"), "finished");
  EXPECT_EQ(runs[3].at("status"), "interrupted");
  EXPECT_EQ(runs[3].at("dropped"), 0);
  // Each step that was shown is stored, with the spans of both ranks.
  const auto steps = LastLine(folder.Read("out")).at("steps").get<std::int64_t>();
  EXPECT_GT(steps, 0);
  EXPECT_EQ(ValueIn(folder, "SELECT count(*) FROM v_step WHERE run_id = 4"), 2 * steps);
  EXPECT_EQ(IntegrityOf(folder), "ok");
}

}  // namespace
}  // namespace foretrain
#endif
