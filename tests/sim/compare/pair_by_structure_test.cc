// Kernels of made traces find the ops that they were made from.
#include "sim/compare/structure/pair_by_structure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <utility>

#include "sim/cost/profile/derive_profile.h"
#include "sim/forecast/forecast.h"
#include "tests/sim/compare/made_trace.h"
#include "tests/sim/realistic_plans.h"

namespace foretrain {
namespace {

struct Score {
  double paired = 0;       // share of the traced time
  double right = 0;        // share of the pairs' time
  double right_pairs = 0;  // share of the pairs, of kernels that have an op
  StructuralPairs pairs;
};

struct Made {
  Timeline forecast;
  int step = 0;
};

// The forecast of a plan with at most eight layers, one rank of each kind.
Made ForecastOf(std::uint64_t index) {
  RealisticPlan one = RealisticPlanOf(index);
  one.model.layers = std::min<std::int64_t>(one.model.layers, 8 * one.plan.pp);
  const auto costs = CostModel::Make(one.cluster, DeriveProfile(one.cluster));
  FT_CHECK(costs.has_value());
  const auto forecast = MakeForecast(one.model, one.plan, *costs, {.ranks = RankChoice::kFirst});
  if (!forecast.has_value()) {
    ADD_FAILURE() << Describe(one.plan) << ": " << forecast.error().message;
    return {};
  }
  return {NamedTimeline(*forecast), forecast->simulation.steps - 1};
}

// Whether `paired` is the op `truth`. Updates of several buckets follow each other, in kernels that
// are all alike: an update of the next bucket counts.
bool IsRight(const Timeline& forecast, OpId paired, OpId truth) {
  if (paired == truth) return true;
  const auto name_of = [&](OpId op) {
    const auto name = forecast.op_names.find(NameKey(op));
    return name == forecast.op_names.end() ? std::string() : name->second;
  };
  return truth != kNoOp && UnpackId(truth).pass == Pass::kUpdate &&
         UnpackId(paired).pass == Pass::kUpdate && name_of(truth) == name_of(paired);
}

Score ScoreOf(const Made& made, const MadeTraceOptions& options) {
  MadeTrace trace = TraceOf(made.forecast, made.step, options);
  const std::vector<Span> before = trace.timeline.spans;
  Score score;
  score.pairs = PairByStructure(made.forecast, made.step, trace.timeline, 0);
  std::int64_t paired_ns = 0, right_ns = 0, paired = 0, right = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const Span& span = trace.timeline.spans[i];
    if (span.op == before[i].op) continue;
    const std::int64_t ns = span.end_ns - span.start_ns;
    paired_ns += ns;
    const bool is_right = IsRight(made.forecast, span.op, trace.truth[i]);
    if (is_right) right_ns += ns;
    if (trace.truth[i] == kNoOp) continue;
    ++paired;
    right += is_right ? 1 : 0;
  }
  score.paired = score.pairs.PairedShare();
  score.right = static_cast<double>(right_ns) / static_cast<double>(paired_ns);
  score.right_pairs = static_cast<double>(right) / static_cast<double>(paired);
  return score;
}

TEST(PairByStructure, FindsTheOpsOfMadeTraces) {
  std::printf(
      "plan  style  facts            kernels  time paired  time right  pairs right  steady\n");
  for (const std::uint64_t index : {20, 21, 25, 27, 28, 29, 30, 33}) {
    const Made made = ForecastOf(index);
    for (const TraceStyle style : {TraceStyle::kFused, TraceStyle::kEager}) {
      for (const int facts : {0, 2}) {
        const Score score = ScoreOf(
            made, {.style = style, .passes = facts > 0, .layers = facts > 1, .seed = index});
        const char* const kFacts[] = {"names", "passes", "passes, layers"};
        std::printf("%4d  %-5s  %-15s %8lld  %10.1f %%  %8.1f %%  %9.1f %%  %4.0f %%\n",
                    static_cast<int>(index), style == TraceStyle::kFused ? "fused" : "eager",
                    kFacts[facts], static_cast<long long>(score.pairs.kernels), 100 * score.paired,
                    100 * score.right, 100 * score.right_pairs, 100 * score.pairs.SteadyShare());
        EXPECT_GE(score.paired, 0.95);
        EXPECT_GE(score.pairs.ForecastShare(), 0.9);
        EXPECT_GE(score.right, 0.99);
        EXPECT_GE(score.right_pairs, 0.99);
      }
    }
  }
}

TEST(PairByStructure, DoesNotTrustTheForecastOfAnotherModel) {
  for (const auto& [traced, forecast] : {std::pair{20, 29}, std::pair{21, 25}, std::pair{28, 21}}) {
    const Made of_trace = ForecastOf(static_cast<std::uint64_t>(traced));
    const Made other = ForecastOf(static_cast<std::uint64_t>(forecast));
    Timeline trace = TraceOf(of_trace.forecast, of_trace.step, {}).timeline;
    const StructuralPairs pairs = PairByStructure(other.forecast, other.step, trace, 0);
    EXPECT_LT(pairs.PairedShare(), 0.85) << traced;
    EXPECT_FALSE(pairs.IsTrusted()) << traced;
  }
}

TEST(PairByStructure, PairsNothingWithoutATrace) {
  const Made made = ForecastOf(29);
  Timeline trace;
  trace.world = 1;
  const StructuralPairs pairs = PairByStructure(made.forecast, made.step, trace, 0);
  EXPECT_EQ(pairs.kernels, 0);
  EXPECT_EQ(pairs.PairedShare(), 0);
}

// Ids and names of unpaired kernels and of other steps stay.
TEST(PairByStructure, ChangesNothingBesidesPairs) {
  const Made made = ForecastOf(29);
  MadeTrace trace = TraceOf(made.forecast, made.step, {});
  Span other = trace.timeline.spans.front();
  other.step = 7;
  trace.timeline.spans.push_back(other);
  const std::map<OpId, std::string> names = trace.timeline.op_names;
  PairByStructure(made.forecast, made.step, trace.timeline, 0);
  EXPECT_EQ(trace.timeline.spans.back().op, other.op);
  for (const auto& [op, name] : names) EXPECT_EQ(trace.timeline.op_names[op], name);
}

}  // namespace
}  // namespace foretrain
