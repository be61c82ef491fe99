// Kernels of a mixture of experts.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "tests/kernels/reference/experts.h"
#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using reference::RouteOutputs;
using reference::RouteShape;

struct Routed {
  Floats probs, weights;
  Ids chosen, places, sources, counts, balance_counts;
};

class ExpertsTest : public KernelTest {
 protected:
  Routed RouteRows(const RouteShape& s, const Floats& logits) {
    const auto rows = static_cast<std::int64_t>(logits.size()) / s.experts;
    const auto pairs = static_cast<std::size_t>(rows * s.per_token);
    Routed out{Floats(logits.size(), kNan),
               Floats(pairs, kNan),
               Ids(pairs, -7),
               Ids(pairs, -7),
               {},
               {},
               {}};
    const std::int64_t room = (s.capacity + s.pieces - 1) / s.pieces;
    const std::int64_t balance_rows =
        s.balance_rows > 0 ? s.balance_rows : std::max<std::int64_t>(rows, 1);
    out.sources.assign(
        s.capacity > 0 ? static_cast<std::size_t>(s.pieces * s.experts * room) : pairs, -7);
    out.counts.assign(static_cast<std::size_t>((s.capacity > 0 ? 1 : s.pieces) * s.experts), -7);
    out.balance_counts.assign(static_cast<std::size_t>(rows / balance_rows * s.experts), -7);
    FtRoute route{};
    route.logits = logits.data();
    route.probs = out.probs.data(), route.weights = out.weights.data();
    route.chosen = out.chosen.data(), route.places = out.places.data();
    route.sources = out.sources.data(), route.counts = out.counts.data();
    route.balance_counts = out.balance_counts.data();
    route.rows = rows, route.experts = s.experts, route.per_token = s.per_token;
    route.capacity = s.capacity, route.pieces = s.pieces, route.balance_rows = balance_rows;
    route.expert_groups = s.expert_groups, route.group_limit = s.group_limit;
    route.softmax_first = s.softmax_first ? 1 : 0;
    Run(api_.route, route);
    // Replaying a choice gives the same result.
    Routed again = out;
    route.replay = 1;
    Run(api_.route, route);
    EXPECT_EQ(again.places, out.places);
    EXPECT_EQ(again.counts, out.counts);
    EXPECT_TRUE(std::equal(out.weights.begin(), out.weights.end(), again.weights.begin(),
                           [](float a, float b) { return a == b || (a != a && b != b); }));
    return out;
  }
};

std::string What(const RouteShape& s) {
  return std::to_string(s.experts) + " experts, " + std::to_string(s.per_token) + " a token, " +
         std::to_string(s.capacity) + " rows" + (s.softmax_first ? ", softmax first" : "") + ", " +
         std::to_string(s.pieces) + " pieces, groups " + std::to_string(s.group_limit) + " of " +
         std::to_string(s.expert_groups) + ", balanced over " + std::to_string(s.balance_rows);
}

std::vector<RouteShape> Shapes() {
  std::vector<RouteShape> shapes;
  for (const bool softmax_first : {false, true}) {
    for (const std::int64_t capacity : {0, 1, 3, 40}) {
      for (const std::int64_t experts : {1, 4, 7}) {
        shapes.push_back({experts, 1, capacity, softmax_first});
        if (experts > 2) shapes.push_back({experts, 3, capacity, softmax_first});
        shapes.push_back({experts, experts, capacity, softmax_first});
      }
    }
  }
  for (const std::int64_t capacity : {0, 1, 5}) {
    shapes.push_back({4, 2, capacity, false, 3});
    shapes.push_back({8, 3, capacity, true, 2, 4, 2});
    shapes.push_back({12, 4, capacity, false, 1, 3, 2});
    shapes.push_back({6, 2, capacity, true, 1, 6, 2});
  }
  shapes.push_back({4, 2, 0, false, 1, 1, 0, 1});
  return shapes;
}

// Scores are up to 3. An exponential of a difference below 6 has 8 rounding errors, the fp64 sum
// none, the quotient one.
TEST_P(ExpertsTest, RouteEqualsTheReferenceForEveryShape) {
  for (const RouteShape& s : Shapes()) {
    for (const std::int64_t rows : {0, 1, 17}) {
      const Floats logits = Random(rows * s.experts, 3, 3.0F);
      const Routed actual = RouteRows(s, logits);
      const RouteOutputs expected = reference::Route(s, ToDouble(logits));
      EXPECT_EQ(actual.chosen, expected.chosen) << What(s);
      EXPECT_EQ(actual.places, expected.places) << What(s);
      EXPECT_EQ(actual.sources, expected.sources) << What(s);
      EXPECT_EQ(actual.counts, expected.counts) << What(s);
      EXPECT_EQ(actual.balance_counts, expected.balance_counts) << What(s);
      ExpectClose(actual.probs, expected.probs, Scaled(expected.probs, 10 * kUnit), What(s));
      ExpectClose(actual.weights, expected.weights, Scaled(expected.weights, 10 * kUnit), What(s));
    }
  }
}

// More pairs than a block of threads takes at once.
TEST_P(ExpertsTest, RouteDealsManyRowsInTheirOrder) {
  const RouteShape shapes[] = {{2, 1, 0, false}, {2, 1, 500, false}, {4, 2, 0, false, 3}};
  for (const RouteShape& s : shapes) {
    const Floats logits = Random(1200 * s.experts, 3, 3.0F);
    const Routed actual = RouteRows(s, logits);
    const RouteOutputs expected = reference::Route(s, ToDouble(logits));
    EXPECT_EQ(actual.places, expected.places) << What(s);
    EXPECT_EQ(actual.sources, expected.sources) << What(s);
    EXPECT_EQ(actual.counts, expected.counts) << What(s);
  }
}

TEST_P(ExpertsTest, RouteTakesTheLowerOfEqualScoresAndPutsNanLast) {
  const Routed tied = RouteRows({4, 2, 0, false}, {1, 2, 2, 2, 0, 0, 0, 0});
  EXPECT_EQ(tied.chosen, (Ids{1, 2, 0, 1}));
  EXPECT_EQ(tied.weights, (Floats{0.5F, 0.5F, 0.5F, 0.5F}));
  const Routed broken = RouteRows({3, 2, 0, false}, {kNan, -1, -2});
  EXPECT_EQ(broken.chosen, (Ids{1, 2}));
  EXPECT_EQ(RouteRows({2, 2, 0, true}, {kNan, kNan}).chosen, (Ids{0, 1}));
}

// Three tokens choose expert 1, which has room for two. Computed by hand.
TEST_P(ExpertsTest, RouteDropsWhatPassesTheCapacity) {
  const Routed routed = RouteRows({2, 1, 2, false}, {0, 1, 0, 2, 3, 0, 0, 1});
  EXPECT_EQ(routed.chosen, (Ids{1, 1, 0, 1}));
  EXPECT_EQ(routed.counts, (Ids{1, 3}));
  EXPECT_EQ(routed.places, (Ids{2, 3, 0, -1}));
  EXPECT_EQ(routed.sources, (Ids{2, -1, 0, 1}));
}

// Two groups of two experts. A token uses the group with the larger sum of two probabilities.
// Scores log(4, 3, 6, 0.5) sum to 7 and 6.5, so the best single expert is not chosen.
TEST_P(ExpertsTest, RouteStaysInTheBestGroups) {
  const Floats logits = {std::log(4.0F), std::log(3.0F), std::log(6.0F), std::log(0.5F)};
  EXPECT_EQ(RouteRows({4, 2, 0, false, 1, 2, 1}, logits).chosen, (Ids{0, 1}));
  EXPECT_EQ(RouteRows({4, 2, 0, false}, logits).chosen, (Ids{2, 0}));
}

// Rows 0 and 1 are one piece, 2 and 3 another. With room for 3, an expert has 2 rows in each piece;
// the last one is unused.
TEST_P(ExpertsTest, RouteDealsRowsPieceByPiece) {
  const Floats logits = {1, 0, 0, 1, 1, 0, 1, 0};
  const Routed dropless = RouteRows({2, 1, 0, false, 2}, logits);
  EXPECT_EQ(dropless.sources, (Ids{0, 1, 2, 3}));
  EXPECT_EQ(dropless.counts, (Ids{1, 1, 2, 0}));
  const Routed roomy = RouteRows({2, 1, 3, false, 2}, logits);
  EXPECT_EQ(roomy.sources, (Ids{0, 2, 1, -1, 3, -1, -1, -1}));
  EXPECT_EQ(roomy.places, (Ids{0, 2, 1, 4}));
}

// Slope of both losses with respect to the scores. The choice stays constant, because no two scores
// are within the step of the differences.
TEST(ReferenceRoute, BackwardIsTheSlopeOfWeightsAndBalance) {
  for (const RouteShape& s : Shapes()) {
    if (s.capacity > 1) continue;
    const Tensor logits = ToDouble(Random(5 * s.experts, 4, 2.0F));
    const RouteOutputs forward = reference::Route(s, logits);
    const Tensor d_weights = ToDouble(Random(5 * s.per_token, 5));
    const auto loss = [&](const Tensor& x) {
      const RouteOutputs there = reference::Route(s, x);
      return Dot(there.weights, d_weights) +
             reference::BalanceLoss(s, 0.3, there.probs, forward.balance_counts);
    };
    ExpectGradient(reference::RouteBackward(s, 0.3, forward, d_weights), logits, loss, What(s));
  }
}

TEST(ReferenceRoute, BalanceIsOneTimesItsWeightWhenEvenAndExpertsTimesItWhenAllGoToOne) {
  const RouteShape s{4, 1, 0, true};
  EXPECT_DOUBLE_EQ(reference::BalanceLoss(s, 0.5, Tensor(8, 0.25), {1, 0, 1, 0}), 0.5);
  EXPECT_DOUBLE_EQ(reference::BalanceLoss(s, 0.5, {1, 0, 0, 0, 1, 0, 0, 0}, {2, 0, 0, 0}), 2.0);
}

// Probabilities and weights have 10 rounding errors of numbers up to 1. d_weights are at most 1,
// the balance loss has a slope of 0.3 * 7 * 17 / 17^2 < 0.13. The sums of a row have per_token and
// experts terms.
TEST_P(ExpertsTest, RouteBackwardEqualsTheReference) {
  for (const RouteShape& s : Shapes()) {
    for (const std::int64_t rows : {0, 1, 17}) {
      const Floats logits = Random(rows * s.experts, 6, 3.0F);
      const Floats d_weights = Random(rows * s.per_token, 7);
      const Routed routed = RouteRows(s, logits);
      const RouteOutputs forward = reference::Route(s, ToDouble(logits));
      Floats d_logits(logits.size(), kNan);
      Run(api_.route_backward,
          FtRouteBackward{routed.probs.data(), routed.weights.data(), routed.chosen.data(),
                          routed.balance_counts.data(), d_weights.data(), d_logits.data(), rows,
                          s.experts, s.per_token,
                          s.balance_rows > 0 ? s.balance_rows : std::max<std::int64_t>(rows, 1),
                          0.3F, s.softmax_first ? 1 : 0, FT_F32, 0, 0.0F, nullptr});
      ExpectClose(d_logits, reference::RouteBackward(s, 0.3, forward, ToDouble(d_weights)),
                  {100 * kUnit}, What(s));
    }
  }
}

struct RowsCase {
  std::int64_t tokens, cols;
  RouteShape route;
};

std::vector<RowsCase> RowsCases() {
  std::vector<RowsCase> cases;
  for (const std::int64_t cols : kRaggedSizes) {
    cases.push_back({9, cols, {4, 2, 0, false}});
    cases.push_back({9, cols, {4, 2, 3, false}});
    cases.push_back({1, cols, {3, 1, 2, true}});
  }
  return cases;
}

TEST_P(ExpertsTest, RowsGoToTheirExpertsAndBack) {
  for (const RowsCase& c : RowsCases()) {
    const reference::RowsShape shape{c.cols, c.route.per_token};
    const Routed routed = RouteRows(c.route, Random(c.tokens * c.route.experts, 8, 3.0F));
    const auto expert_rows = static_cast<std::int64_t>(routed.sources.size());
    const Floats x = Random(c.tokens * c.cols, 9), z = Random(expert_rows * c.cols, 10);
    for (const bool weighed : {false, true}) {
      const float* weights = weighed ? routed.weights.data() : nullptr;
      const Tensor double_weights = weighed ? ToDouble(routed.weights) : Tensor{};
      Floats out(z.size(), kNan);
      Run(api_.expert_gather,
          FtExpertGather{x.data(), routed.sources.data(), weights, out.data(), c.tokens,
                         expert_rows, c.cols, c.route.per_token, FT_F32});
      const Tensor gathered =
          reference::ExpertGather(shape, ToDouble(x), routed.sources, double_weights);
      ExpectClose(out, gathered, Scaled(gathered, kUnit), "gather");
      Floats sum(x.size(), kNan);
      Run(api_.expert_combine,
          FtExpertCombine{z.data(), routed.places.data(), weights, sum.data(), c.tokens,
                          expert_rows, c.cols, c.route.per_token, FT_F32});
      ExpectClose(sum, reference::ExpertCombine(shape, ToDouble(z), routed.places, double_weights),
                  {2.0 * 2.0 * kUnit}, "combine");  // two terms of at most 1, one rounding each
    }
    Floats dots(routed.places.size(), kNan);
    Run(api_.expert_dots, FtExpertDots{x.data(), z.data(), routed.places.data(), dots.data(),
                                       c.tokens, expert_rows, c.cols, c.route.per_token, FT_F32});
    const Tensor expected = reference::ExpertDots(shape, ToDouble(x), ToDouble(z), routed.places);
    ExpectClose(dots, expected, Scaled(expected, kUnit, 1e-12), "dots");
  }
}

// The gradients of combine are a weighted gather and dot products.
TEST(ReferenceExperts, RowsHaveTheSlopesThatTheirCounterpartsGive) {
  for (const std::int64_t capacity : {0, 2}) {
    const RouteShape s{3, 2, capacity, false};
    const reference::RowsShape shape{4, 2};
    const RouteOutputs routed = reference::Route(s, ToDouble(Random(5 * 3, 11)));
    const auto expert_rows = static_cast<std::int64_t>(routed.sources.size());
    const Tensor z = ToDouble(Random(expert_rows * 4, 12)), x = ToDouble(Random(20, 13));
    const Tensor dy = ToDouble(Random(20, 14)), dz = ToDouble(Random(expert_rows * 4, 15));
    const auto& weights = routed.weights;
    ExpectGradient(
        reference::ExpertGather(shape, dy, routed.sources, weights), z,
        [&](const Tensor& at) {
          return Dot(reference::ExpertCombine(shape, at, routed.places, weights), dy);
        },
        "combine");
    ExpectGradient(
        reference::ExpertDots(shape, dy, z, routed.places), weights,
        [&](const Tensor& at) {
          return Dot(reference::ExpertCombine(shape, z, routed.places, at), dy);
        },
        "weights");
    ExpectGradient(
        reference::ExpertCombine(shape, dz, routed.places, {}), x,
        [&](const Tensor& at) {
          return Dot(reference::ExpertGather(shape, at, routed.sources, {}), dz);
        },
        "gather");
  }
}

struct GroupedCase {
  Ids counts;  // rows of each run
  std::int64_t experts, out, in;
  bool equal;  // no counts are passed
  std::int64_t stride = 0;
};

std::vector<GroupedCase> GroupedCases() {
  std::vector<GroupedCase> cases;
  for (const auto& [out, in] : {std::pair{1, 1}, {3, 5}, {33, 17}, {8, 65}}) {
    cases.push_back({{0, 5, 1, 31}, 4, out, in, false});
    cases.push_back({{0, 0}, 2, out, in, false});
    cases.push_back({{7, 7, 7, 7, 7, 7}, 3, out, in, true});
    cases.push_back({{1}, 1, out, in, true});
    cases.push_back({{3, 0, 2, 9, 1, 1}, 2, out, in, false, 5});
  }
  return cases;
}

TEST_P(ExpertsTest, GroupedGemmEqualsTheReferenceForUnequalRuns) {
  for (const GroupedCase& c : GroupedCases()) {
    Ids expert_of;
    for (std::size_t run = 0; run < c.counts.size(); ++run) {
      expert_of.insert(expert_of.end(), static_cast<std::size_t>(c.counts[run]),
                       static_cast<std::int32_t>(run) % static_cast<std::int32_t>(c.experts));
    }
    const auto rows = static_cast<std::int64_t>(expert_of.size());
    const reference::GroupedShape shape{c.experts, c.out, c.in};
    const Floats x = Random(rows * c.in, 16), dy = Random(rows * c.out, 17),
                 w = Random(c.experts * c.out * c.in, 18);
    // Counts as stored in memory: with a stride, other numbers lie between those of the experts.
    Ids counts = c.counts;
    if (c.stride > 0) {
      counts.assign(c.counts.size() / static_cast<std::size_t>(c.experts) *
                        static_cast<std::size_t>(c.stride),
                    -9);
      for (std::size_t r = 0; r < c.counts.size(); ++r) {
        const auto g = static_cast<std::int64_t>(r);
        counts[static_cast<std::size_t>(g / c.experts * c.stride + g % c.experts)] = c.counts[r];
      }
    }
    const auto run = [&](FtGroupedMode mode, const Floats& a, const Floats& b, Floats& out,
                         bool adds) {
      Run(api_.grouped_gemm,
          FtGroupedGemm{a.data(), b.data(), out.data(), c.equal ? nullptr : counts.data(), rows,
                        c.out, c.in, c.experts, static_cast<std::int64_t>(c.counts.size()),
                        c.stride, mode, adds ? 1 : 0, FT_F32, FT_F32, FT_F32, nullptr, nullptr,
                        FT_SCALE_TENSOR, FT_SCALE_TENSOR});
    };
    Floats y(dy.size(), kNan), dx(x.size(), kNan), dw(w.size(), kNan);
    run(FT_GROUPED_FORWARD, x, w, y, false);
    ExpectClose(y, reference::GroupedForward(shape, expert_of, ToDouble(x), ToDouble(w)),
                {(Roundings(c.in) + kUnit) * static_cast<double>(c.in)}, "forward");
    run(FT_GROUPED_INPUT, dy, w, dx, false);
    ExpectClose(dx, reference::GroupedInput(shape, expert_of, ToDouble(dy), ToDouble(w)),
                {(Roundings(c.out) + kUnit) * static_cast<double>(c.out)}, "input");
    const Tensor expected = reference::GroupedWeight(shape, expert_of, ToDouble(dy), ToDouble(x));
    const double bound = (Roundings(rows + 1) + kUnit) * static_cast<double>(rows + 1);
    run(FT_GROUPED_WEIGHT, dy, x, dw, false);
    ExpectClose(dw, expected, {bound}, "weight");
    Floats added = w;
    run(FT_GROUPED_WEIGHT, dy, x, added, true);
    Tensor sum = expected;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(w[i]);
    ExpectClose(added, sum, {bound + 2 * kUnit * static_cast<double>(rows + 1)}, "weight, added");
  }
}

TEST(ReferenceExperts, GroupedProductsHaveTheSlopesOfTheirGradients) {
  const Ids expert_of = {0, 0, 2, 2, 2, 1};
  const reference::GroupedShape s{3, 2, 4};
  const Tensor x = ToDouble(Random(24, 19)), w = ToDouble(Random(24, 20));
  const Tensor dy = ToDouble(Random(12, 21));
  ExpectGradient(
      reference::GroupedInput(s, expert_of, dy, w), x,
      [&](const Tensor& at) { return Dot(reference::GroupedForward(s, expert_of, at, w), dy); },
      "input");
  ExpectGradient(
      reference::GroupedWeight(s, expert_of, dy, x), w,
      [&](const Tensor& at) { return Dot(reference::GroupedForward(s, expert_of, x, at), dy); },
      "weight");
}

TEST_P(ExpertsTest, RefusesWhatLiesOutsideItsTensorsOrTakesItForNothing) {
  const Floats x(8, 1.0F);
  Floats out(8);
  const Ids sources = {0, 9};
  const FtExpertGather gather{x.data(), sources.data(), nullptr, out.data(), 2, 2, 4, 2, FT_F32};
  if (IsCuda()) {
    Run(api_.expert_gather, gather);
    EXPECT_EQ(out, (Floats{1, 1, 1, 1, 0, 0, 0, 0}));
    return;
  }
  EXPECT_EQ(api_.expert_gather(queue_.get(), &gather), FT_FAILED);
  EXPECT_STREQ(api_.queue_error(queue_.get()),
               "cpu expert_gather: sources[1] is 9: must be from -1 to 3");
  const Ids counts = {1, 2};
  FtGroupedGemm gemm{};
  gemm.a = x.data(), gemm.b = x.data(), gemm.c = out.data(), gemm.counts = counts.data();
  gemm.rows = gemm.out = gemm.in = gemm.experts = gemm.groups = 2;
  EXPECT_EQ(api_.grouped_gemm(queue_.get(), &gemm), FT_FAILED);
  EXPECT_STREQ(api_.queue_error(queue_.get()), "cpu grouped_gemm: counts add up to 3 of 2 rows");
}

FT_TEST_ALL_VARIANTS(ExpertsTest);

}  // namespace
}  // namespace foretrain::test
