// Timelines for tests: small ones by hand, large random ones.
#pragma once

#include <cstdint>
#include <random>

#include "traces/timeline.h"

namespace foretrain {

inline Span SpanOf(Queue queue, OpClass op_class, std::int64_t start_ns, std::int64_t end_ns,
                   OpId op = kNoOp, int rank = 0, int step = 0) {
  return {.start_ns = start_ns,
          .end_ns = end_ns,
          .op = op,
          .ready_ns = start_ns,
          .step = step,
          .rank = static_cast<std::int16_t>(rank),
          .queue = queue,
          .op_class = op_class};
}

// `spans` spans on each of `ranks` ranks with random queues and classes, without overlap on a
// queue; windows of 10,000 ns as steps; one memory sample for every two spans.
Timeline RandomTimeline(std::mt19937_64& random, int ranks, int spans);

// A pipeline of `stages` equal stages with one forward op of `forward_ns` and one backward op of
// `backward_ns` for each micro-batch, in 1F1B order, with free transfers. Rank = stage; one step,
// step 0.
Timeline Uniform1F1B(int stages, int micro_batches, std::int64_t forward_ns,
                     std::int64_t backward_ns);

}  // namespace foretrain
