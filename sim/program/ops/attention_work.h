// Arithmetic and traffic of attention ops (op_work.h), and the query-key pairs of causal attention
// that they follow from: of a whole sequence or of one part under context parallelism
// (blocks/layer/context_parallel.h), with and without a window.
#pragma once

#include <cstdint>

#include "sim/program/ops/op_work.h"

namespace foretrain {

// Work of every kind of attention.
OpWork AttentionWork(const Op& op);

// Pairs of one head and one sample of T = `sequence` tokens: T (T + 1) / 2. With a window of W
// tokens, itself included, W (W + 1) / 2 + (T - W) W. `window` 0: a query sees all tokens before
// it.
double PairsOfSequence(std::int64_t sequence, std::int64_t window);

// Pairs of one head and one sample in an attention part (kAttentionPart*) of one rank. With a
// window the counts differ between ranks and this is their mean; the maximum of a turn is at most
// cp times the mean. O(cp).
double PairsOfPart(const OpShape& shape);

}  // namespace foretrain
