#include "ui/view_model/ranks/rank_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "tests/ui/hand_made.h"

namespace foretrain::ui {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// Four ranks, one step: 100 ns of products, then 50 ns of attention, or 80 ns on rank 2. Each sends
// 600 bytes in 30 ns, rank 1 in 60 ns. All wait for rank 2.
RunView FourRanks(bool slow) {
  std::vector<Span> spans;
  RunView run;
  for (int rank = 0; rank < 4; ++rank) {
    const std::int64_t attention = slow && rank == 2 ? 80 : 50;
    spans.push_back(ComputeSpan({.rank = rank}, 0, 100));
    spans.push_back(
        ComputeSpan({.rank = rank, .op = 1}, 100, 100 + attention, OpClass::kAttention));
    Span send = SendSpan({.rank = rank, .op = 2}, 0, slow && rank == 1 ? 60 : 30);
    send.bytes = 600;
    spans.push_back(send);
  }
  run = RunOfSpans(std::move(spans));
  run.is_measurement = slow;
  return run;
}

struct Table {
  CompareInput input;
  CompareModel model;
  RankMap map;
  std::vector<RankEntry> entries;
};

std::unique_ptr<Table> TableOf(CompareInput input, RankMetric metric) {
  auto table = std::make_unique<Table>();
  table->input = std::move(input);
  table->model = ModelOf(table->input);
  table->map = MakeRankMap(table->model.recorded.Of(table->model.Shown()), metric);
  table->entries = RankTableOf(table->model, table->map, 0.0, 10);
  return table;
}

TEST(RankTable, BeginsWithTheRankThatDiffersMostAndSaysWhy) {
  const auto table =
      TableOf({.predicted = FourRanks(false), .measured = FourRanks(true)}, RankMetric::kCompute);
  ASSERT_THAT(table->entries, SizeIs(4));
  const RankEntry& worst = table->entries[0];
  EXPECT_EQ(worst.rank, 2);
  EXPECT_EQ(worst.median, 180.0);
  EXPECT_EQ(worst.others, 150.0);
  EXPECT_DOUBLE_EQ(worst.Excess(), 0.2);
  EXPECT_TRUE(worst.straggler);
  EXPECT_EQ(worst.forecast, 150.0);
  EXPECT_EQ(worst.cause, "attention 30.0 ns longer");
  EXPECT_EQ(worst.compute_ns, 180.0);
  EXPECT_EQ(worst.wait_ns, 0.0);
  EXPECT_FALSE(table->entries[1].straggler);
  EXPECT_EQ(table->entries[1].cause, "");
}

TEST(RankTable, NamesAClockThatIsLowerAndThrottling) {
  RunView run = FourRanks(true);
  std::vector<Counter> counters;
  for (int rank = 0; rank < 4; ++rank) {
    counters.push_back({"gpu_sm_clock_hz", rank, -1, 0, rank == 2 ? 1.41e9 : 1.98e9});
    counters.push_back({"gpu_sm_clock_hz", rank, -1, 200, rank == 2 ? 1.41e9 : 1.98e9});
    counters.push_back({"gpu_throttle_reasons", rank, -1, 0, rank == 2 ? 4.0 : 0.0});
    counters.push_back({"gpu_throttle_reasons", rank, -1, 200, 0.0});
  }
  run.gpu_counters = std::make_shared<const std::vector<GpuCounter>>(GpuCountersOf(counters));
  const auto table = TableOf({.measured = std::move(run)}, RankMetric::kCompute);
  EXPECT_EQ(table->entries[0].cause,
            "attention 30.0 ns longer, clock 1.41 GHz against 1.98 GHz, "
            "throttled 100.0 % of the step");
}

TEST(RankTable, SaysWhereARankRunsAndForHowManyItStands) {
  RunView run = RunOfSpans({ComputeSpan({.rank = 0}, 0, 10), ComputeSpan({.rank = 11}, 0, 10)});
  run.stands_for_rank = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11};
  RunSetting setting;
  setting.cluster.nodes = 2;
  setting.cluster.devices_per_node = 8;
  run.setting = std::make_shared<const RunSetting>(setting);
  const auto table = TableOf({.predicted = std::move(run)}, RankMetric::kStepTime);
  ASSERT_THAT(table->entries, SizeIs(2));
  EXPECT_EQ(table->entries[0].place, "node 0, GPU 0");
  EXPECT_EQ(table->entries[0].stands_for, 11);
  EXPECT_EQ(table->entries[1].place, "node 1, GPU 3");
  EXPECT_EQ(table->entries[1].cause, "");
}

TEST(RankTable, TellsWhichMemoryIsMore) {
  RunView run = FourRanks(true);
  for (int rank = 0; rank < 4; ++rank) {
    run.timeline.memory.push_back({0, rank == 3 ? 5 << 20 : 1 << 20,
                                   static_cast<std::int16_t>(rank), Category::kActivations,
                                   Space::kDevice});
  }
  SortTimeline(run.timeline);
  const auto table = TableOf({.measured = std::move(run)}, RankMetric::kPeakMemory);
  EXPECT_EQ(table->entries[0].rank, 3);
  EXPECT_EQ(table->entries[0].cause, "4.00 MiB more activations");
}

// 600 bytes in 30 ns are 20 GB/s, and 10 GB/s on rank 1; four ranks together 2,400 bytes in 150 ns.
TEST(LinkTable, HasRatesOfBothRunsAndTheSlowestRank) {
  const auto table =
      TableOf({.predicted = FourRanks(false), .measured = FourRanks(true)}, RankMetric::kStepTime);
  const std::vector<LinkRow> links = LinkTableOf(table->model);
  ASSERT_THAT(links, SizeIs(1));
  EXPECT_EQ(links[0].op_class, OpClass::kPpComm);
  EXPECT_EQ(links[0].bytes, 600.0);
  EXPECT_NEAR(*links[0].bytes_per_s[Index(Side::kPredicted)], 20e9, 1.0);
  EXPECT_NEAR(*links[0].bytes_per_s[Index(Side::kMeasured)], 16e9, 1.0);
  EXPECT_EQ(links[0].slowest, 1);
  EXPECT_NEAR(links[0].slowest_bytes_per_s, 10e9, 1.0);
  EXPECT_EQ(links[0].reach, "");
}

// Ranks 0 and 1 are on one node, 2 and 3 on another.
TEST(LinkTable, SaysWhetherAGroupLeavesItsNode) {
  RunView run = FourRanks(true);
  RunSetting setting;
  setting.cluster.nodes = 2;
  setting.cluster.devices_per_node = 2;
  run.setting = std::make_shared<const RunSetting>(setting);
  run.groups.of[static_cast<std::size_t>(Queue::kSendNext)] = {0, 0, 1, 1};
  const auto inside = TableOf({.measured = run}, RankMetric::kStepTime);
  EXPECT_EQ(LinkTableOf(inside->model).at(0).reach, "inside a node");
  run.groups.of[static_cast<std::size_t>(Queue::kSendNext)] = {0, 1, 0, 1};
  const auto between = TableOf({.measured = std::move(run)}, RankMetric::kStepTime);
  EXPECT_EQ(LinkTableOf(between->model).at(0).reach, "between nodes");
}

TEST(RankSeries, HoldsARankTheMedianAndTheHighest) {
  RankMap map;
  map.ranks = {0, 1, 2};
  map.steps = {0, 1};
  map.counted = {false, true};
  map.values = {500, 10, 500, 12, std::nan(""), 20};
  const RankSeries series = RankSeriesOf(map, 1);
  EXPECT_THAT(series.chosen, ElementsAre(500, 12));
  EXPECT_THAT(series.medians, ElementsAre(500, 12));
  EXPECT_THAT(series.highest, ElementsAre(500, 20));
  // The counted step, with a twentieth of room: 12 to 20.
  EXPECT_DOUBLE_EQ(series.low, 11.6);
  EXPECT_DOUBLE_EQ(series.high, 20.4);
  EXPECT_TRUE(std::isnan(RankSeriesOf(map, 7).chosen[0]));
}

TEST(RankTable, IsEmptyWithoutARun) {
  const CompareInput none;
  const CompareModel model = ModelOf(none);
  EXPECT_THAT(RankTableOf(model, RankMap{}, 0.0, 3), IsEmpty());
  EXPECT_THAT(LinkTableOf(model), IsEmpty());
}

}  // namespace
}  // namespace foretrain::ui
