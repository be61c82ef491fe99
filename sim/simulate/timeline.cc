#include "sim/simulate/timeline.h"

#include <algorithm>
#include <cstddef>
#include <unordered_set>

#include "base/units.h"
#include "sim/program/ops/op_kinds.h"

namespace foretrain {
namespace {

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

// Properties shared by all spans of one op.
struct OpFacts {
  OpId id = kNoOp;
  std::int64_t bytes = 0;
  std::int32_t position = 0;  // index in its queue
};

// The buffer bound to a slot of the instruction.
const Binding& BindingOf(const RankProgram& rank, const Instruction& instruction, int slot) {
  return rank.bindings[At(instruction.first_binding + slot)];
}

// Bytes that an op moves. A collective, p2p op or copy counts its first tensor, a load counts all
// its tensors. An all-to-all with counts moves the elements in its shape.
std::int64_t MovedBytes(const Block& block, const RankProgram& rank, const Instruction& instruction,
                        const Op& op) {
  const bool copies = op.op_class == OpClass::kCopy && op.kind != OpKind::kCopy;
  if (op.op_class != OpClass::kCopy && !IsCommunication(op.kind)) return 0;
  if (op.kind == OpKind::kAllToAllV) return BytesIn(MovedFormat(op), op.shape.elements);
  std::int64_t bytes = 0;
  for (const Operand& operand : OperandsOf(block, op)) {
    if (operand.slot == kNoSlot) continue;
    bytes += BindingOf(rank, instruction, operand.slot).bytes;
    if (!copies) break;
  }
  return bytes;
}

// Facts of all ops in the numbering of the graph. Each op name is stored once.
std::vector<OpFacts> FactsOf(const Program& program, const StepGraph& graph, Timeline& timeline) {
  std::vector<OpFacts> facts;
  facts.reserve(At(graph.ops()));
  std::unordered_set<OpId> named;
  for (const RankProgram& rank : program.ranks) {
    for (const Instruction& instruction : rank.step) {
      const Block& block = program.blocks[At(instruction.block)];
      const bool is_new = named.insert(NameKey(PackId(instruction.key))).second;
      for (std::size_t i = 0; i < block.ops.size(); ++i) {
        const OpId id = PackId(instruction.key, static_cast<int>(i));
        facts.push_back({.id = id, .bytes = MovedBytes(block, rank, instruction, block.ops[i])});
        if (is_new) timeline.op_names.emplace(NameKey(id), block.ops[i].name);
      }
    }
  }
  for (std::size_t slot = 0; slot + 1 < graph.queue_begin.size(); ++slot) {
    for (std::int32_t i = graph.queue_begin[slot]; i < graph.queue_begin[slot + 1]; ++i) {
      facts[At(graph.queue_ops[At(i)])].position = i - graph.queue_begin[slot];
    }
  }
  return facts;
}

// Windows of a rank follow one another: a step starts at the end of the rank's previous step.
void AddWindows(const Program& program, const Engine& engine, const StepRange& steps,
                Timeline& timeline) {
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const auto end_of = [&engine, r](int step) {
      return step < 0 ? 0 : NsFromSeconds(engine.Totals(static_cast<int>(r), step).end_s);
    };
    std::int64_t start_ns = end_of(steps.begin - 1);
    for (int step = steps.begin; step < steps.end; ++step) {
      const std::int64_t end_ns = end_of(step);
      timeline.steps.push_back({.start_ns = start_ns,
                                .end_ns = end_ns,
                                .step = step,
                                .rank = static_cast<std::int16_t>(program.ranks[r].rank)});
      start_ns = end_ns;
    }
  }
  // Launches are shown on the host queue with the class kHost, whatever op they issue.
}

void AddLaunches(const Program& program, const StepGraph& graph, const Engine& engine,
                 const std::vector<OpFacts>& facts, const StepRange& steps, Timeline& timeline) {
  for (const LaunchRecord& launch : engine.launches()) {
    if (!steps.Holds(launch.step)) continue;
    const std::int32_t slot = graph.nodes[At(launch.op)].slot;
    timeline.spans.push_back(
        {.start_ns = NsFromSeconds(launch.start_s),
         .end_ns = NsFromSeconds(launch.end_s),
         .op = facts[At(launch.op)].id,
         .ready_ns = NsFromSeconds(launch.start_s),
         .step = launch.step,
         .rank = static_cast<std::int16_t>(program.ranks[At(slot / kQueueCount)].rank),
         .queue = Queue::kHost,
         .op_class = OpClass::kHost});
  }
}

}  // namespace

Timeline MakeTimeline(const Program& program, const StepGraph& graph, const Engine& engine,
                      int first_step, int threads) {
  const StepRange steps{first_step, engine.steps()};
  Timeline timeline;
  timeline.world = std::max(program.plan.World(), graph.ranks());
  const std::vector<OpFacts> facts = FactsOf(program, graph, timeline);
  // Queues are FIFO, so the place of each span is known before it is created, and no sort is
  // needed. Where steps overlap, ops of two steps alternate on a queue, and ops of incomplete steps
  // are dropped.
  timeline.spans.resize(At(graph.ops()) * At(steps.Count()));
  for (const OpRecord& record : engine.records()) {
    if (!steps.Holds(record.step)) continue;
    const StepGraph::Node& node = graph.nodes[At(record.op)];
    const OpFacts& fact = facts[At(record.op)];
    const std::int64_t begin = graph.queue_begin[At(node.slot)];
    const std::int64_t length = graph.queue_begin[At(node.slot) + 1] - begin;
    const std::int64_t before = begin * steps.Count() + (record.step - steps.begin) * length;
    timeline.spans[At(before + fact.position)] = {
        .start_ns = NsFromSeconds(record.start_s),
        .end_ns = NsFromSeconds(record.end_s),
        .op = fact.id,
        .bytes = fact.bytes,
        .ready_ns = NsFromSeconds(record.ready_s),
        .step = record.step,
        .rank = static_cast<std::int16_t>(program.ranks[At(node.slot / kQueueCount)].rank),
        .queue = static_cast<Queue>(node.slot % kQueueCount),
        .op_class = node.op_class};
  }
  timeline.memory = MakeMemorySamples(program, graph, timeline.spans, steps, threads);
  AddLaunches(program, graph, engine, facts, steps, timeline);
  AddWindows(program, engine, steps, timeline);
  // Spans are in order unless launches were added, steps overlap, or ranks are not in order.
  if (!engine.launches().empty() || graph.overlaps ||
      !std::is_sorted(program.ranks.begin(), program.ranks.end(),
                      [](const auto& a, const auto& b) { return a.rank < b.rank; })) {
    SortTimeline(timeline);
  }
  return timeline;
}

}  // namespace foretrain
