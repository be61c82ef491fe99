#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/program/ir/program.h"
#include "sim/program/link/couplings.h"
#include "sim/program/link/progress.h"
#include "sim/program/verify/checks.h"

namespace foretrain {
namespace {

// Two steps show every cycle that involves edges of distance 1.
constexpr int kStepsPlayed = 2;

// Whether rank `b` equals a checked rank `a` in everything that the checks of a single rank read.
// If so, it need not be checked again.
bool AreCheckedAlike(const Program& program, std::size_t a, std::size_t b,
                     const std::vector<FlatStep>& steps) {
  const RankProgram& rank_a = program.ranks[a];
  const RankProgram& rank_b = program.ranks[b];
  if (!AreLinkedAlike(rank_a, steps[a], rank_b, steps[b])) return false;
  // AreLinkedAlike compares what Link reads; the rest is compared here.
  const auto place = [](const Buffer& buffer) {
    return std::tuple(buffer.offset, buffer.first_op, buffer.last_op, buffer.holds);
  };
  const auto edge = [](const Edge& e) { return std::tuple(e.from, e.to, e.distance); };
  const auto members = [&program](std::int32_t group) {
    return group < 0 ? 0 : program.groups[static_cast<std::size_t>(group)].size();
  };
  const auto work = [](const Op& op) { return std::pair(op.kind, op.group); };
  const auto alike = [&](const Instruction& x, const Instruction& y) {
    if (x.key != y.key || x.for_next_step != y.for_next_step) return false;
    return x.block == y.block ||
           std::ranges::equal(program.blocks[static_cast<std::size_t>(x.block)].ops,
                              program.blocks[static_cast<std::size_t>(y.block)].ops, {}, work,
                              work);
  };
  return rank_a.arena_bytes == rank_b.arena_bytes &&
         std::ranges::equal(rank_a.buffers, rank_b.buffers, {}, place, place) &&
         std::ranges::equal(rank_a.edges, rank_b.edges, {}, edge, edge) &&
         std::ranges::equal(rank_a.groups, rank_b.groups, {}, members, members) &&
         std::ranges::equal(rank_a.step, rank_b.step, alike);
}

}  // namespace

// Single-rank checks run once for each kind of rank of a stage, since most ranks are alike. The
// deadlock check needs all ranks, and CheckOrder comes last because it is the slowest.
Result<void> Verify(const Program& program, int run_ahead_ops) {
  FT_CHECK(run_ahead_ops > 0);
  FT_TRY(CheckStructure(program));
  std::vector<FlatStep> steps;
  std::vector<std::size_t> unlike;  // ranks that are not like an earlier one
  std::map<int, std::vector<std::size_t>> of_stage;
  for (std::size_t i = 0; i < program.ranks.size(); ++i) {
    const RankProgram& rank = program.ranks[i];
    steps.push_back(Flatten(program, rank));
    std::vector<std::size_t>& known = of_stage[rank.pp];
    if (std::any_of(known.begin(), known.end(),
                    [&](std::size_t other) { return AreCheckedAlike(program, other, i, steps); })) {
      continue;
    }
    known.push_back(i);
    unlike.push_back(i);
    FT_TRY(CheckPasses(program, rank));
    FT_TRY(CheckLayout(program, rank, steps.back()));
    FT_TRY(CheckContents(program, rank, steps.back()));
    FT_TRY(CheckHolders(program, rank, steps.back()));
  }
  // From here on all ranks are considered together.
  FT_ASSIGN(const Couplings couplings, Couple(program, steps));
  const auto circle = FindDeadlock(program, steps, couplings, run_ahead_ops, kStepsPlayed);
  if (circle.has_value()) {
    return Fail(ErrorCode::kInvalidArgument,
                DescribeDeadlock(program, steps, *circle, run_ahead_ops));
  }
  for (const std::size_t i : unlike) {
    FT_TRY(CheckOrder(program, program.ranks[i], steps[i]));
  }
  return {};
}

}  // namespace foretrain
