#include "profiler/activity_join.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

namespace foretrain {
namespace {

FtActivity Of(FtActivityKind kind, std::uint64_t correlation, std::int64_t start_ns = 0,
              std::int64_t end_ns = 0) {
  FtActivity activity{};
  activity.kind = kind;
  activity.correlation = correlation;
  activity.start_ns = start_ns;
  activity.end_ns = end_ns;
  activity.op_id = -1;
  return activity;
}
FtActivity Kernel(std::uint64_t correlation, std::int64_t start_ns, std::int64_t end_ns,
                  std::uint64_t node = 0) {
  FtActivity activity = Of(FT_ACTIVITY_KERNEL, correlation, start_ns, end_ns);
  activity.graph_node = node;
  activity.name = "gemm";
  return activity;
}
FtActivity Tag(std::uint64_t correlation, OpId op, std::int32_t step, std::int32_t rank) {
  FtActivity activity = Of(FT_ACTIVITY_TAG, correlation);
  activity.op_id = op;
  activity.step = step;
  activity.rank = rank;
  return activity;
}
FtActivity Node(std::uint64_t node, OpId op, std::int32_t rank) {
  FtActivity activity = Of(FT_ACTIVITY_GRAPH_NODE, 0);
  activity.op_id = op;
  activity.graph_node = node;
  activity.rank = rank;
  return activity;
}

std::vector<OwnedActivity> Settled(ActivityJoin& join, bool last = false) {
  std::vector<OwnedActivity> out;
  join.Settle(out, last);
  return out;
}

TEST(ActivityJoin, FindsTheOpWhicheverRecordComesFirst) {
  for (const bool tag_first : {true, false}) {
    ActivityJoin join;
    if (tag_first) join.Add(Tag(7, 100, 3, 1));
    join.Add(Kernel(7, 10, 30));
    if (!tag_first) join.Add(Tag(7, 100, 3, 1));
    const auto out = Settled(join);
    ASSERT_EQ(out.size(), 1U);
    EXPECT_EQ(out[0].owner, (ActivityOwner{100, 3, 1}));
    EXPECT_EQ(join.counts().Coverage(), 1.0);
  }
}

TEST(ActivityJoin, WaitsForATagThatComesInALaterBuffer) {
  ActivityJoin join(/*rounds=*/3);
  join.Add(Kernel(7, 10, 30));
  EXPECT_TRUE(Settled(join).empty());
  EXPECT_TRUE(Settled(join).empty());
  join.Add(Tag(7, 100, 3, 0));
  const auto out = Settled(join);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].owner->op, 100);
}

TEST(ActivityJoin, CountsWorkWhoseOpIsNeverTold) {
  ActivityJoin join(/*rounds=*/2);
  join.Add(Kernel(7, 10, 40));  // 30 ns without an op
  join.Add(Tag(8, 100, 0, 0));
  join.Add(Kernel(8, 50, 60));  // 10 ns with one
  EXPECT_EQ(Settled(join).size(), 1U);
  const auto out = Settled(join);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_FALSE(out[0].owner.has_value());
  EXPECT_EQ(join.counts().records, 2);
  EXPECT_EQ(join.counts().unknown, 1);
  EXPECT_DOUBLE_EQ(join.counts().Coverage(), 10.0 / 40.0);
}

TEST(ActivityJoin, TakesCorrelationZeroForNone) {
  ActivityJoin join;
  join.Add(Tag(0, 100, 0, 0));
  join.Add(Kernel(0, 10, 20));
  const auto out = Settled(join, /*last=*/true);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_FALSE(out[0].owner.has_value());
}

TEST(ActivityJoin, CountsRecordsWithoutAUsableTimeAndDrawsNone) {
  ActivityJoin join;
  join.Add(Tag(7, 100, 0, 0));
  join.Add(Kernel(7, 0, 0));
  join.Add(Kernel(7, 50, 40));
  join.Add(Kernel(7, 50, 50));  // length 0 is valid
  EXPECT_EQ(Settled(join, true).size(), 1U);
  EXPECT_EQ(join.counts().records, 3);
  EXPECT_EQ(join.counts().invalid, 2);
}

// A launch of a graph has one correlation for all its nodes. The node tells the op, and the
// launch's tag the step.
TEST(ActivityJoin, TellsTheNodesOfAGraphApart) {
  ActivityJoin join;
  join.Add(Node(1, 100, 2));
  join.Add(Node(2, 200, 2));
  for (const std::int32_t step : {5, 6}) {
    const auto launch = static_cast<std::uint64_t>(step);
    join.Add(Tag(launch, 999, step, 2));
    join.Add(Kernel(launch, 10, 20, 1));
    join.Add(Kernel(launch, 20, 30, 2));
  }
  join.Add(Kernel(6, 40, 50, 3));  // a node created outside any op belongs to the graph
  const auto out = Settled(join);
  ASSERT_EQ(out.size(), 5U);
  EXPECT_EQ(out[0].owner, (ActivityOwner{100, 5, 2}));
  EXPECT_EQ(out[1].owner, (ActivityOwner{200, 5, 2}));
  EXPECT_EQ(out[2].owner, (ActivityOwner{100, 6, 2}));
  EXPECT_EQ(out[3].owner, (ActivityOwner{200, 6, 2}));
  EXPECT_EQ(out[4].owner, (ActivityOwner{999, 6, 2}));
}

TEST(ActivityJoin, SumsLaunchesWaitsAndWhatRecordingTook) {
  ActivityJoin join;
  join.Add(Tag(7, 100, 0, 0));
  join.Add(Tag(8, 100, 0, 0));
  // Call 7 as recorded by the driver and by the runtime, call 8, and a call for no op.
  for (const auto& [kind, correlation, start, end] :
       {std::tuple{FT_ACTIVITY_LAUNCH, 7U, 11, 14}, std::tuple{FT_ACTIVITY_LAUNCH, 7U, 10, 15},
        std::tuple{FT_ACTIVITY_LAUNCH, 8U, 20, 27}, std::tuple{FT_ACTIVITY_LAUNCH, 9U, 40, 41},
        std::tuple{FT_ACTIVITY_WAIT, 7U, 30, 100}, std::tuple{FT_ACTIVITY_OVERHEAD, 7U, 5, 8}}) {
    join.Add(Of(kind, correlation, start, end));
  }
  const ActivityCounts& counts = join.counts();
  EXPECT_EQ(counts.launches, 3);
  EXPECT_EQ(counts.launch_ns, 5 + 7 + 1);
  EXPECT_EQ(counts.waits, 1);
  EXPECT_EQ(counts.wait_ns, 70);
  EXPECT_EQ(counts.overhead_ns, 3);
  EXPECT_EQ(counts.records, 0);
  EXPECT_EQ(Settled(join, true).size(), 3U);  // launches with an op
  EXPECT_EQ(counts.device_ns, 0);
}

TEST(ActivityJoin, KeepsTheNewestTags) {
  ActivityJoin join(/*rounds=*/1, /*max_tags=*/2);
  for (const std::uint64_t correlation : {1U, 2U, 3U}) join.Add(Tag(correlation, 100, 0, 0));
  for (const std::uint64_t correlation : {1U, 2U, 3U}) join.Add(Kernel(correlation, 10, 20));
  const auto out = Settled(join);
  ASSERT_EQ(out.size(), 3U);
  EXPECT_FALSE(out[0].owner.has_value());
  EXPECT_TRUE(out[1].owner.has_value());
  EXPECT_TRUE(out[2].owner.has_value());
}

TEST(ActivityJoin, AddsKernelsUpByName) {
  ActivityJoin join;
  const std::string copy = "gemm";  // the same text elsewhere in memory
  FtActivity other = Kernel(2, 100, 103);
  other.name = copy.c_str();
  join.Add(Kernel(1, 10, 15));
  join.Add(other);
  const KernelTable kernels = join.Kernels();
  ASSERT_EQ(kernels.rows.size(), 1U);
  EXPECT_EQ(kernels.rows[0], (KernelRow{"gemm", {}, 2, 8}));
}

TEST(ActivityJoin, KeepsLaunchesApartAndKnowsTheOpsTheyAreFor) {
  ActivityJoin join;
  FtActivity small = Kernel(1, 10, 15), large = Kernel(2, 20, 30);
  small.launch.grid[0] = 8;
  small.launch.block[0] = 64;
  small.launch.registers = 40;
  large.launch = {.grid = {64, 2, 1},
                  .block = {128, 1, 1},
                  .registers = 168,
                  .static_shared_bytes = 16,
                  .dynamic_shared_bytes = 512};
  join.Add(small);
  join.Add(large);
  join.Add(Tag(1, 100, 0, 0));
  join.Add(Tag(2, 100, 0, 0));
  large.correlation = 3;
  join.Add(large);  // for no op
  Settled(join, /*last=*/true);
  const KernelTable kernels = join.Kernels();
  ASSERT_EQ(kernels.rows.size(), 2U);
  EXPECT_EQ(kernels.rows[0].launch.registers, 40);
  EXPECT_EQ(kernels.rows[0].calls, 1);
  EXPECT_EQ(kernels.rows[1].launch, (KernelLaunch{{64, 2, 1}, {128, 1, 1}, 168, 16, 512}));
  EXPECT_EQ(kernels.rows[1].calls, 2);
  ASSERT_EQ(kernels.ops.size(), 1U);
  EXPECT_EQ(kernels.ops.begin()->second, (std::vector<std::uint32_t>{0, 1}));
}

}  // namespace
}  // namespace foretrain
