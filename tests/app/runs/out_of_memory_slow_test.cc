// A run that Linux kills because its group of processes is out of memory. Slow: it waits for a step
// and for the kill.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/app/commands/small_run.h"

namespace foretrain {
namespace {

using testing::MatchesRegex;

// The run asks to be the first to die, and another program of its group takes all memory. Groups
// are those of either version of cgroup.
constexpr const char* kScript = R"(
for root in /sys/fs/cgroup/memory /sys/fs/cgroup; do
  group=$root/foretrain-test-$$
  mkdir $group || continue
  echo 512M >$group/memory.limit_in_bytes || echo 512M >$group/memory.max && break
  rmdir $group; group=
done 2>/dev/null
[ -n "$group" ] && [ -d $group ] || exit 99
sh -c 'echo $$ >'$group'/cgroup.procs && echo 1000 >/proc/self/oom_score_adj && exec "$0" "$@"' \
  "$FORETRAIN" ARGUMENTS >out & run=$!
tries=0
until grep -q '"step"' out || [ $((tries += 1)) -gt 600 ]; do sleep 0.1; done
sh -c 'echo $$ >'$group'/cgroup.procs && exec tail /dev/zero' & hog=$!
wait $run; code=$?
kill -KILL $hog; wait $hog
rmdir $group
exit $code
)";

TEST(RunOutOfMemory, IsShownAsInterruptedWithItsStepAndMemory) {
  const TemporaryFolder folder;
  std::string script = kScript;
  script.replace(script.find("ARGUMENTS"), 9, SmallTraining(folder) + "--json --steps 100000000");
  folder.Write("kill.sh", script);
  const ProgramEnd end = RunCommand(folder.path(), "exec bash kill.sh");
  if (end.code == 99)
    GTEST_SKIP() << "needs the right to create a cgroup with a memory limit; runs as root on Linux";
  ASSERT_EQ(end.code, 128 + 9) << end.errors;
  const nlohmann::json runs = RunsIn(folder);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].at("status"), "finished");
  EXPECT_EQ(runs[1].at("status"), "interrupted");
  EXPECT_THAT(runs[1].at("message").get<std::string>(),
              MatchesRegex("ended at step [0-9]+, [0-9.]+ MiB resident: process .*"));
  EXPECT_GT(ValueIn(folder, "SELECT count(*) FROM v_span WHERE run_id = 2"), 0);
  EXPECT_EQ(IntegrityOf(folder), "ok");
}

}  // namespace
}  // namespace foretrain
