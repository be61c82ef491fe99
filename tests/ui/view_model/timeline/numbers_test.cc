#include "ui/view_model/timeline/numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/units.h"
#include "tests/ui/hand_made.h"
#include "tests/ui/sample_run.h"
#include "ui/view_model/panels/memory_model.h"
#include "ui/view_model/panels/time_parts.h"

namespace foretrain::ui {
namespace {

const Number* Find(const std::vector<Number>& numbers, std::string_view name) {
  const auto at = std::find_if(numbers.begin(), numbers.end(),
                               [name](const Number& number) { return number.name == name; });
  return at == numbers.end() ? nullptr : &*at;
}

TEST(Numbers, SetMeasuredAgainstPredicted) {
  CompareInput input = TwoRanks();
  input.predicted->metrics.tokens_per_step = 300.0;
  input.measured->metrics.tokens_per_step = 300.0;
  const CompareModel model = ModelOf(input);
  // The longest window: rank 0 runs [0, 200), rank 1 [100, 300): 200 ns; measured 240 and 240.
  const Number* const time = Find(model.numbers, "step time");
  ASSERT_NE(time, nullptr);
  EXPECT_EQ(time->predicted, "200 ns");
  EXPECT_EQ(time->measured, "240 ns");
  EXPECT_EQ(time->error, "+20.0 %");
  EXPECT_EQ(time->tone, Tone::kWorse);
  // 300 tokens in 200 ns: 1.5e9 a second; in 240 ns: 1.25e9, a sixth less.
  const Number* const tokens = Find(model.numbers, "tokens/s");
  ASSERT_NE(tokens, nullptr);
  EXPECT_EQ(tokens->predicted, "1.50 G");
  EXPECT_EQ(tokens->measured, "1.25 G");
  EXPECT_EQ(tokens->error, "-16.7 %");
  EXPECT_EQ(tokens->tone, Tone::kWorse);
  // Both ranks compute all the time in the forecast; measured, rank 1 pauses for 40 of its 240: (0
  // + 1/6) / 2.
  const Number* const idle = Find(model.numbers, "idle");
  ASSERT_NE(idle, nullptr);
  EXPECT_EQ(idle->predicted, "0.0 %");
  EXPECT_EQ(idle->measured, "8.3 %");
  EXPECT_EQ(idle->error, "+8.3 pt");
}

// The same step time and peak as the axis, the bars of the time view and the memory view have.
TEST(Numbers, AreThoseOfTheChosenStep) {
  const CompareInput input = SampleInput({.layers = 4, .micro_batches = 4});
  const std::vector<std::int32_t> steps = ModelOf(input).Of(Side::kMeasured).steps;
  ASSERT_EQ(steps.size(), 3U);
  for (const std::int32_t step : steps) {
    const CompareModel model = ModelOf(input, {.measured_step = step});
    const auto parts = PartsOf(model.recorded, RanksOf(model.recorded));
    ASSERT_TRUE(parts[1].has_value());
    const Number* const time = Find(model.numbers, "step time");
    ASSERT_NE(time, nullptr);
    EXPECT_EQ(time->measured, FormatSeconds(SecondsFromNs(parts[1]->step_ns)));
    EXPECT_EQ(model.Of(Side::kMeasured).step_ns, parts[1]->step_ns);
    EXPECT_THAT(time->variant, testing::StartsWith("median of 3 steps: "));
    std::int64_t highest = 0;
    for (const int rank : RanksOf(model.recorded)) {
      highest = std::max(
          highest,
          BuildMemoryModel(model.recorded, rank, Space::kDevice).Peak(Side::kMeasured).total_bytes);
    }
    const Number* const peak = Find(model.numbers, "peak memory");
    ASSERT_NE(peak, nullptr);
    EXPECT_EQ(peak->measured, FormatBytes(highest));
  }
}

TEST(Numbers, LeaveOutWhatIsNotKnown) {
  const CompareInput input = TwoRanks();
  const CompareModel model = ModelOf(input);
  EXPECT_EQ(Find(model.numbers, "MFU"), nullptr);
  EXPECT_EQ(Find(model.numbers, "peak memory"), nullptr);
  EXPECT_EQ(Find(model.numbers, "times"), nullptr);
  EXPECT_EQ(Find(model.numbers, "clock error"), nullptr);
}

TEST(Numbers, AreAmberWhenTheRecordingIsNotClean) {
  CompareInput input = TwoRanks();
  EXPECT_EQ(Find(ModelOf(input).numbers, "dropped")->tone, Tone::kPlain);
  input.measured->dropped = 3;
  input.measured->invalid = 1;
  input.measured->emulated = true;
  input.measured->overhead = 0.05;
  input.measured->clock_error_ns = 100;  // of a step of 240
  Span unknown = ComputeSpan({}, 1240, 1260);
  unknown.op = kNoOp;
  input.measured->timeline.spans.push_back(unknown);
  SortTimeline(input.measured->timeline);
  const CompareModel model = ModelOf(input);
  for (const char* name :
       {"dropped", "invalid", "recording", "clock error", "times", "coverage", "unpaired ops"}) {
    const Number* const number = Find(model.numbers, name);
    ASSERT_NE(number, nullptr) << name;
    EXPECT_EQ(number->tone, Tone::kAmber) << name;
    EXPECT_TRUE(number->quality) << name;
  }
  EXPECT_EQ(Find(model.numbers, "dropped")->measured, "3");
  EXPECT_EQ(Find(model.numbers, "times")->measured, "emulated");
}

TEST(Numbers, OfOneRunStandAlone) {
  CompareInput input = TwoRanks();
  input.measured.reset();
  const CompareModel model = ModelOf(input);
  const Number* const time = Find(model.numbers, "step time");
  ASSERT_NE(time, nullptr);
  EXPECT_EQ(time->predicted, "200 ns");
  EXPECT_TRUE(time->measured.empty());
  EXPECT_TRUE(time->error.empty());
  EXPECT_EQ(Find(model.numbers, "drift"), nullptr);
}

TEST(Numbers, SayTheFarthestDrift) {
  // Rank 0 ends 40 ns late, rank 1 50.
  const CompareInput input = TwoRanks();
  const CompareModel model = ModelOf(input);
  EXPECT_EQ(Find(model.numbers, "drift")->measured, "+50.0 ns");
}

}  // namespace
}  // namespace foretrain::ui
