#include "ui/view_model/runs/model_builder.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <utility>

#include "tests/ui/hand_made.h"
#include "tests/ui/many_spans.h"

namespace foretrain::ui {
namespace {

// 30,000 spans on each side: too many to build within a frame.
std::shared_ptr<const CompareInput> Long() {
  return std::make_shared<const CompareInput>(
      CompareInput{.predicted = ManySpans(30'000, 1), .measured = ManySpans(30'000, 2)});
}

ModelBuilder::Model WaitFor(ModelBuilder& builder) {
  while (builder.IsBusy()) {
    if (auto built = builder.Take()) return *std::move(*built);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return nullptr;
}

TEST(ModelBuilder, IsForRunsOfManySpansAlone) {
  EXPECT_FALSE(TakesLongToBuild(TwoRanks()));
  EXPECT_FALSE(TakesLongToBuild({}));
  EXPECT_TRUE(TakesLongToBuild(*Long()));
}

TEST(ModelBuilder, BuildsWhatWasAskedForLast) {
  ModelBuilder builder;
  EXPECT_FALSE(builder.IsBusy());
  EXPECT_FALSE(builder.Take().has_value());
  const auto input = Long();
  const CompareFacts facts = FactsOf(*input);
  builder.Ask(input, facts, {.alignment = Alignment::kWarp});
  builder.Ask(input, facts, {.alignment = Alignment::kWallClock, .rows = LaneRows::kQueues});
  const auto model = WaitFor(builder);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->options.alignment, Alignment::kWallClock);
  const CompareModel same = BuildCompareModel(*input, facts, model->options);
  EXPECT_EQ(model->lanes.size(), same.lanes.size());
  EXPECT_EQ(model->extent.end_ns, same.extent.end_ns);
  EXPECT_FALSE(builder.IsBusy());
}

TEST(ModelBuilder, DropsWhatWasCancelledAndKeepsItsInputUntilThen) {
  ModelBuilder builder;
  auto input = Long();
  builder.Ask(input, FactsOf(*input), {});
  input.reset();
  builder.Cancel();
  EXPECT_FALSE(builder.IsBusy());
  EXPECT_FALSE(builder.Take().has_value());
  input = Long();
  builder.Ask(input, FactsOf(*input), {.rows = LaneRows::kQueues});
  EXPECT_EQ(WaitFor(builder)->options.rows, LaneRows::kQueues);
}

}  // namespace
}  // namespace foretrain::ui
