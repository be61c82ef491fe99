// Sizes of the blocks that the kernels cut their work into, and of the scratch memory that holds
// them. One size for all instruction sets, so that a queue's scratch serves any.
#pragma once

#include <stdint.h>

namespace foretrain {

// Blocks of the built-in GEMM: a panel of B (kGemmDepth rows of up to 32 columns, 32 KiB) stays in
// the first cache, a block of A (kGemmRows x kGemmDepth, 420 KiB) in the second, a block of B
// (kGemmDepth x kGemmColumns, 2 MiB) in the third.
constexpr int64_t kGemmDepth = 256;
constexpr int64_t kGemmRows = 420;  // a multiple of every kTileRows
constexpr int64_t kGemmColumns = 2048;

// Blocks of attention: queries and keys that are worked on together.
constexpr int64_t kAttentionQueries = 128;
constexpr int64_t kAttentionKeys = 128;
constexpr int64_t kMaxHeadDim = 512;

// Floats between the end of one part of the scratch and the next: kernels may write a vector past a
// part's end.
constexpr int64_t kScratchGap = 64;

constexpr int64_t kGemmScratch =
    kGemmRows * kGemmDepth + kGemmDepth * kGemmColumns + 2 * kScratchGap;
// The backward pass: nine blocks [queries or keys, head_dim], two [queries, keys] and three numbers
// a query.
constexpr int64_t kAttentionScratch = 9 * kAttentionKeys * kMaxHeadDim +
                                      2 * kAttentionQueries * kAttentionKeys +
                                      3 * kAttentionQueries + 14 * kScratchGap;
constexpr int64_t kScratchFloats =
    kGemmScratch > kAttentionScratch ? kGemmScratch : kAttentionScratch;

}  // namespace foretrain
