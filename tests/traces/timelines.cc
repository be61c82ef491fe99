#include "tests/traces/timelines.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <vector>

namespace foretrain {
namespace {

OpId RandomOp(std::mt19937_64& random) {
  const auto below = [&random](unsigned n) { return static_cast<int>(random() % n); };
  if (below(20) == 0) return kNoOp;
  return PackId({.kind = static_cast<InstructionKind>(below(kInstructionKindCount)),
                 .pass = static_cast<Pass>(below(kPassCount)),
                 .block = below(34),
                 .micro_batch = below(16),
                 .part = below(8)},
                below(40));
}

// One slot of a stage: forward or backward of a micro-batch.
struct Slot {
  bool forward = true;
  int micro_batch = 0;
};

// Warm-up forwards, then one forward and one backward alternating, then the remaining backwards.
std::vector<Slot> SlotsOf(int stage, int stages, int micro_batches) {
  const int warmup = std::min(micro_batches, stages - 1 - stage);
  std::vector<Slot> slots;
  for (int i = 0; i < warmup; ++i) slots.push_back({true, i});
  for (int i = warmup; i < micro_batches; ++i) {
    slots.push_back({true, i});
    slots.push_back({false, i - warmup});
  }
  for (int i = micro_batches - warmup; i < micro_batches; ++i) slots.push_back({false, i});
  return slots;
}

}  // namespace

Timeline RandomTimeline(std::mt19937_64& random, int ranks, int spans) {
  Timeline timeline;
  timeline.world = ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    std::array<std::int64_t, kQueueCount> free_at{};
    std::int64_t last = 1;
    for (int i = 0; i < spans; ++i) {
      const auto queue = static_cast<std::size_t>(random() % kQueueCount);
      const auto start = free_at[queue] + static_cast<std::int64_t>(random() % 700);
      Span span = SpanOf(static_cast<Queue>(queue), static_cast<OpClass>(random() % kOpClassCount),
                         start, start + static_cast<std::int64_t>(random() % 900), RandomOp(random),
                         rank, static_cast<int>(start / 10'000));
      span.ready_ns = start - static_cast<std::int64_t>(random() % 300);
      span.bytes = static_cast<std::int64_t>(random() % 100'000);
      free_at[queue] = span.end_ns;
      last = std::max(last, span.end_ns);
      timeline.spans.push_back(span);
      if (i % 2 == 1) continue;
      timeline.memory.push_back({.time_ns = start,
                                 .bytes = static_cast<std::int64_t>(random() % 1'000'000),
                                 .rank = static_cast<std::int16_t>(rank),
                                 .category = static_cast<Category>(random() % kCategoryCount),
                                 .space = static_cast<Space>(random() % kSpaceCount)});
    }
    for (int step = 0; step * std::int64_t{10'000} < last; ++step) {
      timeline.steps.push_back({.start_ns = step * std::int64_t{10'000},
                                .end_ns = (step + 1) * std::int64_t{10'000},
                                .step = step,
                                .rank = static_cast<std::int16_t>(rank)});
    }
  }
  SortTimeline(timeline);
  return timeline;
}

Timeline Uniform1F1B(int stages, int micro_batches, std::int64_t forward_ns,
                     std::int64_t backward_ns) {
  std::vector<std::vector<Slot>> slots;
  for (int s = 0; s < stages; ++s) slots.push_back(SlotsOf(s, stages, micro_batches));
  std::vector<std::size_t> next(static_cast<std::size_t>(stages), 0);
  std::vector<std::int64_t> free_at(static_cast<std::size_t>(stages), 0);
  std::map<std::array<int, 3>, std::int64_t> ended;  // {stage, forward, micro-batch}
  Timeline timeline;
  timeline.world = stages;
  const auto total = static_cast<std::size_t>(2 * stages * micro_batches);
  while (timeline.spans.size() < total) {
    for (int s = 0; s < stages; ++s) {
      const auto stage = static_cast<std::size_t>(s);
      if (next[stage] == slots[stage].size()) continue;
      const Slot slot = slots[stage][next[stage]];
      // A forward waits for the previous stage; a backward for the next stage, or on the last stage
      // for its own forward.
      const bool first = slot.forward && s == 0;
      const int from = slot.forward ? s - 1 : std::min(s + 1, stages - 1);
      const bool after_forward = slot.forward || s == stages - 1;
      const auto input = ended.find({from, after_forward ? 1 : 0, slot.micro_batch});
      if (!first && input == ended.end()) continue;
      const std::int64_t start = std::max(free_at[stage], first ? 0 : input->second);
      const std::int64_t end = start + (slot.forward ? forward_ns : backward_ns);
      const InstructionKey key{.pass = slot.forward ? Pass::kForward : Pass::kBackward,
                               .block = s + 1,
                               .micro_batch = slot.micro_batch};
      timeline.spans.push_back(
          SpanOf(Queue::kCompute, OpClass::kGemm, start, end, PackId(key, 0), s));
      ended[{s, slot.forward ? 1 : 0, slot.micro_batch}] = end;
      free_at[stage] = end;
      ++next[stage];
    }
  }
  const std::int64_t end = *std::max_element(free_at.begin(), free_at.end());
  for (int s = 0; s < stages; ++s) {
    timeline.steps.push_back(
        {.start_ns = 0, .end_ns = end, .step = 0, .rank = static_cast<std::int16_t>(s)});
  }
  SortTimeline(timeline);
  return timeline;
}

}  // namespace foretrain
