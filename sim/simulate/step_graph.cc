#include "sim/simulate/step_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <tuple>

#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

constexpr double kMinCrowding = 1e-5;
constexpr std::int32_t kMaxDistance = 1;  // steps that an edge may reach back: a bit of Pred

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

// Numbers the rendezvous of a program. A rendezvous (channel) is a set of members, a queue or
// direction, and for p2p the sender. The k-th op of each member on a channel meets the k-th ops of
// the others.
class Channels {
 public:
  Channels(const Program& program, StepGraph& graph) : program_(program), graph_(graph) {
    for (std::size_t i = 0; i < program.ranks.size(); ++i) {
      index_of_rank_[program.ranks[i].rank] = static_cast<std::int32_t>(i);
    }
    for (const std::vector<int>& members : program.groups) {
      std::vector<int>& present = present_.emplace_back();
      for (const int member : members) present.push_back(PresentFor(member));
      std::sort(present.begin(), present.end());
      present.erase(std::unique(present.begin(), present.end()), present.end());
      same_.push_back(
          groups_.emplace(present, static_cast<std::int32_t>(groups_.size())).first->second);
    }
  }

  // Channel number of a communication op of rank index `rank`; counts one more use by this rank.
  Result<std::int32_t> Of(int rank, const Op& op) {
    const RankProgram& program_rank = program_.ranks[At(rank)];
    const std::int32_t group = program_rank.groups[static_cast<std::size_t>(op.group)];
    if (op.group == GroupKind::kNone || group < 0 || At(group) >= program_.groups.size()) {
      return Refuse("rank {}: {} is issued on group {}, of which the rank is no member",
                    program_rank.rank, op.name, static_cast<int>(op.group));
    }
    const auto key = std::tuple(same_[At(group)], Matches(op), SenderOf(program_rank, group, op));
    const auto [found, is_new] = numbers_.try_emplace(key, static_cast<std::int32_t>(uses_.size()));
    if (is_new) uses_.emplace_back();
    if (is_new) group_of_.push_back(group);
    ++uses_[At(found->second)][rank];
    return found->second;
  }

  // Checks that all present members use a channel equally often. Otherwise the last op of some rank
  // would wait forever. Then lists the number of members of each channel.
  Result<void> Close() {
    for (std::size_t c = 0; c < uses_.size(); ++c) {
      const auto [first, count] = *uses_[c].begin();
      for (const int member : present_[At(group_of_[c])]) {
        const auto index = index_of_rank_.find(member);
        if (index == index_of_rank_.end()) continue;
        const auto use = uses_[c].find(index->second);
        const std::int64_t has = use == uses_[c].end() ? 0 : use->second;
        if (has != count) {
          return Refuse(
              "ranks {} and {} share a group: the first issues {} ops on one of its queues, the "
              "second {}; the program cannot end",
              program_.ranks[At(first)].rank, member, count, has);
        }
      }
      graph_.channel_members.push_back(static_cast<std::int32_t>(uses_[c].size()));
    }
    return {};
  }

 private:
  // The rank of the program that represents `rank`; the rank itself without folding.
  int PresentFor(int rank) const {
    return program_.stands_for.empty() ? rank : program_.stands_for[At(rank)];
  }

  // Sender of a p2p op; -1: a collective. The sender is part of the key: in a ring of two,
  // both neighbours are the same rank and both send to their next rank.
  int SenderOf(const RankProgram& rank, std::int32_t group, const Op& op) const {
    if (op.kind == OpKind::kSend) return rank.rank;
    if (op.kind != OpKind::kRecv) return -1;
    const std::vector<int>& members = program_.groups[At(group)];
    const auto other = std::find_if(members.begin(), members.end(),
                                    [&rank](int member) { return member != rank.rank; });
    return other == members.end() ? -1 : PresentFor(*other);
  }

  // Collectives match on a queue. P2p ops match by direction, because the two sides use different
  // queues.
  static int Matches(const Op& op) {
    constexpr int kUp = -1;
    constexpr int kDown = -2;
    if (op.kind == OpKind::kSend) return op.group == GroupKind::kNext ? kUp : kDown;
    if (op.kind == OpKind::kRecv) return op.group == GroupKind::kPrev ? kUp : kDown;
    return static_cast<int>(op.queue);
  }

  const Program& program_;
  StepGraph& graph_;
  std::map<int, std::int32_t> index_of_rank_;
  std::vector<std::vector<int>> present_;            // [group]: ranks that represent its members
  std::map<std::vector<int>, std::int32_t> groups_;  // groups with equal representatives, numbered
  std::vector<std::int32_t> same_;                   // [group]: that number
  std::map<std::tuple<std::int32_t, int, int>, std::int32_t> numbers_;
  std::vector<std::map<int, std::int64_t>> uses_;  // [channel]: rank index -> ops
  std::vector<std::int32_t> group_of_;             // [channel]
};

// Checks that costs have the shape of the program and hold only finite times.
Result<void> CheckCosts(const Program& program, const ProgramCosts& costs) {
  const std::size_t rows = costs.launch_s.size();
  const bool whole = !costs.levels.empty() && costs.seconds.size() == rows * costs.levels.size() &&
                     costs.load.size() == rows && costs.measured_threads.size() == rows &&
                     (costs.demand.empty() || costs.demand.size() == rows);
  if (!whole || costs.row_of.size() != program.ranks.size() ||
      costs.domain.size() != program.ranks.size() || costs.weight.size() != program.ranks.size()) {
    return Refuse("the costs are not those of this program: {} ranks against {}",
                  costs.row_of.size(), program.ranks.size());
  }
  const auto is_time = [](double seconds) { return seconds >= 0 && std::isfinite(seconds); };
  if (!std::all_of(costs.seconds.begin(), costs.seconds.end(), is_time) ||
      !std::all_of(costs.launch_s.begin(), costs.launch_s.end(), is_time)) {
    return Refuse("the costs hold a time that is negative or not finite");
  }
  if (costs.levels.front() != 1.0 ||
      std::adjacent_find(costs.levels.begin(), costs.levels.end(), std::greater_equal<>()) !=
          costs.levels.end()) {
    return Refuse("the costs' concurrency levels must ascend from 1");
  }
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const std::vector<std::int32_t>& row_of = costs.row_of[r];
    const bool known = std::all_of(row_of.begin(), row_of.end(),
                                   [rows](std::int32_t row) { return row >= 0 && At(row) < rows; });
    if (!known || row_of.size() != At(program.ranks[r].op_count) || costs.domain[r] < 0) {
      return Refuse("rank {}: {} ops have costs, the step has {}; link the program first",
                    program.ranks[r].rank, row_of.size(), program.ranks[r].op_count);
    }
  }
  return {};
}

// Adds the nodes of one rank, in issue order.
Result<void> AddNodes(const Program& program, const ProgramCosts& costs, int rank,
                      Channels& channels, StepGraph& graph) {
  const RankProgram& from = program.ranks[At(rank)];
  std::int32_t number = 0;
  for (const Instruction& instruction : from.step) {
    if (instruction.first_op != number) {
      return Refuse("rank {}: op numbers do not follow one another; link the program first",
                    from.rank);
    }
    for (const Op& op : program.blocks[At(instruction.block)].ops) {
      StepGraph::Node node;
      node.slot = (rank * kQueueCount + static_cast<std::int32_t>(op.queue)) & StepGraph::kMaxSlot;
      node.row = number < from.op_count ? costs.row_of[At(rank)][At(number)] : 0;
      node.op_class = op.op_class;
      node.for_next_step = instruction.for_next_step;
      if (IsCommunication(op.kind)) {
        FT_ASSIGN(node.channel, channels.Of(rank, op));
      }
      graph.nodes.push_back(node);
      ++number;
    }
  }
  if (number != from.op_count) {
    return Refuse("rank {}: {} ops, op_count says {}; link the program first", from.rank, number,
                  from.op_count);
  }
  graph.first_op.push_back(graph.first_op.back() + number);
  return {};
}

// Adds the predecessors of one rank's ops. Edges are sorted by `to`, so one pass is enough; an edge
// that breaks the order or a limit stops the pass before the last edge.
Result<void> AddPreds(const RankProgram& rank, std::int32_t first, StepGraph& graph) {
  std::size_t edge = 0;
  for (std::int32_t op = 0; op < rank.op_count; ++op) {
    graph.nodes[At(first + op)].first_pred = static_cast<std::int32_t>(graph.preds.size());
    for (; edge < rank.edges.size() && rank.edges[edge].to == op; ++edge) {
      const Edge& e = rank.edges[edge];
      if (e.from < 0 || e.from >= rank.op_count || e.distance < 0 || e.distance > kMaxDistance) {
        break;
      }
      StepGraph::Pred& pred = graph.preds.emplace_back();
      pred.from = (first + e.from) & StepGraph::kMaxOps;
      pred.queue = static_cast<unsigned>(graph.nodes[At(pred.from)].slot % kQueueCount) & 15U;
      pred.distance = e.distance & 1;
      graph.awaited.Insert(pred.from);
    }
  }
  if (edge != rank.edges.size()) {
    return Refuse("rank {}: edge {} is out of order or out of range; link the program first",
                  rank.rank, edge);
  }
  return {};
}

// Lists the ops of each slot in issue order (a counting sort by slot).
void ListQueues(StepGraph& graph) {
  graph.queue_begin.assign(At(graph.ranks()) * kQueueCount + 1, 0);
  for (std::int32_t op = 0; op < graph.ops(); ++op) {
    ++graph.queue_begin[At(graph.nodes[At(op)].slot) + 1];
  }
  for (std::size_t s = 1; s < graph.queue_begin.size(); ++s) {
    graph.queue_begin[s] += graph.queue_begin[s - 1];
  }
  graph.queue_ops.resize(At(graph.ops()));
  std::vector<std::int32_t> next(graph.queue_begin.begin(), graph.queue_begin.end() - 1);
  for (std::int32_t op = 0; op < graph.ops(); ++op) {
    graph.queue_ops[At(next[At(graph.nodes[At(op)].slot)]++)] = op;
  }
}

// Marks the ops whose time depends on what else runs. Where threads decide, these are all ops.
// Otherwise an op is marked if it uses a connection that the queues of its machine can overload
// together. kMinCrowding ignores tiny transfers: the sum of a scalar demands 1e-6 of a connection.
void MarkContention(const ProgramCosts& costs, StepGraph& graph) {
  if (costs.levels.size() > 1 || costs.cores > 0) {
    for (StepGraph::Node& node : graph.nodes) node.contends = true;
    return;
  }
  if (costs.demand.empty()) return;
  std::vector<bool> demands(costs.demand.size());
  for (std::size_t row = 0; row < demands.size(); ++row) {
    demands[row] = costs.demand[row] != WireDemand{};
  }
  std::vector<WireDemand> max(At(graph.ranks()) * kQueueCount);  // [slot]: largest of its ops
  for (const StepGraph::Node& node : graph.nodes) {
    if (!demands[At(node.row)]) continue;
    const WireDemand& demand = costs.demand[At(node.row)];
    WireDemand& of_slot = max[At(node.slot)];
    for (std::size_t wire = 0; wire < demand.size(); ++wire) {
      of_slot[wire] = std::max(of_slot[wire], demand[wire]);
    }
  }
  std::map<std::int32_t, WireDemand> sums;  // [domain]
  for (std::size_t slot = 0; slot < max.size(); ++slot) {
    WireDemand& sum = sums[costs.domain[slot / kQueueCount]];
    for (std::size_t wire = 0; wire < sum.size(); ++wire) sum[wire] += max[slot][wire];
  }
  std::vector<const WireDemand*> sum_of;  // [rank]
  for (const std::int32_t domain : costs.domain) sum_of.push_back(&sums.at(domain));
  for (StepGraph::Node& node : graph.nodes) {
    if (!demands[At(node.row)]) continue;
    const WireDemand& sum = *sum_of[At(node.slot / kQueueCount)];
    // Counts bits before each word once, so that NumberOf is O(1).
    const WireDemand& demand = costs.demand[At(node.row)];
    for (std::size_t wire = 0; wire < sum.size(); ++wire) {
      node.contends = node.contends || (demand[wire] > 0 && sum[wire] > 1 + kMinCrowding);
    }
  }
}

}  // namespace

void StepGraph::Awaited::Count() {
  before_.clear();
  size_ = 0;
  for (const std::uint64_t bits : bits_) {
    before_.push_back(static_cast<std::uint32_t>(size_));
    size_ += static_cast<std::size_t>(std::popcount(bits));
  }
}

std::int32_t StepGraph::PartAt(std::int32_t op) const {
  const auto found =
      std::lower_bound(parts.begin(), parts.end() - 1, op,
                       [](const Part& part, std::int32_t first) { return part.first_op < first; });
  return static_cast<std::int32_t>(found - parts.begin());
}

namespace {

// Builds the graph. `taken` is called for each rank whose edges and rows have been copied.
Result<StepGraph> Build(const Program& program, const ProgramCosts& costs,
                        const std::function<void(std::size_t)>& taken) {
  FT_TRY(CheckCosts(program, costs));
  StepGraph graph;
  graph.overlaps = StepsOverlap(program);
  graph.first_op.push_back(0);
  std::size_t ops = 0, edges = 0;
  for (const RankProgram& rank : program.ranks) {
    ops += At(rank.op_count);
    edges += rank.edges.size();
  }
  if (program.ranks.size() > At(StepGraph::kMaxRanks)) {
    return Refuse("{} ranks: give at most {}", program.ranks.size(), StepGraph::kMaxRanks);
  }
  if (ops > At(StepGraph::kMaxOps)) {
    return Refuse(
        "{} ops a step of {} ranks: at most {} are simulated; simulate fewer ranks or "
        "micro-batches",
        ops, program.ranks.size(), StepGraph::kMaxOps);
  }
  graph.nodes.reserve(ops + 1);
  graph.preds.reserve(edges);
  Channels channels(program, graph);
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    FT_TRY(AddNodes(program, costs, static_cast<int>(r), channels, graph));
  }
  FT_TRY(channels.Close());
  MarkContention(costs, graph);
  graph.awaited.Resize(graph.ops());
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    FT_TRY(AddPreds(program.ranks[r], graph.first_op[r], graph));
    taken(r);
  }
  StepGraph::Node end;
  end.first_pred = static_cast<std::int32_t>(graph.preds.size());
  graph.nodes.push_back(end);
  graph.awaited.Count();
  ListQueues(graph);
  FindParts(program, costs, graph);
  return graph;
}

}  // namespace

Result<StepGraph> BuildStepGraph(const Program& program, const ProgramCosts& costs) {
  return Build(program, costs, [](std::size_t) {});
  // Finds the instruction by binary search over first_op.
}

Result<StepGraph> TakeStepGraph(Program& program, ProgramCosts& costs) {
  return Build(program, costs, [&](std::size_t rank) {
    program.ranks[rank].edges = {};
    costs.row_of[rank] = {};
  });
}

OpRef RefOf(const RankProgram& rank, std::int32_t number) {
  const auto after = std::upper_bound(
      rank.step.begin(), rank.step.end(), number,
      [](std::int32_t n, const Instruction& instruction) { return n < instruction.first_op; });
  const auto instruction = static_cast<std::int32_t>(after - rank.step.begin()) - 1;
  return {instruction, number - rank.step[At(instruction)].first_op};
}

}  // namespace foretrain
