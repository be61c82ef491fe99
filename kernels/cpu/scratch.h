// Sizes of the blocks that the kernels cut their work into, and of the scratch memory that holds
// them. One size for all instruction sets, so that a queue's scratch serves any.
#pragma once

#include <stdint.h>

namespace foretrain {

// Blocks of the built-in GEMM: a panel of B (kGemmDepth rows of up to 32 columns, 32 KiB) stays in
// the first cache, a block of A (kGemmRows x kGemmDepth, 420 KiB) in the second, a block of B
// (kGemmDepth x kGemmColumns, 2 MiB) in the third.
constexpr int64_t kGemmDepth = 256;
constexpr int64_t kGemmRows = 420;      // a multiple of every kTileRows
constexpr int64_t kGemmColumns = 2112;  // and of every kTileColumns

// Blocks of attention: queries and keys that are worked on together. One side lies along the
// vectors' lanes (forward the queries, backward the keys), the other is cut into strips of six
// rows.
constexpr int64_t kForwardQueries = 128;
constexpr int64_t kForwardKeys = 96;
constexpr int64_t kBackwardQueries = 96;
constexpr int64_t kBackwardKeys = 128;
constexpr int64_t kMaxHeadDim = 512;

// Floats between the end of one part of the scratch and the next: kernels may write a vector past a
// part's end.
constexpr int64_t kScratchGap = 64;

constexpr int64_t kGemmScratch =
    kGemmRows * kGemmDepth + kGemmDepth * kGemmColumns + 2 * kScratchGap;
// The backward pass, the larger: five blocks [keys, head_dim], three [queries, head_dim], two
// [queries, keys], three numbers a query.
constexpr int64_t kAttentionScratch = (5 * kBackwardKeys + 3 * kBackwardQueries) * kMaxHeadDim +
                                      2 * kBackwardQueries * kBackwardKeys + 3 * kBackwardQueries +
                                      26 * kScratchGap;
constexpr int64_t kScratchFloats =
    kGemmScratch > kAttentionScratch ? kGemmScratch : kAttentionScratch;

}  // namespace foretrain
