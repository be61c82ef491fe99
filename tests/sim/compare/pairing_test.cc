#include "sim/compare/pairing.h"

#include <gtest/gtest.h>

#include <utility>

namespace foretrain {
namespace {

struct Place {
  int rank = 0;
  std::int32_t step = 0;
  int op = 0;
};

OpId IdOf(const Place& place) {
  return PackId({.kind = InstructionKind::kBlock, .pass = Pass::kForward, .block = 1}, place.op);
}

Span ComputeSpan(const Place& place, std::int64_t start_ns, std::int64_t end_ns) {
  return {.start_ns = start_ns,
          .end_ns = end_ns,
          .op = IdOf(place),
          .step = place.step,
          .rank = static_cast<std::int16_t>(place.rank),
          .queue = Queue::kCompute,
          .op_class = OpClass::kGemm};
}

std::vector<OpTotal> Totals(std::vector<Span> spans, std::int32_t step = 0) {
  Timeline timeline;
  timeline.spans = std::move(spans);
  return OpTotalsOfStep(timeline, step);
}

TEST(Pairing, PutsOpsOfEqualIdsTogether) {
  const auto predicted = Totals({ComputeSpan({.op = 0}, 0, 10), ComputeSpan({.op = 1}, 10, 30)});
  const auto measured = Totals({ComputeSpan({.op = 1}, 10, 25), ComputeSpan({.op = 2}, 30, 40)});
  const auto pairs = PairOps(predicted, measured, {});
  ASSERT_EQ(pairs.size(), 3U);
  EXPECT_FALSE(pairs[0].measured.has_value());
  ASSERT_TRUE(pairs[1].IsPair());
  EXPECT_EQ(pairs[1].ErrorNs(), 15 - 20);
  EXPECT_FALSE(pairs[2].predicted.has_value());
  EXPECT_EQ(FindPair(pairs, 0, IdOf({.op = 1})), &pairs[1]);
  EXPECT_EQ(FindPair(pairs, 1, IdOf({.op = 1})), nullptr);
  EXPECT_EQ(FindPair(pairs, 0, kNoOp), nullptr);
}

TEST(Pairing, TakesSpansOfTheStepAlone) {
  const auto totals =
      Totals({ComputeSpan({.step = 0}, 0, 10), ComputeSpan({.step = 1}, 10, 25)}, 1);
  ASSERT_EQ(totals.size(), 1U);
  EXPECT_EQ(totals[0].busy_ns, 15);
}

TEST(Pairing, LetsOnePredictedRankStandForSeveral) {
  const auto predicted = Totals({ComputeSpan({.rank = 0}, 0, 10)});
  const auto measured = Totals({ComputeSpan({.rank = 0}, 0, 11), ComputeSpan({.rank = 1}, 0, 13)});
  const std::vector<int> stands{0, 0};
  const auto pairs = PairOps(predicted, measured, stands);
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_EQ(pairs[0].ErrorNs(), 1);
  EXPECT_EQ(pairs[1].rank, 1);
  EXPECT_EQ(pairs[1].ErrorNs(), 3);
}

TEST(Pairing, PairsAWholeInstructionWithTheSumOfItsOps) {
  Span whole = ComputeSpan({}, 0, 50);
  whole.op = InstructionOf(whole.op);
  // The two ops took 20 + 25 on the compute queue.
  const auto measured = Totals({ComputeSpan({.op = 0}, 5, 25), ComputeSpan({.op = 1}, 30, 55)});
  const auto pairs = PairOps(Totals({whole}), measured, {});
  ASSERT_EQ(pairs.size(), 1U);
  EXPECT_EQ(pairs[0].ErrorNs(), 45 - 50);
  EXPECT_EQ(pairs[0].measured->start_ns, 5);
  EXPECT_EQ(pairs[0].measured->end_ns, 55);
  EXPECT_EQ(FindPair(pairs, 0, IdOf({.op = 1})), &pairs[0]);
}

TEST(Pairing, OfNothingIsEmpty) {
  EXPECT_TRUE(PairOps({}, {}, {}).empty());
  EXPECT_EQ(PairOps(Totals({ComputeSpan({}, 0, 1)}), {}, {}).size(), 1U);
}

}  // namespace
}  // namespace foretrain
