#include "sim/compare/machine_causes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "sim/program/link/step.h"

namespace foretrain {
namespace {

constexpr double kSlowRank = 1.05;  // of the typical rank's time
constexpr double kMostWait = 0.9;   // of the compute that waiting for cores may explain

bool IsMeasuredCompute(const MeasuredWork& work, std::size_t rank, std::size_t op) {
  return IsCompute(work.classes[rank][op]) && !std::isnan(work.seconds[rank][op]);
}

double ComputeSeconds(const MeasuredWork& work, std::size_t rank) {
  double sum = 0;
  for (std::size_t i = 0; i < work.seconds[rank].size(); ++i) {
    if (IsMeasuredCompute(work, rank, i)) sum += work.seconds[rank][i];
  }
  return sum;
}

MachineSlowdown NoSlowdown(const MeasuredWork& work, MachineCause cause) {
  MachineSlowdown none{.cause = cause};
  for (const auto& seconds : work.seconds) none.seconds.emplace_back(seconds.size(), 0.0);
  return none;
}

// The compute of the rank took `factor` times as long.
void Lengthen(const MeasuredWork& work, std::size_t rank, double factor, MachineSlowdown& out) {
  for (std::size_t i = 0; i < work.seconds[rank].size(); ++i) {
    if (!IsMeasuredCompute(work, rank, i)) continue;
    out.seconds[rank][i] += (work.seconds[rank][i] - out.seconds[rank][i]) * (1 - 1 / factor);
  }
}

double LowerMedian(std::vector<double> values) {
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double RowSeconds(const ProgramCosts& costs, std::size_t rank, std::size_t op) {
  return costs.Alone(costs.row_of[rank][op]);
}

// The share of its compute for which a rank on the machine of rank 0 waits for a core in the
// forecast: 0 unless the ranks have more threads than there are cores.
double ForecastWaitShare(const ProgramCosts& costs) {
  if (costs.cores <= 0) return 0;
  double threads = 0;
  for (std::size_t r = 0; r < costs.row_of.size(); ++r) {
    if (costs.domain[r] != costs.domain[0]) continue;
    double most = 0;
    for (const std::int32_t row : costs.row_of[r]) {
      most = std::max(most, costs.load[static_cast<std::size_t>(row)]);
    }
    threads += most * costs.weight[r];
  }
  return threads <= costs.cores ? 0.0 : 1.0 - costs.cores / threads;
}

void AddThrottled(const Program& program, const MeasuredWork& work, const MachineState& machine,
                  std::vector<MachineSlowdown>& out) {
  MachineSlowdown slowdown = NoSlowdown(work, MachineCause::kThrottled);
  int ranks = 0;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    for (const ThrottledRank& throttled : machine.throttled) {
      if (throttled.rank != program.ranks[r].rank || throttled.slowdown <= 1) continue;
      Lengthen(work, r, throttled.slowdown, slowdown);
      slowdown.rank = ranks++ == 0 ? throttled.rank : -1;
    }
  }
  if (ranks > 0) out.push_back(std::move(slowdown));
}

// Each op's time beyond the median of its name on the rank; 0 for the faster half.
std::vector<double> ExcessOf(const Program& program, const MeasuredWork& work, std::size_t rank) {
  std::map<std::string, std::vector<double>> by_name;
  std::vector<std::string> names;
  for (const OpRef ref : OpRefs(program, program.ranks[rank])) {
    names.push_back(OpAt(program, program.ranks[rank], ref).name);
    const std::size_t i = names.size() - 1;
    if (IsMeasuredCompute(work, rank, i)) by_name[names[i]].push_back(work.seconds[rank][i]);
  }
  std::map<std::string, double> medians;
  for (const auto& [name, seconds] : by_name) medians[name] = LowerMedian(seconds);
  std::vector<double> excess(names.size(), 0.0);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!IsMeasuredCompute(work, rank, i)) continue;
    excess[i] = std::max(0.0, work.seconds[rank][i] - medians[names[i]]);
  }
  return excess;
}

void AddCoreWait(const Program& program, const ProgramCosts& costs, const MeasuredWork& work,
                 const MachineState& machine, std::vector<MachineSlowdown>& out) {
  if (machine.core_wait_s <= 0) return;
  MachineSlowdown slowdown = NoSlowdown(work, MachineCause::kCoreWait);
  const double expected = ForecastWaitShare(costs);
  bool any = false;
  for (std::size_t r = 0; r < work.seconds.size(); ++r) {
    const double compute = ComputeSeconds(work, r);
    const double waited =
        std::clamp(machine.core_wait_s - expected * compute, 0.0, kMostWait * compute);
    if (waited <= 0) continue;
    any = true;
    const std::vector<double> excess = ExcessOf(program, work, r);
    const double all = std::accumulate(excess.begin(), excess.end(), 0.0);
    const double taken = std::min(all, waited);
    for (std::size_t i = 0; i < excess.size() && all > 0; ++i) {
      slowdown.seconds[r][i] = excess[i] * taken / all;
    }
    if (waited > taken) Lengthen(work, r, (compute - taken) / (compute - waited), slowdown);
  }
  if (any) out.push_back(std::move(slowdown));
}

// A rank's seconds in ops of one name, forecast and measured.
struct NamedSum {
  double forecast = 0;
  double measured = 0;
};

// Sums by op name and rank index. Ops without a measurement or a cost are left out.
std::map<std::string, std::map<std::size_t, NamedSum>> SumsByName(const Program& program,
                                                                  const ProgramCosts& costs,
                                                                  const MeasuredWork& work) {
  std::map<std::string, std::map<std::size_t, NamedSum>> sums;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    std::size_t i = 0;
    for (const OpRef ref : OpRefs(program, program.ranks[r])) {
      const double measured = work.seconds[r][i], forecast = RowSeconds(costs, r, i);
      const bool counts = IsMeasuredCompute(work, r, i) && forecast > 0;
      ++i;
      if (!counts) continue;
      NamedSum& sum = sums[OpAt(program, program.ranks[r], ref).name][r];
      sum.forecast += forecast;
      sum.measured += measured;
    }
  }
  return sums;
}

// Each rank's compute over what the typical rank would take for it.
std::vector<double> AgainstTypicalRank(const Program& program, const ProgramCosts& costs,
                                       const MeasuredWork& work) {
  std::vector<double> measured(program.ranks.size(), 0.0), typical(measured);
  for (const auto& [name, by_rank] : SumsByName(program, costs, work)) {
    if (by_rank.size() < 2) continue;
    std::vector<double> ratios;
    for (const auto& [rank, sum] : by_rank) ratios.push_back(sum.measured / sum.forecast);
    const double ratio = LowerMedian(std::move(ratios));
    for (const auto& [rank, sum] : by_rank) {
      measured[rank] += sum.measured;
      typical[rank] += sum.forecast * ratio;
    }
  }
  for (std::size_t r = 0; r < measured.size(); ++r) {
    measured[r] = typical[r] > 0 ? measured[r] / typical[r] : 1.0;
  }
  return measured;
}

void AddSlowRanks(const Program& program, const ProgramCosts& costs, const MeasuredWork& work,
                  std::vector<MachineSlowdown>& out) {
  const std::vector<double> against = AgainstTypicalRank(program, costs, work);
  for (std::size_t r = 0; r < against.size(); ++r) {
    if (against[r] < kSlowRank) continue;
    MachineSlowdown slowdown = NoSlowdown(work, MachineCause::kSlowRank);
    slowdown.rank = program.ranks[r].rank;
    Lengthen(work, r, against[r], slowdown);
    out.push_back(std::move(slowdown));
  }
}

}  // namespace

std::string_view Name(MachineCause cause) {
  constexpr std::array<std::string_view, 3> kNames = {"throttled", "core_wait", "slow_rank"};
  return kNames[static_cast<std::size_t>(cause)];
}

// Each cause is told from work without those before it.
std::vector<MachineSlowdown> SlowdownsOf(const Program& program, const ProgramCosts& costs,
                                         const MeasuredWork& work, const MachineState& machine) {
  std::vector<MachineSlowdown> out;
  MeasuredWork rest = work;
  AddThrottled(program, rest, machine, out);
  for (const MachineSlowdown& slowdown : out) TakeOut(slowdown, rest);
  const std::size_t before = out.size();
  AddCoreWait(program, costs, rest, machine, out);
  for (std::size_t i = before; i < out.size(); ++i) TakeOut(out[i], rest);
  AddSlowRanks(program, costs, rest, out);
  return out;
}

void TakeOut(const MachineSlowdown& slowdown, MeasuredWork& work) {
  for (std::size_t r = 0; r < work.seconds.size(); ++r) {
    for (std::size_t i = 0; i < work.seconds[r].size(); ++i) {
      work.seconds[r][i] -= slowdown.seconds[r][i];
    }
  }
}

}  // namespace foretrain
