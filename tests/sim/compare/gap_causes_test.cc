// Whether the largest part of an attributed gap is the cause that was put in: six causes in ten
// plans, simulated with times that scatter by 3 %.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "sim/compare/attribution.h"
#include "sim/program/link/step.h"
#include "sim/simulate/simulate.h"
#include "tests/sim/models.h"
#include "tests/support/gaps.h"

namespace foretrain {
namespace {

enum class Injected { kSlowGemm, kSlowLink, kHostGaps, kSlowRank, kBusyMachine, kThrottled };
constexpr std::array<Injected, 6> kInjected = {Injected::kSlowGemm,    Injected::kSlowLink,
                                               Injected::kHostGaps,    Injected::kSlowRank,
                                               Injected::kBusyMachine, Injected::kThrottled};

struct PlanCase {
  int dp = 1, tp = 1, pp = 1;
  GapClass link = GapClass::kDataParallel;  // whose collectives get slow
};
constexpr std::array<PlanCase, 10> kPlans{{
    {2, 1, 1, GapClass::kDataParallel},
    {4, 1, 1, GapClass::kDataParallel},
    {8, 1, 1, GapClass::kDataParallel},
    {1, 2, 1, GapClass::kModelParallel},
    {1, 4, 1, GapClass::kModelParallel},
    {2, 2, 1, GapClass::kModelParallel},
    {1, 1, 2, GapClass::kPipeline},
    {1, 1, 4, GapClass::kPipeline},
    {2, 1, 2, GapClass::kDataParallel},
    {1, 2, 2, GapClass::kModelParallel},
}};

constexpr double kLaunch = 5e-6;

Program ProgramOf(const PlanCase& at) {
  Plan plan;
  plan.dp = at.dp;
  plan.tp = at.tp;
  plan.pp = at.pp;
  plan.sequence = 8;
  plan.micro_batch = 1;
  plan.global_batch = std::int64_t{8} * at.dp;
  plan.bucket_bytes = 1;
  auto program = Compile(SmallGpt(), plan);
  FT_CHECK(program.has_value());
  return *std::move(program);
}

// 100 us for compute and 30 us for communication, a row for each op.
ProgramCosts Forecast(const Program& program) {
  return CostsByOp(
      program,
      [](const Op& op, std::size_t, std::size_t) {
        if (op.op_class == OpClass::kHost) return 0.0;
        return IsCommunication(op.kind) ? 30e-6 : 100e-6;
      },
      kLaunch);
}

// Calls visit(op, rank index, row) for all ops.
void ForEach(const Program& program,
             const std::function<void(const Op&, std::size_t, std::size_t)>& visit) {
  std::size_t row = 0;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    for (const OpRef ref : OpRefs(program, program.ranks[r])) {
      visit(OpAt(program, program.ranks[r], ref), r, row++);
    }
  }
}

void Scatter(const Program& program, std::mt19937_64& random, ProgramCosts& costs) {
  std::normal_distribution<double> noise(0.0, 0.03);
  ForEach(program, [&](const Op&, std::size_t, std::size_t row) {
    costs.seconds[row] *= std::exp(noise(random));
  });
}

// Puts the cause into the costs and returns what the machine's counters say.
MachineState Inject(Injected cause, const PlanCase& at, const Program& program,
                    std::mt19937_64& random, ProgramCosts& costs) {
  MachineState state;
  const std::size_t last = program.ranks.size() - 1;
  double waited = 0;
  std::uniform_real_distribution<double> chance(0.0, 1.0);
  ForEach(program, [&](const Op& op, std::size_t rank, std::size_t row) {
    double& seconds = costs.seconds[row];
    const GapClass gap_class = GapClassOf(op.op_class);
    switch (cause) {
      case Injected::kSlowGemm:
        if (gap_class == GapClass::kGemm) seconds *= 1.3;
        break;
      case Injected::kSlowLink:
        if (gap_class == at.link) seconds *= 10;
        break;
      case Injected::kHostGaps:
        costs.launch_s[row] = 150e-6;
        break;
      case Injected::kSlowRank:
        if (rank == last && IsCompute(gap_class)) seconds *= 1.25;
        break;
      case Injected::kBusyMachine:
        // Another program takes the core for four ops' time, now and then.
        if (IsCompute(gap_class) && chance(random) < 0.1) {
          seconds += 400e-6;
          waited += 400e-6;
        }
        break;
      case Injected::kThrottled:
        if (rank == last && IsCompute(gap_class)) seconds *= 1.3;
        break;
    }
  });
  state.core_wait_s = waited / static_cast<double>(program.ranks.size());
  if (cause == Injected::kThrottled) state.throttled = {{program.ranks[last].rank, 1.3}};
  return state;
}

std::string NameOf(Injected cause, const PlanCase& at, const Program& program) {
  const std::string last = std::to_string(program.ranks.back().rank);
  switch (cause) {
    case Injected::kSlowGemm:
      return "gemm";
    case Injected::kSlowLink:
      return std::string(Name(at.link));
    case Injected::kHostGaps:
      return "host";
    case Injected::kSlowRank:
      return "slow rank " + last;
    case Injected::kBusyMachine:
      return "waiting for cores";
    case Injected::kThrottled:
      break;
  }
  return "throttled GPU of rank " + last;
}

TEST(GapCauses, AreFirstAndOfTheRightSizeWherePutIn) {
  int right = 0, sized = 0, cases = 0;
  std::string wrong;
  for (std::size_t p = 0; p < kPlans.size(); ++p) {
    const Program program = ProgramOf(kPlans[p]);
    const ProgramCosts forecast = Forecast(program);
    for (const Injected cause : kInjected) {
      std::mt19937_64 random(100 * p + static_cast<std::uint64_t>(cause));
      ProgramCosts truth = forecast;
      Scatter(program, random, truth);
      const auto without = Simulate(program, truth);
      const MachineState state = Inject(cause, kPlans[p], program, random, truth);
      const auto with = Simulate(program, truth, {.launches = true});
      ASSERT_TRUE(without.has_value() && with.has_value());
      const auto gap = AttributeGap(program, forecast, with->timeline, with->steps - 1, state);
      ASSERT_TRUE(gap.has_value()) << gap.error().message;
      const NamedGap largest = LargestOf(*gap);
      const double size = with->step_s - without->step_s;
      const bool is_right = largest.name == NameOf(cause, kPlans[p], program);
      const bool is_sized = std::abs(largest.seconds / size - 1) <= 0.15;
      ++cases;
      right += is_right;
      sized += is_right && is_sized;
      if (!is_right || !is_sized) {
        wrong += "plan " + std::to_string(p) + ": " + NameOf(cause, kPlans[p], program) + " of " +
                 std::to_string(1e3 * size) + " ms is told as " + largest.name + " of " +
                 std::to_string(1e3 * largest.seconds) + " ms\n";
      }
    }
  }
  EXPECT_EQ(cases, 60);
  EXPECT_GE(right, 58) << wrong;
  EXPECT_GE(sized, 58) << wrong;
  RecordProperty("right", right);
  RecordProperty("sized", sized);
  RecordProperty("wrong", wrong);
}

// Two ranks that are alike but for one that is slower. The other's waiting is no cause.
TEST(GapCauses, OfOneSlowRankLeaveTheOthersClassesAlone) {
  const PlanCase at = kPlans[0];
  const Program program = ProgramOf(at);
  const ProgramCosts forecast = Forecast(program);
  ProgramCosts truth = forecast;
  std::mt19937_64 random(1);
  Inject(Injected::kSlowRank, at, program, random, truth);
  const auto run = Simulate(program, truth);
  ASSERT_TRUE(run.has_value());
  const auto gap = AttributeGap(program, forecast, run->timeline, run->steps - 1);
  ASSERT_TRUE(gap.has_value()) << gap.error().message;
  ASSERT_EQ(gap->machine.size(), 1U);
  EXPECT_EQ(gap->machine[0].rank, 1);
  EXPECT_NEAR(gap->machine[0].seconds, gap->measured_s - gap->predicted_s, 0.02 * gap->measured_s);
  for (const GapShare& share : gap->shares) {
    EXPECT_NEAR(share.seconds, 0, 0.01 * gap->measured_s) << Name(share.gap_class);
  }
}

// More threads than cores: each of four ranks waits half its time in the forecast too.
TEST(GapCauses, CountOnlyTheWaitingThatTheForecastLacks) {
  const Program program = ProgramOf(kPlans[1]);
  ProgramCosts costs = Forecast(program);
  costs.cores = 2;
  std::fill(costs.load.begin(), costs.load.end(), 1.0);
  std::fill(costs.domain.begin(), costs.domain.end(), 0);
  const auto run = Simulate(program, costs);
  ASSERT_TRUE(run.has_value());
  const auto gap_with = [&](double share) {
    MachineState state;
    double compute = 0;
    for (const Span& span : run->timeline.spans) {
      if (span.rank == 0 && span.step == run->steps - 1 && IsCompute(GapClassOf(span.op_class))) {
        compute += static_cast<double>(span.end_ns - span.start_ns) * 1e-9;
      }
    }
    state.core_wait_s = share * compute;
    return AttributeGap(program, costs, run->timeline, run->steps - 1, state);
  };
  const auto expected = gap_with(0.5), more = gap_with(0.75);
  ASSERT_TRUE(expected.has_value() && more.has_value());
  EXPECT_TRUE(expected->machine.empty());
  ASSERT_EQ(more->machine.size(), 1U);
  EXPECT_EQ(more->machine[0].cause, MachineCause::kCoreWait);
  EXPECT_GT(more->machine[0].seconds, 0);
}

}  // namespace
}  // namespace foretrain
