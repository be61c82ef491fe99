// Part of StepGraph: finds instructions that can be played at once, and shares equal ones.
#include <algorithm>
#include <cstddef>
#include <tuple>
#include <unordered_map>

#include "base/hash.h"
#include "sim/program/ir/transfer_queues.h"
#include "sim/simulate/step_graph.h"

namespace foretrain {
namespace {

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

// Collects parts instruction by instruction. A step repeats the same layers, so equal runs are
// stored once and found by hash.
class PartFinder {
 public:
  PartFinder(const ProgramCosts& costs, StepGraph& graph)
      : costs_(costs), graph_(graph), exported_(At(graph.ops()), false) {}

  // Adds the instruction of ops [first, first + count) as a part, if it is plain.
  void Visit(std::int32_t first, std::int32_t count) {
    if (!IsPlain(first, count)) return;
    const auto outer = graph_.outer.size();
    StepGraph::Run run = RunOf(first, count);
    const std::int32_t number = NumberOf(std::move(run));
    graph_.nodes[At(first)].begins_part = true;
    graph_.parts.push_back({number, first, static_cast<std::int32_t>(outer)});
  }

  // Ends the lists. An op of a run is exported if any part with this run exports it.
  void Close() {
    graph_.parts.push_back({0, 0, static_cast<std::int32_t>(graph_.outer.size())});
    for (const StepGraph::Part& part : graph_.parts) {
      if (&part == &graph_.parts.back()) break;
      StepGraph::Run& run = graph_.runs[At(part.run)];
      for (std::int32_t i = 0; i < run.size(); ++i) {
        if (exported_[At(part.first_op + i)]) run.ops[At(i)].exported = true;
      }
    }
  }

 private:
  std::span<const StepGraph::Pred> PredsOf(std::int32_t op) const {
    const auto begin = At(graph_.nodes[At(op)].first_pred);
    return std::span(graph_.preds).subspan(begin, At(graph_.nodes[At(op) + 1].first_pred) - begin);
  }

  // Whether the instruction can be played at once. If not, the ops it waits for are marked as
  // exported.
  bool IsPlain(std::int32_t first, std::int32_t count) {
    bool plain = count > 1;
    for (std::int32_t op = first; op < first + count; ++op) {
      const StepGraph::Node& node = graph_.nodes[At(op)];
      const bool meets = node.channel >= 0 && graph_.channel_members[At(node.channel)] > 1;
      const auto queue = static_cast<Queue>(node.slot % kQueueCount);
      plain = plain && !meets && !node.contends && !node.for_next_step && queue != Queue::kHost &&
              !IsTransferQueue(queue);
    }
    if (plain) return true;
    for (std::int32_t op = first; op < first + count; ++op) {
      for (const StepGraph::Pred& pred : PredsOf(op)) exported_[At(pred.from)] = true;
    }
    return false;
  }

  // Run of an instruction. Predecessors outside it are added to the graph's outer list.
  StepGraph::Run RunOf(std::int32_t first, std::int32_t count) {
    StepGraph::Run run;
    for (std::int32_t i = 0; i < count; ++i) {
      const StepGraph::Node& node = graph_.nodes[At(first + i)];
      const std::int32_t queue = node.slot % kQueueCount;
      StepGraph::Run::Op& op = run.ops.emplace_back();
      op.seconds = costs_.Alone(node.row);
      op.launch_s = costs_.launch_s[At(node.row)];
      op.first_pred = static_cast<std::int32_t>(run.preds.size());
      op.queue = static_cast<std::uint8_t>(queue);
      run.busy_s[static_cast<std::size_t>(node.op_class)] += op.seconds;
      if (queue == static_cast<int>(Queue::kCompute)) run.compute_s += op.seconds;
      run.launch_s += op.launch_s;
      for (const StepGraph::Pred& pred : PredsOf(first + i)) {
        if (pred.distance == 0 && pred.from >= first) {
          run.preds.push_back(pred.from - first);
        } else {
          graph_.outer.push_back({i, pred});
          exported_[At(pred.from)] = true;
        }
      }
      const auto lane = std::find_if(run.lanes.begin(), run.lanes.end(),
                                     [queue](const auto& l) { return l.queue == queue; });
      if (lane == run.lanes.end()) {
        run.lanes.push_back({queue, i, 1});
      } else {
        ++lane->ops;
      }
    }
    run.ops.push_back({.first_pred = static_cast<std::int32_t>(run.preds.size())});
    return run;
  }

  // Compares all that PlayOps reads. Exported marks are left out, because Close merges them.
  static bool AreAlike(const StepGraph::Run& a, const StepGraph::Run& b) {
    const auto op = [](const StepGraph::Run::Op& x) {
      return std::tuple(x.seconds, x.launch_s, x.first_pred, x.queue);
    };
    return std::ranges::equal(a.ops, b.ops, {}, op, op) && a.preds == b.preds &&
           a.busy_s == b.busy_s;
  }

  // Number of an equal run, or of `run` after adding it.
  std::int32_t NumberOf(StepGraph::Run run) {
    StableHash hash;
    for (const StepGraph::Run::Op& op : run.ops) {
      hash.Add(op.seconds).Add(op.first_pred).Add(static_cast<int>(op.queue));
    }
    for (const std::int32_t pred : run.preds) hash.Add(pred);
    std::vector<std::int32_t>& known = known_[hash.Value()];
    for (const std::int32_t number : known) {
      if (AreAlike(graph_.runs[At(number)], run)) return number;
    }
    known.push_back(static_cast<std::int32_t>(graph_.runs.size()));
    graph_.runs.push_back(std::move(run));
    return known.back();
  }

  const ProgramCosts& costs_;
  StepGraph& graph_;
  std::vector<bool> exported_;  // [op]: another instruction waits for it
  std::unordered_map<std::uint64_t, std::vector<std::int32_t>> known_;
};

}  // namespace

void FindParts(const Program& program, const ProgramCosts& costs, StepGraph& graph) {
  PartFinder finder(costs, graph);
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    for (const Instruction& instruction : program.ranks[r].step) {
      const Block& block = program.blocks[At(instruction.block)];
      finder.Visit(graph.first_op[r] + instruction.first_op,
                   static_cast<std::int32_t>(block.ops.size()));
    }
  }
  finder.Close();
}

}  // namespace foretrain
