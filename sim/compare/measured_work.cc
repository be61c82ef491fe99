#include "sim/compare/measured_work.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "base/units.h"
#include "sim/program/link/couplings.h"
#include "sim/program/link/step.h"
#include "traces/metrics/op_totals.h"

namespace foretrain {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

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

Result<MeasuredWork> CollectWork(const Program& program, const Timeline& measured, int step) {
  const auto device = FindOps(StepOf(measured, step, false));
  const auto host = FindOps(StepOf(measured, step, true));
  MeasuredWork work;
  std::vector<std::vector<OpId>> ids;
  std::int64_t ops = 0, known = 0;
  bool host_work = false;  // measured on a queue that is not the launching thread
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
      host_work = host_work || (classes.back() == GapClass::kHost && on_device != device.end());
    }
  }
  work.covered = ops == 0 ? 0.0 : static_cast<double>(known) / static_cast<double>(ops);
  work.present[static_cast<std::size_t>(GapClass::kHost)] = !host.empty() || host_work;
  FT_TRY(UseWireTimes(program, device, ids, work));
  return work;
}

}  // namespace foretrain
