#include "ui/view_model/runs/long_runs.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/ui/hand_made.h"

namespace foretrain {
namespace {

constexpr std::int64_t kStepNs = 10'000;
constexpr std::int64_t kSpanNs = 10;  // one every 20 ns

// Spans of `steps` steps on two ranks, and their sums.
RunView LongRun(int steps) {
  std::vector<Span> spans;
  for (int rank = 0; rank < 2; ++rank) {
    for (std::int64_t at = 0; at < steps * kStepNs; at += 2 * kSpanNs) {
      const Place place{.rank = rank,
                        .step = static_cast<std::int32_t>(at / kStepNs),
                        .op = static_cast<int>(at % kStepNs / (2 * kSpanNs))};
      spans.push_back(ComputeSpan(place, at, at + kSpanNs));
    }
  }
  RunView run = RunOfSpans(std::move(spans));
  SpanSummer summer(static_cast<std::int64_t>(run.timeline.spans.size()));
  for (const Span& span : run.timeline.spans) {
    summer.Add(span.rank, span.queue, span.start_ns, span.end_ns, ui::HueOf(span));
  }
  run.sums = std::make_shared<const SpanSums>(summer.Take());
  return run;
}

// The same with only the spans of `stretches` loaded.
RunView Loaded(RunView run, std::vector<Stretch> stretches) {
  run.loaded = std::move(stretches);
  std::erase_if(run.timeline.spans, [&run](const Span& span) {
    return !run.IsLoaded(static_cast<double>(span.start_ns), static_cast<double>(span.end_ns));
  });
  return run;
}

double SumOf(const std::vector<ui::HueShares>& columns) {
  double sum = 0.0;
  for (const ui::HueShares& shares : columns) {
    sum += std::accumulate(shares.begin(), shares.end(), 0.0);
  }
  return sum;
}

TEST(LongRuns, AreDrawnFromSumsWhereTheyAreNotRead) {
  const CompareInput input{.measured = Loaded(LongRun(4), {{kStepNs, 2 * kStepNs}})};
  const ui::CompareModel model = ModelOf(input);
  ASSERT_EQ(model.lanes.size(), 2U);
  const ui::Row& row = model.lanes[0].rows[1][0];
  // Half of the time is busy; a quarter of it is loaded and left to the spans.
  const ui::TrackWindow window{0.0, 4.0 * kStepNs, 400};
  const auto columns = ui::FoldSums(*input.measured, row, window);
  EXPECT_NEAR(SumOf(columns), 150.0, 1.0);
  EXPECT_EQ(columns[150][static_cast<std::size_t>(ui::Hue::kForward)], 0.0F);
  EXPECT_NEAR(columns[250][static_cast<std::size_t>(ui::Hue::kForward)], 0.5, 0.05);
  const ui::TrackPicture picture = row.tracks[0].Fold(window, 3.0);
  EXPECT_NEAR(SumOf(picture.columns), 50.0, 1.0);
  // The last span starts 20 ns before the end.
  EXPECT_EQ(model.all.end_ns - model.all.start_ns, 4.0 * kStepNs - kSpanNs);
}

TEST(LongRuns, AskForTheStepAndForWhatIsLookedAt) {
  const CompareInput input{.measured = Loaded(LongRun(8), {})};
  const ui::CompareModel model = ModelOf(input, {.measured_step = 3});
  const auto step = ui::PartsToLoad(model, nullptr);
  ASSERT_TRUE(step.has_value());
  const std::vector<Stretch> expected{{3 * kStepNs, 4 * kStepNs - kSpanNs + 1}};
  EXPECT_EQ((*step)[1], expected);
  EXPECT_TRUE((*step)[0].empty());
  // Displayed times are relative to step 3: 100 ns of step 6, and as much again around them.
  const ui::Viewport seen{3.5 * kStepNs, 3.5 * kStepNs + 100};
  const auto both = ui::PartsToLoad(model, &seen);
  ASSERT_TRUE(both.has_value());
  ASSERT_EQ((*both)[1].size(), 2U);
  EXPECT_EQ((*both)[1][1], (Stretch{65'000 - 50, 65'100 + 50 + 1}));
}

TEST(LongRuns, AskForNothingTheyHave) {
  const RunView whole = LongRun(8);
  const CompareInput input{.measured =
                               Loaded(whole, {{3 * kStepNs, 4 * kStepNs}, {60'000, 70'000}})};
  const ui::CompareModel model = ModelOf(input, {.measured_step = 3});
  EXPECT_FALSE(ui::PartsToLoad(model, nullptr).has_value());
  const ui::Viewport seen{3.5 * kStepNs, 3.5 * kStepNs + 100};
  EXPECT_FALSE(ui::PartsToLoad(model, &seen).has_value());
  CompareInput small = TwoRanks();
  EXPECT_FALSE(ui::PartsToLoad(ModelOf(small), &seen).has_value());
}

TEST(LongRuns, KeepMetricsOfTheWholeAndRanksOfTheStepThatIsRead) {
  RunView run = Loaded(LongRun(4), {{kStepNs, 2 * kStepNs}});
  run.stored_metrics = {{-1, -1, "mfu", 0.25}, {-1, -1, "window_s", 1e-5}};
  const Metrics metrics = ui::MetricsOfRun(run);
  EXPECT_EQ(metrics.steps.size(), 4U);
  EXPECT_EQ(metrics.overall->mfu, 0.25);
  ASSERT_EQ(metrics.rank_steps.size(), 2U);
  EXPECT_EQ(metrics.rank_steps[0].step, 1);
  EXPECT_EQ(metrics.rank_steps[0].classes.compute_ns, kStepNs / 2);
}

TEST(LongRuns, SayWhatIsRead) {
  const CompareInput none{.measured = Loaded(LongRun(4), {})};
  const ui::CompareModel reading = ModelOf(none, {.measured_step = 1});
  EXPECT_EQ(ui::DescribeLoading(reading.Of(ui::Side::kMeasured), "measured run"),
            "The measured run has 4000 spans and is drawn from sums of them; those of step 1 are "
            "being read.");
  const CompareInput read{.measured = Loaded(LongRun(4), {{kStepNs, 2 * kStepNs}})};
  const ui::CompareModel model = ModelOf(read, {.measured_step = 1});
  EXPECT_NE(ui::DescribeLoading(model.Of(ui::Side::kMeasured), "measured run")
                .find("step 1, and what you zoom into, is read span by span"),
            std::string::npos);
}

TEST(LongRuns, FindASpanAgainAfterOthersWereRead) {
  const RunView whole = LongRun(4);
  const CompareInput before{.measured = Loaded(whole, {{2 * kStepNs, 3 * kStepNs}})};
  const CompareInput after{.measured = Loaded(whole, {{0, 3 * kStepNs}})};
  const Span span = before.measured->timeline.spans[7];
  const ui::CompareModel model = ModelOf(after);
  const auto found = ui::Locate(model, ui::Side::kMeasured, span);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(model.SpanOf(*found).start_ns, span.start_ns);
  EXPECT_EQ(model.SpanOf(*found).op, span.op);
  EXPECT_NE(found->span, 7U);
  Span other = span;
  other.start_ns += 1;
  EXPECT_FALSE(ui::Locate(model, ui::Side::kMeasured, other).has_value());
}

}  // namespace
}  // namespace foretrain
