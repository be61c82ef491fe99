#include "sim/compare/attribution.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "base/units.h"
#include "sim/program/link/couplings.h"
#include "sim/program/link/step.h"
#include "sim/simulate/simulate.h"
#include "traces/metrics/op_totals.h"

namespace foretrain {
namespace {

constexpr double kTrustedShare = 0.03;  // max unexplained share of the measured step
constexpr int kSampledOrders = 64;
constexpr std::int64_t kExactOps = 20'000'000;  // op instances that all subsets together may take
constexpr int kReplaySteps = 4;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Measured work of each op, by rank index and op number. NaN: no measurement was recorded.
struct MeasuredWork {
  std::vector<std::vector<double>> seconds;
  std::vector<std::vector<double>> launch_s;
  std::vector<std::vector<GapClass>> classes;
  std::array<bool, kGapClassCount> present{};
  double covered = 0;
};

struct Found {
  std::int64_t busy_ns = 0;
  std::int64_t ready_ns = 0;
  std::int64_t end_ns = 0;
};

// Spans of one step: the launches on the host queue, or everything else.
Timeline StepOf(const Timeline& timeline, int step, bool launches) {
  Timeline part;
  part.world = timeline.world;
  for (const Span& span : timeline.spans) {
    if (span.step == step && (span.queue == Queue::kHost) == launches) part.spans.push_back(span);
  }
  return part;
}

// An op may have several spans in a step; their total is one entry.
std::map<std::pair<int, OpId>, Found> FindOps(const Timeline& timeline) {
  std::map<std::pair<int, OpId>, Found> found;
  for (const OpTotal& total : OpTotals(timeline)) {
    found[{total.rank, total.op}] = {total.busy_ns, total.ready_ns, total.end_ns};
  }
  return found;
}

// Replaces the time of a communication op by its wire time: the time from the arrival of its last
// member to its end. A collective ends on all members when the slowest is done, so all get one
// length.
Result<void> UseWireTimes(const Program& program,
                          const std::map<std::pair<int, OpId>, Found>& found,
                          const std::vector<std::vector<OpId>>& ids, MeasuredWork& work) {
  std::vector<FlatStep> steps;
  for (const RankProgram& rank : program.ranks) steps.push_back(Flatten(program, rank));
  FT_ASSIGN(const Couplings couplings, Couple(program, steps));
  for (std::size_t c = 0; c + 1 < couplings.first.size(); ++c) {
    const auto members = couplings.MembersOf(static_cast<std::int32_t>(c));
    std::int64_t latest = std::numeric_limits<std::int64_t>::min();
    std::int64_t end = latest;
    bool complete = true;
    for (const OpPlace& member : members) {
      const auto rank = static_cast<std::size_t>(member.rank);
      const auto op =
          found.find({program.ranks[rank].rank, ids[rank][static_cast<std::size_t>(member.op)]});
      complete = complete && op != found.end();
      if (op == found.end()) continue;
      latest = std::max(latest, op->second.ready_ns);
      end = std::max(end, op->second.end_ns);
    }
    for (const OpPlace& member : members) {
      work.seconds[static_cast<std::size_t>(member.rank)][static_cast<std::size_t>(member.op)] =
          complete ? SecondsFromNs(std::max<std::int64_t>(end - latest, 0)) : kUnknown;
    }
  }
  return {};
}

// Gathers the measured seconds and launch seconds of each op of `step`. A class takes part in the
// attribution when the program has ops of it; the host class needs recorded launches.
Result<MeasuredWork> CollectWork(const Program& program, const Timeline& measured, int step) {
  const auto device = FindOps(StepOf(measured, step, false));
  const auto host = FindOps(StepOf(measured, step, true));
  MeasuredWork work;
  std::vector<std::vector<OpId>> ids;
  std::int64_t ops = 0, known = 0;
  for (const RankProgram& rank : program.ranks) {
    auto& seconds = work.seconds.emplace_back();
    auto& launches = work.launch_s.emplace_back();
    auto& classes = work.classes.emplace_back();
    auto& rank_ids = ids.emplace_back();
    for (const OpRef ref : OpRefs(program, rank)) {
      const Op& op = OpAt(program, rank, ref);
      const OpId id = IdOf(rank, ref);
      const auto on_device = device.find({rank.rank, id});
      const auto on_host = host.find({rank.rank, id});
      rank_ids.push_back(id);
      classes.push_back(GapClassOf(op.op_class));
      seconds.push_back(on_device == device.end() ? kUnknown
                                                  : SecondsFromNs(on_device->second.busy_ns));
      launches.push_back(on_host == host.end() || op.queue == Queue::kHost
                             ? kUnknown
                             : SecondsFromNs(on_host->second.busy_ns));
      work.present[static_cast<std::size_t>(classes.back())] = true;
      if (op.queue == Queue::kHost) continue;
      ++ops;
      known += on_device != device.end();
    }
  }
  work.covered = ops == 0 ? 0.0 : static_cast<double>(known) / static_cast<double>(ops);
  work.present[static_cast<std::size_t>(GapClass::kHost)] = !host.empty();
  FT_TRY(UseWireTimes(program, device, ids, work));
  return work;
}

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

std::string_view Name(GapClass gap_class) {
  constexpr std::array<std::string_view, kGapClassCount> kNames = {
      "gemm", "attention", "memory_bound", "tp_cp_ep_comm", "dp_comm", "pp_comm", "copy", "host"};
  return kNames[static_cast<std::size_t>(gap_class)];
}

// Three kinds of model-parallel communication share a class, because each class doubles the exact
// cost.
GapClass GapClassOf(OpClass op_class) {
  switch (op_class) {
    case OpClass::kGemm:
      return GapClass::kGemm;
    case OpClass::kAttention:
      return GapClass::kAttention;
    case OpClass::kMemoryBound:
      return GapClass::kMemoryBound;
    case OpClass::kTpComm:
    case OpClass::kCpComm:
    case OpClass::kEpComm:
      return GapClass::kModelParallel;
    case OpClass::kDpComm:
      return GapClass::kDataParallel;
    case OpClass::kPpComm:
      return GapClass::kPipeline;
    case OpClass::kCopy:
      return GapClass::kCopies;
    case OpClass::kHost:
      return GapClass::kHost;
  }
  return GapClass::kHost;
}

bool Attribution::Trusted() const {
  return measured_s > 0 && std::abs(unexplained_s) <= kTrustedShare * measured_s;
}

// Shares are exact where all subsets together simulate at most kExactOps op instances. Larger
// programs get sampled shares, whose cost grows linearly with the number of classes.
Result<Attribution> AttributeGap(const Program& program, const ProgramCosts& costs,
                                 const Timeline& measured, int step) {
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
  FT_ASSIGN(const MeasuredWork work, CollectWork(program, measured, step));
  out.covered = work.covered;
  std::vector<GapClass> players;
  unsigned all = 0;
  for (int c = 0; c < kGapClassCount; ++c) {
    if (!work.present[static_cast<std::size_t>(c)]) continue;
    players.push_back(static_cast<GapClass>(c));
    all |= 1U << static_cast<unsigned>(c);
  }
  Replayer replayer(program, costs, work);
  FT_ASSIGN(out.predicted_s, replayer.StepSeconds(0));
  FT_ASSIGN(out.replayed_s, replayer.StepSeconds(all));
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
