#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "base/units.h"
#include "sim/simulate/timeline.h"

namespace foretrain {
namespace {

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

constexpr std::size_t kKinds = std::size_t{kCategoryCount} * kSpaceCount;
std::size_t KindOf(const Buffer& buffer) {
  return static_cast<std::size_t>(buffer.space) * kCategoryCount +
         static_cast<std::size_t>(buffer.category);
}

struct Change {
  std::int64_t time_ns = 0;
  std::int64_t bytes = 0;
  std::size_t kind = 0;
};

// Buffers that each op of a rank touches, without the persistent ones: a run an op.
struct Touches {
  std::vector<std::int32_t> begin{0};
  std::vector<std::int32_t> buffers;
};

Touches TouchesOf(const Program& program, const RankProgram& rank) {
  Touches touches;
  for (const Instruction& instruction : rank.step) {
    const Block& block = program.blocks[At(instruction.block)];
    for (const Op& op : block.ops) {
      for (const Operand& operand : OperandsOf(block, op)) {
        if (operand.slot == kNoSlot) continue;
        const Binding& binding = rank.bindings[At(instruction.first_binding + operand.slot)];
        if (binding.bytes == 0 || binding.buffer < 0) continue;
        if (!rank.buffers[At(binding.buffer)].persistent) touches.buffers.push_back(binding.buffer);
      }
      touches.begin.push_back(static_cast<std::int32_t>(touches.buffers.size()));
    }
  }
  return touches;
}

// Samples of one rank from its changes: one a kind and moment, of which only the sum counts.
void Accumulate(std::vector<Change>& changes, std::array<std::int64_t, kKinds> live,
                std::int16_t rank, std::vector<MemorySample>& samples) {
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.time_ns < b.time_ns; });
  std::array<bool, kKinds> changed{};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    live[changes[i].kind] += changes[i].bytes;
    changed[changes[i].kind] = true;
    if (i + 1 < changes.size() && changes[i + 1].time_ns == changes[i].time_ns) continue;
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      if (!changed[kind]) continue;
      changed[kind] = false;
      samples.push_back({.time_ns = changes[i].time_ns,
                         .bytes = live[kind],
                         .rank = rank,
                         .category = static_cast<Category>(kind % kCategoryCount),
                         .space = static_cast<Space>(kind / kCategoryCount)});
    }
  }
}

// Start of the first and end of the last op that touches a buffer in a step.
struct Life {
  double start_s = std::numeric_limits<double>::infinity();
  double end_s = -1.0;
};

void AddRank(const RankProgram& rank, const std::vector<Life>& lives, const StepRange& steps,
             std::vector<MemorySample>& samples) {
  std::array<std::int64_t, kKinds> live{};
  std::array<bool, kKinds> holds{};
  for (const Buffer& buffer : rank.buffers) {
    if (!buffer.persistent || buffer.bytes == 0) continue;
    live[KindOf(buffer)] += buffer.bytes;
    holds[KindOf(buffer)] = true;
  }
  std::vector<Change> changes;
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    if (holds[kind]) changes.push_back({0, 0, kind});  // state, seen from the start
  }
  for (int step = 0; step < steps.Count(); ++step) {
    for (std::size_t b = 0; b < rank.buffers.size(); ++b) {
      const Life& life = lives[At(step) * rank.buffers.size() + b];
      if (life.end_s < 0.0) continue;
      const Buffer& buffer = rank.buffers[b];
      changes.push_back({NsFromSeconds(life.start_s), buffer.bytes, KindOf(buffer)});
      changes.push_back({NsFromSeconds(life.end_s), -buffer.bytes, KindOf(buffer)});
    }
  }
  Accumulate(changes, live, static_cast<std::int16_t>(rank.rank), samples);
}

}  // namespace

std::vector<MemorySample> MakeMemorySamples(const Program& program, const StepGraph& graph,
                                            const std::vector<OpRecord>& records,
                                            const StepRange& steps) {
  const std::size_t ranks = program.ranks.size();
  std::vector<Touches> touches;
  std::vector<std::vector<Life>> lives(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    touches.push_back(TouchesOf(program, program.ranks[r]));
    lives[r].resize(At(steps.Count()) * program.ranks[r].buffers.size());
  }
  for (const OpRecord& record : records) {
    if (!steps.Holds(record.step)) continue;
    const std::size_t r = At(graph.nodes[At(record.op)].slot / kQueueCount);
    const std::size_t op = At(record.op - graph.first_op[r]);
    for (std::int32_t i = touches[r].begin[op]; i < touches[r].begin[op + 1]; ++i) {
      Life& life = lives[r][At(record.step - steps.begin) * program.ranks[r].buffers.size() +
                            At(touches[r].buffers[At(i)])];
      life.start_s = std::min(life.start_s, record.start_s);
      life.end_s = std::max(life.end_s, record.end_s);
    }
  }
  std::vector<MemorySample> samples;
  for (std::size_t r = 0; r < ranks; ++r) AddRank(program.ranks[r], lives[r], steps, samples);
  return samples;
}

}  // namespace foretrain
