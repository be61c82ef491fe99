#include "sim/compare/pairing.h"

#include <algorithm>
#include <set>

namespace foretrain {
namespace {

// The totals of one rank, which are consecutive because `totals` is sorted by rank.
std::span<const OpTotal> TotalsOfRank(std::span<const OpTotal> totals, int rank) {
  const auto [begin, end] = std::equal_range(
      totals.begin(), totals.end(), OpTotal{.rank = static_cast<std::int16_t>(rank)},
      [](const OpTotal& a, const OpTotal& b) { return a.rank < b.rank; });
  return {begin, end};
}

// Sums the ops of instruction `whole` among the `totals` of one rank, as one total. Absent: none of
// them ran on its queue.
std::optional<OpTotal> SumOfOps(std::span<const OpTotal> totals, const OpTotal& whole) {
  const auto by_op = [](const OpTotal& total, OpId op) { return total.op < op; };
  // kWholeInstruction is the largest op number, so the instruction's ops are in [first, whole.op).
  const OpId first = whole.op & ~OpId{kWholeInstruction};
  auto at = std::lower_bound(totals.begin(), totals.end(), first, by_op);
  std::optional<OpTotal> sum;
  for (; at != totals.end() && at->op < whole.op; ++at) {
    if (at->queue != whole.queue) continue;
    if (!sum.has_value()) {
      sum = *at;
      sum->op = whole.op;
      continue;
    }
    sum->busy_ns += at->busy_ns;
    sum->start_ns = std::min(sum->start_ns, at->start_ns);
    sum->end_ns = std::max(sum->end_ns, at->end_ns);
    sum->bytes += at->bytes;
    sum->spans += at->spans;
  }
  return sum;
}

bool IsWhole(const OpTotal& total) { return OpNumber(total.op) == kWholeInstruction; }

// Merges two lists of one rank by op id. Both are sorted, so one pass over them is enough.
std::vector<PairedOp> MergeById(std::span<const OpTotal> predicted,
                                std::span<const OpTotal> measured, int rank) {
  std::vector<PairedOp> pairs;
  std::size_t p = 0, m = 0;
  while (p < predicted.size() || m < measured.size()) {
    const bool has_predicted =
        p < predicted.size() && (m == measured.size() || predicted[p].op <= measured[m].op);
    const bool has_measured =
        m < measured.size() && (p == predicted.size() || measured[m].op <= predicted[p].op);
    PairedOp pair{.op = has_predicted ? predicted[p].op : measured[m].op,
                  .rank = static_cast<std::int16_t>(rank)};
    if (has_predicted) pair.predicted = predicted[p++];
    if (has_measured) pair.measured = measured[m++];
    pairs.push_back(pair);
  }
  return pairs;
}

// Pairs an instruction known only as a whole with the sum of the other side's ops. Those ops then
// need no pair of their own and are dropped.
void PairWholes(std::span<const OpTotal> predicted, std::span<const OpTotal> measured,
                std::vector<PairedOp>& pairs) {
  std::set<OpId> summed;
  for (PairedOp& pair : pairs) {
    if (OpNumber(pair.op) != kWholeInstruction || pair.IsPair()) continue;
    if (pair.predicted.has_value()) {
      pair.measured = SumOfOps(measured, *pair.predicted);
    } else {
      pair.predicted = SumOfOps(predicted, *pair.measured);
    }
    if (pair.IsPair()) summed.insert(pair.op);
  }
  std::erase_if(pairs, [&summed](const PairedOp& pair) {
    return !pair.IsPair() && summed.contains(InstructionOf(pair.op));
  });
}

}  // namespace

// Copies the spans of one step first: totals are built per timeline.
std::vector<OpTotal> OpTotalsOfStep(const Timeline& timeline, std::int32_t step) {
  Timeline part;
  for (const Span& span : timeline.spans) {
    if (span.step == step) part.spans.push_back(span);
  }
  return OpTotals(part);
}

// Rank by rank: a measured rank without a forecast of its own is paired with the rank that stands
// for it. O(ops log ops), and the result is sorted by rank and op.
std::vector<PairedOp> PairOps(std::span<const OpTotal> predicted, std::span<const OpTotal> measured,
                              std::span<const int> stands_for_rank) {
  int ranks = static_cast<int>(stands_for_rank.size());
  if (!measured.empty()) ranks = std::max(ranks, measured.back().rank + 1);
  if (!predicted.empty() && stands_for_rank.empty()) {
    ranks = std::max(ranks, predicted.back().rank + 1);
  }
  std::vector<PairedOp> pairs;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto place = static_cast<std::size_t>(rank);
    const int stands = place < stands_for_rank.size() ? stands_for_rank[place] : rank;
    const std::span<const OpTotal> of_predicted = TotalsOfRank(predicted, stands);
    const std::span<const OpTotal> of_measured = TotalsOfRank(measured, rank);
    std::vector<PairedOp> of_rank = MergeById(of_predicted, of_measured, rank);
    if (std::any_of(of_predicted.begin(), of_predicted.end(), IsWhole) ||
        std::any_of(of_measured.begin(), of_measured.end(), IsWhole)) {
      PairWholes(of_predicted, of_measured, of_rank);
    }
    pairs.insert(pairs.end(), of_rank.begin(), of_rank.end());
    // An op of a side that knows only whole instructions has no pair of its own.
  }
  return pairs;
}

// Falls back to the instruction as a whole: a side that records instructions has no single ops.
const PairedOp* FindPair(std::span<const PairedOp> pairs, int rank, OpId op) {
  const auto find = [&](OpId id) -> const PairedOp* {
    const auto at = std::lower_bound(pairs.begin(), pairs.end(), std::pair(rank, id),
                                     [](const PairedOp& pair, const std::pair<int, OpId>& key) {
                                       return std::pair<int, OpId>(pair.rank, pair.op) < key;
                                     });
    return at != pairs.end() && at->rank == rank && at->op == id ? &*at : nullptr;
  };
  if (!IsValidId(op)) return nullptr;
  const PairedOp* pair = find(op);
  return pair != nullptr ? pair : find(InstructionOf(op));
}

}  // namespace foretrain
