#include "sim/compare/attribution.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "base/units.h"
#include "sim/compare/measured_work.h"
#include "sim/simulate/simulate.h"

namespace foretrain {
namespace {

constexpr double kTrustedShare = 0.03;  // max unexplained share of the measured step
constexpr int kSampledOrders = 64;
constexpr std::int64_t kExactOps = 20'000'000;  // op instances that all subsets together may take
constexpr int kReplaySteps = 4;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Step times T(S) of subsets S of classes. A subset is simulated at most once; bit c of a subset
// stands for class c.
class Replayer {
 public:
  Replayer(const Program& program, const ProgramCosts& costs, const MeasuredWork& work)
      : program_(program), costs_(costs), work_(work) {}

  Result<double> StepSeconds(unsigned subset) {
    const auto known = seconds_.find(subset);
    if (known != seconds_.end()) return known->second;
    Replay replay;
    replay.seconds = work_.seconds;
    for (std::size_t r = 0; r < replay.seconds.size(); ++r) {
      for (std::size_t i = 0; i < replay.seconds[r].size(); ++i) {
        if ((subset >> static_cast<unsigned>(work_.classes[r][i]) & 1U) == 0) {
          replay.seconds[r][i] = kUnknown;
        }
      }
    }
    if ((subset >> static_cast<unsigned>(GapClass::kHost) & 1U) != 0)
      replay.launch_s = work_.launch_s;
    SimulateOptions options;
    options.timeline = false;
    options.max_steps = kReplaySteps;
    options.replay = &replay;
    FT_ASSIGN(const Simulation simulation, Simulate(program_, costs_, options));
    seconds_[subset] = simulation.step_s;
    return simulation.step_s;
  }

  int replays() const { return static_cast<int>(seconds_.size()); }

 private:
  const Program& program_;
  const ProgramCosts& costs_;
  const MeasuredWork& work_;
  std::map<unsigned, double> seconds_;
};

// Computes the exact Shapley value of each class:
//
//   phi_c = sum over subsets S without c of |S|! (n - |S| - 1)! / n! * (T(S + c) - T(S))
//
// The factorials go through lgamma, which does not overflow.
Result<void> ShareExactly(Replayer& replayer, const std::vector<GapClass>& players,
                          Attribution& out) {
  const std::size_t n = players.size();
  std::vector<double> weight(n);
  for (std::size_t s = 0; s < n; ++s) {
    weight[s] =
        std::exp(std::lgamma(static_cast<double>(s + 1)) + std::lgamma(static_cast<double>(n - s)) -
                 std::lgamma(static_cast<double>(n + 1)));
  }
  for (std::size_t c = 0; c < n; ++c) out.shares.push_back({players[c], 0, 0});
  for (unsigned pick = 0; pick < (1U << n); ++pick) {
    unsigned subset = 0;
    std::size_t size = 0;
    for (std::size_t c = 0; c < n; ++c) {
      if ((pick >> c & 1U) == 0) continue;
      subset |= 1U << static_cast<unsigned>(players[c]);
      ++size;
    }
    for (std::size_t c = 0; c < n; ++c) {
      if ((pick >> c & 1U) != 0) continue;
      FT_ASSIGN(const double without, replayer.StepSeconds(subset));
      FT_ASSIGN(const double with,
                replayer.StepSeconds(subset | 1U << static_cast<unsigned>(players[c])));
      out.shares[c].seconds += weight[size] * (with - without);
    }
  }
  return {};
}

// Estimates Shapley values by the mean of marginal contributions over 64 random orders. The seed is
// fixed, so that two calls give the same shares.
Result<void> ShareBySampling(Replayer& replayer, std::vector<GapClass> players, Attribution& out) {
  std::mt19937_64 random(1);
  std::array<double, kGapClassCount> sum{}, squares{};
  const std::vector<GapClass> listed = players;
  for (int order = 0; order < kSampledOrders; ++order) {
    for (std::size_t i = players.size(); i > 1; --i)
      std::swap(players[i - 1], players[random() % i]);
    unsigned subset = 0;
    FT_ASSIGN(double before, replayer.StepSeconds(subset));
    for (const GapClass player : players) {
      subset |= 1U << static_cast<unsigned>(player);
      FT_ASSIGN(const double after, replayer.StepSeconds(subset));
      const auto c = static_cast<std::size_t>(player);
      sum[c] += after - before;
      squares[c] += (after - before) * (after - before);
      before = after;
    }
  }
  for (const GapClass player : listed) {
    const auto c = static_cast<std::size_t>(player);
    const double mean = sum[c] / kSampledOrders;
    const double variance = std::max(0.0, squares[c] / kSampledOrders - mean * mean);
    out.shares.push_back({player, mean, std::sqrt(variance / kSampledOrders)});
  }
  out.exact = false;
  return {};
}

}  // namespace

std::string Describe(const MachineShare& share) {
  switch (share.cause) {
    case MachineCause::kThrottled:
      return share.rank < 0 ? "throttled GPUs"
                            : "throttled GPU of rank " + std::to_string(share.rank);
    case MachineCause::kCoreWait:
      return "waiting for cores";
    case MachineCause::kSlowRank:
      break;
  }
  return "slow rank " + std::to_string(share.rank);
}

bool Attribution::Trusted() const {
  return measured_s > 0 && std::abs(unexplained_s) <= kTrustedShare * measured_s;
}

// Shares are exact where all subsets together simulate at most kExactOps op instances. Larger
// programs get sampled shares, whose cost grows linearly with the number of classes.
Result<Attribution> AttributeGap(const Program& program, const ProgramCosts& costs,
                                 const Timeline& measured, int step, const MachineState& machine) {
  Attribution out;
  for (const StepWindow& window : measured.steps) {
    if (window.step == step) {
      out.measured_s = std::max(out.measured_s, SecondsFromNs(window.end_ns - window.start_ns));
    }
  }
  if (out.measured_s <= 0) {
    return Fail(ErrorCode::kInvalidArgument,
                "the measured run has no step " + std::to_string(step) + " to explain");
  }
  FT_ASSIGN(MeasuredWork work, CollectWork(program, measured, step));
  out.covered = work.covered;
  std::vector<GapClass> players;
  unsigned all = 0;
  for (int c = 0; c < kGapClassCount; ++c) {
    if (!work.present[static_cast<std::size_t>(c)]) continue;
    players.push_back(static_cast<GapClass>(c));
    all |= 1U << static_cast<unsigned>(c);
  }
  FT_ASSIGN(out.replayed_s, Replayer(program, costs, work).StepSeconds(all));
  double at = out.replayed_s;
  for (const MachineSlowdown& slowdown : SlowdownsOf(program, costs, work, machine)) {
    TakeOut(slowdown, work);
    FT_ASSIGN(const double without, Replayer(program, costs, work).StepSeconds(all));
    out.machine.push_back({slowdown.cause, slowdown.rank, at - without});
    at = without;
  }
  Replayer replayer(program, costs, work);
  FT_ASSIGN(out.predicted_s, replayer.StepSeconds(0));
  std::int64_t ops = 0;
  for (const auto& rank : work.seconds) ops += static_cast<std::int64_t>(rank.size());
  const std::int64_t subsets = std::int64_t{1} << players.size();
  FT_TRY(ops * kReplaySteps * subsets <= kExactOps ? ShareExactly(replayer, players, out)
                                                   : ShareBySampling(replayer, players, out));
  out.unexplained_s = out.measured_s - out.replayed_s;
  out.replays = replayer.replays();
  return out;
}

}  // namespace foretrain
