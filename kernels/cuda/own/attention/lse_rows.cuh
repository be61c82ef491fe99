// Converts log-sum-exp values between the table's layout [rows, heads] and cuDNN's, packed by head.
#pragma once

#include <cstdint>

#include "base/device_api.h"

namespace foretrain {

// A range of samples [first_sample, + samples) and heads [first_head, + heads). `rows` is [batch *
// sequence, all_heads], `packed` [samples, heads, sequence].
struct LseRows {
  float* rows;
  float* packed;
  std::int64_t first_sample, samples, sequence;
  std::int64_t all_heads, first_head, heads;
};

// Enqueue a copy. On FT_FAILED the queue holds a sentence.
FtStatus PackLse(FtQueue* queue, const LseRows& lse);
FtStatus UnpackLse(FtQueue* queue, const LseRows& lse);

}  // namespace foretrain
