#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "base/parallel.h"
#include "sim/program/compile_unverified.h"
#include "sim/program/ir/program.h"
#include "sim/program/link/clocks.h"
#include "sim/program/link/couplings.h"
#include "sim/program/link/hash.h"
#include "sim/program/link/hazards.h"
#include "sim/program/link/layout.h"
#include "sim/program/link/progress.h"
#include "sim/program/link/step.h"

namespace foretrain {
namespace {

void NumberOps(const Program& program, RankProgram& rank) {
  rank.op_count = 0;
  for (Instruction& instruction : rank.step) {
    FT_CHECK(instruction.block >= 0 &&
             instruction.block < static_cast<std::int32_t>(program.blocks.size()));
    instruction.first_op = rank.op_count;
    const Block& block = program.blocks[static_cast<std::size_t>(instruction.block)];
    rank.op_count += static_cast<std::int32_t>(block.ops.size());
  }
}

// Derives edges from two consecutive steps: the second must wait for what the first leaves behind.
// An edge is made only if the clocks do not imply it, the latest source first, because it may imply
// the earlier ones. The second step starts each op with the edges of the first and so adds only
// those of distance 1; every later step is ordered like it.
std::vector<Edge> DeriveEdges(const RankProgram& rank, const FlatStep& step) {
  HazardMap hazards(step, rank);
  VectorClocks clocks(step, 2);
  std::vector<Edge> edges;
  std::size_t within_step = 0;
  for (int iteration = 0; iteration < 2; ++iteration) {
    const std::int32_t first = iteration * step.Ops();
    if (iteration == 1) within_step = edges.size();
    std::size_t next = 0;
    for (std::int32_t op = 0; op < step.Ops(); ++op) {
      clocks.Begin();
      // Only the second iteration has edges to repeat: those found within the first step.
      for (; next < within_step && edges[next].to == op; ++next) {
        clocks.Join(first + edges[next].from);
      }
      LaneOps after = kNoOps;
      hazards.Visit(op, iteration, after);
      AddThrottle(rank, step, op, iteration, after);
      for (std::int32_t from = clocks.LatestUncovered(after); from >= 0;
           from = clocks.LatestUncovered(after)) {
        clocks.Join(from);
        // A source in the previous iteration makes an edge across steps.
        const std::int32_t distance = from < first ? 1 : 0;
        edges.push_back({from - first + distance * step.Ops(), op, distance});
      }
    }
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
    return std::tie(a.to, a.from, a.distance) < std::tie(b.to, b.from, b.distance);
  });
  return edges;
}

// For each rank the first rank of its stage that links to the same result, usually itself. Such a
// rank copies the result instead of repeating the work.
std::vector<std::size_t> Models(const Program& program, const std::vector<FlatStep>& steps) {
  std::vector<std::size_t> models;
  std::map<int, std::vector<std::size_t>> of_stage;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::vector<std::size_t>& known = of_stage[program.ranks[i].pp];
    const auto found = std::find_if(known.begin(), known.end(), [&](std::size_t other) {
      return AreLinkedAlike(program.ranks[other], steps[other], program.ranks[i], steps[i]);
    });
    models.push_back(found == known.end() ? i : *found);
    if (found == known.end()) known.push_back(i);
  }
  return models;
}

// Copies everything that LayOut and DeriveEdges compute; both ranks have the same buffers in the
// same order.
void TakeLink(const RankProgram& from, RankProgram& to) {
  for (std::size_t i = 0; i < to.buffers.size(); ++i) {
    to.buffers[i].first_op = from.buffers[i].first_op;
    to.buffers[i].last_op = from.buffers[i].last_op;
    to.buffers[i].offset = from.buffers[i].offset;
  }
  to.arena_bytes = from.arena_bytes;
  to.edges = from.edges;
}

// Links the models first and in parallel, then copies: a copy must not start before its model is
// done.
void LinkRanks(Program& program, const std::vector<FlatStep>& steps,
               const std::vector<std::size_t>& models, Reuse reuse, int threads) {
  ForEachInParallel(steps.size(), threads, [&](std::size_t i) {
    if (models[i] != i) return;
    LayOut(steps[i], reuse, program.ranks[i]);
    program.ranks[i].edges = DeriveEdges(program.ranks[i], steps[i]);
  });
  ForEachInParallel(steps.size(), threads, [&](std::size_t i) {
    if (models[i] != i) TakeLink(program.ranks[models[i]], program.ranks[i]);
  });
}

// Whether one step of all ranks runs to its end with these layouts and edges.
bool Runs(const Program& program, const std::vector<FlatStep>& steps, const Couplings& couplings) {
  return !FindDeadlock(program, steps, couplings, kRunAheadOps, 1).has_value();
}

}  // namespace

void LinkAlone(const Program& program, RankProgram& rank) {
  NumberOps(program, rank);
  const FlatStep step = Flatten(program, rank);
  LayOut(step, Reuse::kPacked, rank);
  rank.edges = DeriveEdges(rank, step);
}

void Link(Program& program) { Link(program, 1); }

// Starts with the layout that shares most memory and falls back to less sharing only if its waits
// deadlock. Each attempt links all ranks again.
void Link(Program& program, int threads) {
  std::vector<FlatStep> steps(program.ranks.size());
  ForEachInParallel(steps.size(), threads, [&](std::size_t i) {
    NumberOps(program, program.ranks[i]);
    steps[i] = Flatten(program, program.ranks[i]);
  });
  const std::vector<std::size_t> models = Models(program, steps);
  LinkRanks(program, steps, models, Reuse::kPacked, threads);
  // Verify reports ops without partners; Link only skips the deadlock check for them.
  const auto couplings = Couple(program, steps);
  if (couplings.has_value()) {
    for (const Reuse reuse : {Reuse::kAny, Reuse::kNotPeers, Reuse::kOwnQueue}) {
      if (Runs(program, steps, *couplings)) break;
      LinkRanks(program, steps, models, reuse, threads);
    }
  }
  program.hash = HashOf(program);
}

}  // namespace foretrain
