#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "base/parallel.h"
#include "sim/simulate/timeline.h"

namespace foretrain {
namespace {

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

constexpr std::size_t kKinds = std::size_t{kCategoryCount} * kSpaceCount;
// Index of a buffer's (space, category).
std::size_t KindOf(const Buffer& buffer) {
  return static_cast<std::size_t>(buffer.space) * kCategoryCount +
         static_cast<std::size_t>(buffer.category);
}

// A change of live bytes. Negative bytes free memory.
struct Change {
  std::int64_t time_ns = 0;
  std::int64_t bytes = 0;
  std::size_t kind = 0;
};

// Buffers touched by each op of a rank, without persistent buffers: op i has buffers[begin[i],
// begin[i + 1]).
struct Touches {
  std::vector<std::int32_t> begin{0};
  std::vector<std::int32_t> buffers;
};

// Collects them in issue order, which is the numbering of the rank's ops.
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

// Samples of one rank from its changes. Changes of one kind at one time make one sample, because
// only their sum counts: a free and an allocation at the same time show no peak.
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

// Start of the first and end of the last op that touch a buffer in a step; end_ns -1: none does.
struct Life {
  std::int64_t start_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t end_ns = -1;
};

// Lifetimes of buffers: [step - first step][buffer]. `spans` holds all steps of a queue before the
// next queue, so the span of each op is found by counting.
std::vector<Life> LivesOf(const Program& program, const StepGraph& graph, std::size_t r,
                          std::span<const Span> spans, const StepRange& steps) {
  const RankProgram& rank = program.ranks[r];
  const Touches touches = TouchesOf(program, rank);
  std::vector<Life> lives(At(steps.Count()) * rank.buffers.size());
  for (std::size_t slot = r * kQueueCount; slot < (r + 1) * kQueueCount; ++slot) {
    const std::span ops = std::span(graph.queue_ops)
                              .subspan(At(graph.queue_begin[slot]),
                                       At(graph.queue_begin[slot + 1] - graph.queue_begin[slot]));
    std::size_t next = At(graph.queue_begin[slot]) * At(steps.Count());
    for (int step = 0; step < steps.Count(); ++step) {
      for (const std::int32_t number : ops) {
        const Span& span = spans[next++];
        const std::size_t op = At(number - graph.first_op[r]);
        for (std::int32_t i = touches.begin[op]; i < touches.begin[op + 1]; ++i) {
          Life& life = lives[At(step) * rank.buffers.size() + At(touches.buffers[At(i)])];
          life.start_ns = std::min(life.start_ns, span.start_ns);
          life.end_ns = std::max(life.end_ns, span.end_ns);
        }
      }
    }
  }
  return lives;
}

// Persistent buffers are live from time 0 on. Others are allocated and freed once per step.
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
      if (life.end_ns < 0) continue;
      const Buffer& buffer = rank.buffers[b];
      changes.push_back({life.start_ns, buffer.bytes, KindOf(buffer)});
      changes.push_back({life.end_ns, -buffer.bytes, KindOf(buffer)});
    }
  }
  Accumulate(changes, live, static_cast<std::int16_t>(rank.rank), samples);
}

}  // namespace

std::vector<MemorySample> MakeMemorySamples(const Program& program, const StepGraph& graph,
                                            std::span<const Span> spans, const StepRange& steps,
                                            int threads) {
  std::vector<std::vector<MemorySample>> of_rank(program.ranks.size());
  ForEachInParallel(of_rank.size(), threads, [&](std::size_t r) {
    AddRank(program.ranks[r], LivesOf(program, graph, r, spans, steps), steps, of_rank[r]);
  });
  std::vector<MemorySample> samples;
  for (const std::vector<MemorySample>& rank : of_rank) {
    samples.insert(samples.end(), rank.begin(), rank.end());
  }
  return samples;
}

}  // namespace foretrain
