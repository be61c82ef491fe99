// Costs of programs and largest causes, for tests of gap attribution.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/compare/attribution.h"
#include "sim/cost/program_costs.h"
#include "sim/program/link/step.h"

namespace foretrain {

// Costs with a row for each op, in the order of ranks and of their steps.
//
//   seconds   of op number `op` of the rank with index `rank`
//   launch_s  host time to issue an op
inline ProgramCosts CostsByOp(
    const Program& program,
    const std::function<double(const Op&, std::size_t rank, std::size_t op)>& seconds,
    double launch_s = 0) {
  ProgramCosts costs;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    auto& rows = costs.row_of.emplace_back();
    for (const OpRef ref : OpRefs(program, program.ranks[r])) {
      const std::size_t op = rows.size();
      rows.push_back(static_cast<std::int32_t>(costs.launch_s.size()));
      costs.seconds.push_back(seconds(OpAt(program, program.ranks[r], ref), r, op));
      costs.launch_s.push_back(launch_s);
      costs.load.push_back(0);
      costs.measured_threads.push_back(1);
      costs.provenance.push_back(Provenance::kMeasured);
      costs.error.push_back(0);
    }
    costs.domain.push_back(static_cast<std::int32_t>(r));
    costs.weight.push_back(1);
  }
  return costs;
}

struct NamedGap {
  std::string name;
  double seconds = 0;
};

// The largest part of a gap: a cause in the machine, a class of ops, or "unexplained".
inline NamedGap LargestOf(const Attribution& attribution) {
  std::vector<NamedGap> all = {{"unexplained", attribution.unexplained_s}};
  for (const MachineShare& share : attribution.machine) {
    all.push_back({Describe(share), share.seconds});
  }
  for (const GapShare& share : attribution.shares) {
    all.push_back({std::string(Name(share.gap_class)), share.seconds});
  }
  return *std::max_element(all.begin(), all.end(), [](const NamedGap& a, const NamedGap& b) {
    return std::abs(a.seconds) < std::abs(b.seconds);
  });
}

}  // namespace foretrain
