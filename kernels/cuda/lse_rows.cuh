// Logarithms of sums of exponentials as the table's entries have them, [rows, heads], and as cuDNN
// has them, packed by head.
#pragma once

#include <cstdint>

#include "base/device_api.h"

namespace foretrain {

// Samples [first_sample, + samples) and heads [first_head, + heads) of `rows` [batch * sequence,
// all_heads], and the same as `packed` [samples, heads, sequence].
struct LseRows {
  float* rows;
  float* packed;
  std::int64_t first_sample, samples, sequence;
  std::int64_t all_heads, first_head, heads;
};

// Enqueue a copy; FT_FAILED with a sentence in the queue.
FtStatus PackLse(FtQueue* queue, const LseRows& lse);
FtStatus UnpackLse(FtQueue* queue, const LseRows& lse);

}  // namespace foretrain
