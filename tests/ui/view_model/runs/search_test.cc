#include "ui/view_model/runs/search.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

#include "tests/ui/hand_made.h"
#include "tests/ui/sample_run.h"

namespace foretrain::ui {
namespace {

TEST(Search, FindsSpansByAllWordsInAnyCase) {
  const CompareInput input = TwoRanks();
  const CompareModel model = ModelOf(input);
  // Four ops called mlp in the measured run, and a send.
  EXPECT_EQ(FindSpans(model, "MLP").size(), 4U);
  EXPECT_EQ(FindSpans(model, "mlp gemm").size(), 4U);
  EXPECT_EQ(FindSpans(model, "send").size(), 1U);
  EXPECT_TRUE(FindSpans(model, "mlp send").empty());
  EXPECT_TRUE(FindSpans(model, "  ").empty());
  EXPECT_TRUE(FindSpans(model, "").empty());
}

TEST(Search, GivesSpansInOrderOfTime) {
  const CompareInput input = SampleInput({.layers = 4, .micro_batches = 4});
  const CompareModel model = ModelOf(input);
  const std::vector<SpanRef> found = FindSpans(model, "forward");
  ASSERT_GT(found.size(), 10U);
  for (std::size_t i = 1; i < found.size(); ++i) {
    EXPECT_LE(model.SpanOf(found[i - 1]).start_ns, model.SpanOf(found[i]).start_ns);
  }
}

// Random bytes, words of the model among them. A further word only takes spans away.
TEST(Search, FindsSpansOfTheModelForAnyText) {
  const CompareInput input = SampleInput({.layers = 4, .micro_batches = 4});
  const CompareModel model = ModelOf(input);
  const std::array<std::string, 6> words{"mlp", "forward", "12", "gemm", "\xff\xfe", "%n%s"};
  std::mt19937_64 random(50);
  std::size_t hits = 0;
  for (int i = 0; i < 2'000; ++i) {
    std::string text = words[random() % words.size()];
    for (std::uint64_t left = random() % 8; left > 0; --left) {
      text += random() % 3 == 0 ? " " + words[random() % words.size()]
                                : std::string(1, static_cast<char>(random()));
    }
    const std::vector<SpanRef> found = FindSpans(model, text);
    const std::vector<SpanRef> fewer =
        FindSpans(model, text + " " + words[random() % words.size()]);
    ASSERT_LE(found.size(), kMaxFound);
    ASSERT_LE(fewer.size(), found.size());
    for (const SpanRef& ref : found) {
      ASSERT_LT(ref.span, model.TimelineOf(ref.side).spans.size());
    }
    hits += found.empty() ? 0 : 1;
  }
  EXPECT_GT(hits, 50U);
}

TEST(OpFilter, TakesAClassInAPass) {
  const Timeline timeline;
  const Span forward = ComputeSpan({}, 0, 1);
  const Span backward = ComputeSpan({.pass = Pass::kBackward}, 0, 1);
  const Span attention = ComputeSpan({}, 0, 1, OpClass::kAttention);
  const OpFilter any{};
  EXPECT_TRUE(any.Takes(timeline, forward));
  const OpFilter gemm{.op_class = OpClass::kGemm};
  EXPECT_TRUE(gemm.Takes(timeline, forward));
  EXPECT_FALSE(gemm.Takes(timeline, attention));
  const OpFilter both{.op_class = OpClass::kGemm, .pass = Pass::kForward};
  EXPECT_TRUE(both.Takes(timeline, forward));
  EXPECT_FALSE(both.Takes(timeline, backward));
  EXPECT_TRUE(both.MayTake(Hue::kForward));
  EXPECT_FALSE(both.MayTake(Hue::kBackward));
  EXPECT_FALSE(both.MayTake(Hue::kCollective));
  Span unknown = forward;
  unknown.op = kNoOp;
  EXPECT_FALSE(both.Takes(timeline, unknown));
}

TEST(OpFilter, TakesAnOpByItsName) {
  const CompareInput input = TwoRanks();
  const Timeline& timeline = input.measured->timeline;
  const OpFilter mlp{.op = "mlp"};
  EXPECT_TRUE(mlp.Takes(timeline, timeline.spans[0]));
  const OpFilter other{.op = "attention"};
  EXPECT_FALSE(other.Takes(timeline, timeline.spans[0]));
}

}  // namespace
}  // namespace foretrain::ui
