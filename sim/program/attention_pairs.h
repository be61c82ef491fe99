// How many pairs of a query and a key causal attention works on, whole or in parts of shared-out
// sequences (blocks/context_parallel.h), with and without a window.
#pragma once

#include <cstdint>

#include "sim/program/op.h"

namespace foretrain {

// Of one head of one sample of `sequence` tokens, each of which sees itself and those before it, at
// most `window` of them; 0: all. T (T + 1) / 2, or W (W + 1) / 2 + (T - W) W.
double PairsOfSequence(std::int64_t sequence, std::int64_t window);

// Of one head of one sample of an attention part of one rank. With a window ranks have unlike
// numbers, and this is their mean; the largest of a turn is at most cp times as many. O(cp).
double PairsOfPart(const OpShape& shape);

}  // namespace foretrain
