// A random run for tests of pages.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>

#include "tests/traces/timelines.h"

namespace foretrain {

// `spans` spans on each of `ranks` ranks, on four queues without overlap; windows of 10,000 ns as
// steps; a memory sample for every second span.
inline Timeline RandomRun(std::mt19937_64& random, int ranks, int spans) {
  constexpr std::array kQueues{Queue::kHost, Queue::kCompute, Queue::kReduce, Queue::kH2d};
  constexpr std::array kClasses{OpClass::kHost, OpClass::kGemm, OpClass::kDpComm, OpClass::kCopy};
  Timeline timeline;
  timeline.world = ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    std::array<std::int64_t, kQueues.size()> ends{};
    std::int64_t last_ns = 1;
    for (int i = 0; i < spans; ++i) {
      const std::size_t at = random() % kQueues.size();
      const std::int64_t start = ends[at] + static_cast<std::int64_t>(random() % 40);
      ends[at] = start + 1 + static_cast<std::int64_t>(random() % 100);
      const OpId op = PackId({.pass = at % 2 == 0 ? Pass::kForward : Pass::kBackward,
                              .block = static_cast<int>(random() % 50),
                              .micro_batch = static_cast<int>(random() % 8)},
                             static_cast<int>(random() % 20));
      timeline.spans.push_back(SpanOf(kQueues[at], kClasses[at], start, ends[at], op, rank,
                                      static_cast<int>(start / 10'000)));
      last_ns = std::max(last_ns, ends[at]);
      if (i % 2 != 0) continue;
      timeline.memory.push_back({.time_ns = start,
                                 .bytes = static_cast<std::int64_t>(random() % 1'000'000),
                                 .rank = static_cast<std::int16_t>(rank),
                                 .category = static_cast<Category>(random() % kCategoryCount)});
    }
    for (std::int64_t start = 0; start < last_ns; start += 10'000) {
      timeline.steps.push_back({start, start + 10'000, static_cast<std::int32_t>(start / 10'000),
                                static_cast<std::int16_t>(rank)});
    }
  }
  SortTimeline(timeline);
  return timeline;
}

}  // namespace foretrain
