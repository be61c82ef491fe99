// Block sizes of the CPU kernels, and the scratch memory that holds the blocks. All instruction
// sets share them, so that a queue's scratch serves any.
#pragma once

#include <stdint.h>

namespace foretrain {

// Blocks of the built-in GEMM, one for each cache level. A panel of B (kGemmDepth rows of up to 32
// columns, 32 KiB) stays in L1. A block of A (kGemmRows x kGemmDepth, 420 KiB) stays in L2. A block
// of B (kGemmDepth x kGemmColumns, 2 MiB) stays in L3.
constexpr int64_t kGemmDepth = 256;
constexpr int64_t kGemmRows = 420;      // a multiple of every kTileRows
constexpr int64_t kGemmColumns = 2112;  // a multiple of every kTileColumns

// Blocks of attention: queries and keys that are processed together. One side lies along the vector
// lanes: queries in the forward, keys in the backward. The other side is cut into strips of six
// rows.
constexpr int64_t kForwardQueries = 128;
constexpr int64_t kForwardKeys = 96;
constexpr int64_t kBackwardQueries = 96;
constexpr int64_t kBackwardKeys = 128;
constexpr int64_t kMaxHeadDim = 512;

// Floats between two parts of the scratch. Kernels may write up to one vector past the end of a
// part.
constexpr int64_t kScratchGap = 64;

constexpr int64_t kGemmScratch =
    kGemmRows * kGemmDepth + kGemmDepth * kGemmColumns + 2 * kScratchGap;
// Size of the backward pass, the larger one: five blocks [keys, head_dim], three [queries,
// head_dim], two [queries, keys] and three floats per query.
constexpr int64_t kAttentionScratch = (5 * kBackwardKeys + 3 * kBackwardQueries) * kMaxHeadDim +
                                      2 * kBackwardQueries * kBackwardKeys + 3 * kBackwardQueries +
                                      26 * kScratchGap;
constexpr int64_t kScratchFloats =
    kGemmScratch > kAttentionScratch ? kGemmScratch : kAttentionScratch;

}  // namespace foretrain
