// Microbenchmarks that are excerpts of compiled plans.
#include <algorithm>
#include <tuple>

#include "runtime/calibrate/microbenchmark.h"
#include "sim/program/ir/groups.h"

namespace foretrain {
namespace {

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

// True if a rank executes the instruction alone: compute, copies, disk reads and writes.
bool IsOwn(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::kSend:
    case InstructionKind::kRecv:
    case InstructionKind::kAllReduce:
    case InstructionKind::kReduceScatter:
    case InstructionKind::kAllGather:
    case InstructionKind::kScalarReduce:
      return false;
    default:
      return true;
  }
}

const Block& BlockOf(const Program& program, const Instruction& instruction) {
  return program.blocks[At(instruction.block)];
}

int GroupSize(const Program& program, const RankProgram& rank, GroupKind kind) {
  const std::int32_t group = rank.groups[static_cast<std::size_t>(kind)];
  return group < 0 ? 1 : static_cast<int>(program.groups[At(group)].size());
}

// Selects instructions. One is taken if it has an op that no earlier microbenchmark covers and that
// was taken fewer than `repeats` times.
class Chooser {
 public:
  Chooser(const Program& program, int concurrency, bool alone, int repeats, const Coverage& covered)
      : program_(program),
        concurrency_(concurrency),
        alone_(alone),
        repeats_(repeats),
        covered_(covered) {}

  // True if instruction `number`, the same on all `ranks`, is to be taken.
  bool Take(const std::vector<const RankProgram*>& ranks, std::size_t number) {
    bool wanted = false;
    Coverage counts;  // max over ranks: shards of a bucket may differ in size
    for (const RankProgram* rank : ranks) {
      Coverage of_rank;
      for (const Op& op : BlockOf(program_, rank->step[number]).ops) {
        if (!Counts(op)) continue;
        const ProfilePoint key = KeyOf(*rank, op);
        wanted = wanted || (covered_.count(key) == 0 && taken_[key] < repeats_);
        ++of_rank[key];
      }
      for (const auto& [key, count] : of_rank) counts[key] = std::max(counts[key], count);
    }
    if (!wanted) return false;
    for (const auto& [key, count] : counts) taken_[key] += count;
    return true;
  }

  // Ops taken by this chooser, with counts.
  const Coverage& taken() const { return taken_; }

 private:
  bool Counts(const Op& op) const {
    return op.kind != OpKind::kHostRead && op.kind != OpKind::kReadCounts &&
           op.kind != OpKind::kOpaque && !(alone_ && IsCommunication(op.kind));
  }
  ProfilePoint KeyOf(const RankProgram& rank, const Op& op) const {
    const int group = IsCommunication(op.kind) ? GroupSize(program_, rank, op.group) : 1;
    return PointOf(op, group, 1, concurrency_);
  }

  const Program& program_;
  const int concurrency_;
  const bool alone_;
  const int repeats_;
  const Coverage& covered_;
  Coverage taken_;
};

// The ranks of a pipeline stage, ascending; they have the same instructions.
std::vector<const RankProgram*> StageRanks(const Program& plan, int pp) {
  std::vector<const RankProgram*> ranks;
  for (const RankCoordinates& at : RanksOfStage(plan.plan, pp)) {
    ranks.push_back(&plan.ranks[At(RankOf(plan.plan, at))]);
  }
  return ranks;
}

// Appends instruction `number` of a stage to all ranks, each taking the part of its counterpart in
// the stage. If `alone`, appends the first rank's instruction to the only rank.
void AppendStage(BenchmarkWriter& writer, const Program& plan,
                 const std::vector<const RankProgram*>& stage, std::size_t number, bool alone) {
  if (alone) {
    return writer.Append(0, 0, plan, *stage.front(), stage.front()->step[number], true);
  }
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    const RankProgram& to = plan.ranks[r];
    const RankProgram& from = *stage[At(to.rank % static_cast<std::int64_t>(stage.size()))];
    writer.Append(static_cast<int>(r), 0, plan, from, from.step[number], false);
  }
}

// Order in which communication is timed, one op after the other: along the pipeline and back, then
// groups in one order on all ranks. No two ranks can then wait for each other.
std::tuple<int, int, int, std::int64_t> OrderOf(const Op& op) {
  if (op.kind == OpKind::kSend || op.kind == OpKind::kRecv) {
    const bool forward = (op.kind == OpKind::kSend) == (op.group == GroupKind::kNext);
    return {forward ? 0 : 1, op.kind == OpKind::kRecv ? 0 : 1, 0, 0};
  }
  return {2, static_cast<int>(op.group), static_cast<int>(op.kind), op.shape.elements};
}

// Numbers of the rank's communication instructions that are taken, in that order.
std::vector<std::int32_t> ChooseCommunication(const Program& plan, const RankProgram& rank,
                                              int repeats, const Coverage& covered,
                                              Coverage& taken) {
  Chooser chooser(plan, plan.plan.World(), false, repeats, covered);
  std::vector<std::int32_t> chosen;
  for (std::size_t i = 0; i < rank.step.size(); ++i) {
    if (IsOwn(rank.step[i].key.kind)) continue;
    if (chooser.Take({&rank}, i)) chosen.push_back(static_cast<std::int32_t>(i));
  }
  taken.insert(chooser.taken().begin(), chooser.taken().end());
  std::stable_sort(chosen.begin(), chosen.end(), [&](std::int32_t a, std::int32_t b) {
    const auto order = [&](std::int32_t i) {
      return OrderOf(BlockOf(plan, rank.step[At(i)]).ops.front());
    };
    return order(a) < order(b);
  });
  return chosen;
}

}  // namespace

Microbenchmark ComputeBenchmark(const Program& plan, bool alone, int repeats, Coverage& coverage,
                                SampleTable& table) {
  const Plan& p = plan.plan;
  const int concurrency = alone ? 1 : p.World();
  BenchmarkWriter writer(Describe(p), concurrency, table);
  if (!alone) writer.SetGroups(plan.groups);
  RankProgram single;
  single.groups.fill(-1);
  for (const RankProgram& rank : plan.ranks) {
    writer.AddRank(alone ? single : rank);
    if (alone) break;
  }
  Chooser chooser(plan, concurrency, alone, repeats, coverage);
  // Every rank executes the instructions of all stages, so that all ranks are equally busy.
  for (int pp = 0; pp < p.pp; ++pp) {
    const std::vector<const RankProgram*> stage = StageRanks(plan, pp);
    for (std::size_t i = 0; i < stage.front()->step.size(); ++i) {
      const InstructionKind kind = stage.front()->step[i].key.kind;
      if (!IsOwn(kind)) continue;
      if (kind == InstructionKind::kHostRead) {
        // One host read, at the end of a step.
        if (pp + 1 == p.pp && !writer.empty()) AppendStage(writer, plan, stage, i, alone);
      } else if (!alone) {
        if (chooser.Take(stage, i)) AppendStage(writer, plan, stage, i, false);
      } else {
        for (const RankProgram* rank : stage) {
          if (chooser.Take({rank}, i)) writer.Append(0, 0, plan, *rank, rank->step[i], true);
        }
      }
    }
  }
  coverage.insert(chooser.taken().begin(), chooser.taken().end());
  return writer.Take(plan.model.vocab);
}

// Each instruction waits for the one before it, so that no two collectives share the links while
// timed.
Microbenchmark CommunicationBenchmark(const Program& plan, int repeats, Coverage& coverage,
                                      SampleTable& table) {
  BenchmarkWriter writer("communication of " + Describe(plan.plan), plan.plan.World(), table);
  writer.SetGroups(plan.groups);
  Coverage taken;
  for (const RankProgram& rank : plan.ranks) {
    const int to = writer.AddRank(rank);
    for (const std::int32_t i : ChooseCommunication(plan, rank, repeats, coverage, taken)) {
      writer.Append(to, 0, plan, rank, rank.step[At(i)], false);
      writer.AfterPrevious(to);
    }
  }
  coverage.insert(taken.begin(), taken.end());
  return writer.Take(1);
}

}  // namespace foretrain
