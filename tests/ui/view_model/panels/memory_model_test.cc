#include "ui/view_model/panels/memory_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ui/hand_made.h"

namespace foretrain::ui {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

MemorySample Sample(std::int64_t time_ns, std::int64_t bytes, int rank, Category category,
                    Space space = Space::kDevice) {
  return {time_ns, bytes, static_cast<std::int16_t>(rank), category, space};
}

// Rank 0: 100 B of parameters and at most 50 B of activations forecast, 110 and 80 measured; the
// parameters exist before the step. Rank 1: 30 B, and 500 B on the host.
CompareInput WithMemory() {
  CompareInput input = TwoRanks();
  input.predicted->timeline.memory = {Sample(0, 100, 0, Category::kParameters),
                                      Sample(100, 50, 0, Category::kActivations),
                                      Sample(150, 20, 0, Category::kActivations)};
  input.measured->timeline.memory = {
      Sample(900, 110, 0, Category::kParameters), Sample(1120, 80, 0, Category::kActivations),
      Sample(1200, 0, 0, Category::kActivations), Sample(900, 30, 1, Category::kParameters),
      Sample(900, 500, 1, Category::kOptimizerState, Space::kHost)};
  for (RunView* run : {&*input.predicted, &*input.measured}) SortTimeline(run->timeline);
  return input;
}

MemoryModel MemoryOf(const CompareInput& input, std::optional<int> rank = std::nullopt,
                     std::optional<Space> space = std::nullopt) {
  return BuildMemoryModel(SidesOf(input, FactsOf(input)), rank, space);
}

TEST(MemoryModel, TellsWhatIsLiveAtThePeakOfTheFullestRank) {
  CompareInput input = WithMemory();
  input.measured->device_bytes = 200;
  const MemoryModel model = MemoryOf(input);
  EXPECT_EQ(model.rank, 0);
  EXPECT_EQ(model.Peak(Side::kPredicted).total_bytes, 150);
  EXPECT_EQ(model.Peak(Side::kMeasured).total_bytes, 190);
  EXPECT_EQ(model.Peak(Side::kMeasured).time_ns, 1120);
  ASSERT_THAT(model.rows, SizeIs(2));
  EXPECT_EQ(model.rows[0].category, Category::kParameters);
  EXPECT_EQ(model.rows[0].ErrorBytes(), 10);
  EXPECT_EQ(model.rows[1].category, Category::kActivations);
  EXPECT_EQ(model.rows[1].ErrorBytes(), 30);
  EXPECT_EQ(model.HeadroomBytes(), 10);
  // Both peaks are reached while rank 0's second micro-batch runs.
  EXPECT_EQ(model.at_peak[0], "mlp, forward layer 1 mb 1");
  EXPECT_EQ(model.at_peak[1], "mlp, forward layer 1 mb 1");
  EXPECT_THAT(model.notices, IsEmpty());
}

// A memory snapshot: samples and steps, and no span.
TEST(MemoryModel, ShowsARunOfMemoryAlone) {
  CompareInput input = WithMemory();
  input.predicted.reset();
  input.measured->timeline.spans.clear();
  const MemoryModel model = MemoryOf(input);
  EXPECT_EQ(model.rank, 0);
  EXPECT_EQ(model.Peak(Side::kMeasured).total_bytes, 190);
  EXPECT_THAT(model.ranks, SizeIs(2));
  EXPECT_THAT(model.at_peak[1], IsEmpty());
  EXPECT_THAT(model.notices, IsEmpty());
}

TEST(MemoryModel, ShowsTheRankAndTheSpaceThatAreAskedFor) {
  const CompareInput input = WithMemory();
  ASSERT_THAT(MemoryOf(input).ranks, SizeIs(2));
  const MemoryModel model = MemoryOf(input, 1, Space::kHost);
  EXPECT_EQ(model.rank, 1);
  EXPECT_THAT(model.spaces, ElementsAre(Space::kDevice, Space::kHost));
  EXPECT_EQ(model.Peak(Side::kMeasured).total_bytes, 500);
  EXPECT_EQ(model.capacity_bytes, std::nullopt);
  EXPECT_FALSE(model.Has(Side::kPredicted));
  EXPECT_EQ(model.rows[0].ErrorBytes(), std::nullopt);
  EXPECT_THAT(model.notices, ElementsAre("The forecast says nothing of this memory."));
  // An unknown rank and space select the fullest rank and the space that it has.
  const MemoryModel other = MemoryOf(input, 9, Space::kNvme);
  EXPECT_EQ(other.rank, 0);
  EXPECT_EQ(other.panel.space, Space::kDevice);
}

TEST(MemoryModel, SaysWhereNothingWasRecorded) {
  const CompareInput input = TwoRanks();
  const MemoryModel model = MemoryOf(input);
  EXPECT_EQ(model.rank, -1);
  EXPECT_THAT(model.rows, IsEmpty());
  EXPECT_THAT(model.notices, ElementsAre("No memory was recorded (--capture full records it)."));
}

TEST(MemoryModel, FindsWhatRunsAtAMoment) {
  const CompareInput input = TwoRanks();
  EXPECT_EQ(WhatRuns(*input.measured, 1, 1120), "mlp, forward layer 2 mb 0");
  EXPECT_EQ(WhatRuns(*input.measured, 1, 1220), "");  // between two ops
  EXPECT_EQ(WhatRuns(*input.measured, 1, 0), "");
  EXPECT_EQ(WhatRuns(*input.measured, 7, 1120), "");
}

}  // namespace
}  // namespace foretrain::ui
