#include "sim/compare/emulate.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "traces/metrics/op_totals.h"

namespace foretrain {
namespace {

// The upper median of `ns`, which it reorders.
double MedianSeconds(std::vector<std::int64_t>& ns) {
  const auto middle = ns.begin() + static_cast<std::ptrdiff_t>(ns.size() / 2);
  std::nth_element(ns.begin(), middle, ns.end());
  return SecondsFromNs(*middle);
}

}  // namespace

Result<Emulation> EmulateRanks(const Program& program, const ProgramCosts& costs,
                               const Timeline& measured, int first_step, SimulateOptions options) {
  std::map<std::pair<int, OpId>, std::vector<std::int64_t>> busy;
  for (const OpTotal& total : OpTotals(measured)) {
    if (total.step >= first_step) busy[{total.rank, total.op}].push_back(total.busy_ns);
  }
  Replay replay;
  std::int64_t ops = 0, known = 0;
  for (const RankProgram& rank : program.ranks) {
    auto& seconds = replay.seconds.emplace_back();
    for (const OpRef ref : OpRefs(program, rank)) {
      seconds.push_back(std::numeric_limits<double>::quiet_NaN());
      const Op& op = OpAt(program, rank, ref);
      if (!IsCompute(op.op_class) || op.queue == Queue::kHost) continue;
      ++ops;
      const auto found = busy.find({rank.rank, IdOf(rank, ref)});
      if (found == busy.end()) continue;
      ++known;
      seconds.back() = MedianSeconds(found->second);
    }
  }
  if (known == 0) {
    return Fail(ErrorCode::kInvalidArgument, "no compute op was measured from step " +
                                                 std::to_string(first_step) +
                                                 " on; train more steps, with --capture full");
  }
  // Compute ops were measured one at a time, so the replay adds no contention to them.
  options.contention = false;
  options.replay = &replay;
  Emulation emulation;
  emulation.covered = static_cast<double>(known) / static_cast<double>(ops);
  FT_ASSIGN(emulation.simulation, Simulate(program, costs, options));
  return emulation;
}

}  // namespace foretrain
