// Seconds of one causal attention kernel in 16 bits in a hot loop, forward or backward. Leaves out
// the sustained clock under a power limit and all that a framework adds.
#pragma once

#include <array>
#include <cstdint>

#include "sim/cost/measured/kernel_machine.h"
#include "sim/cost/measured/residual_field.h"

namespace foretrain {

// Counts > 0. Values may be narrower than keys (multi-head latent attention).
struct AttentionShape {
  std::int64_t batch = 1, sequence = 1, heads = 1, kv_heads = 1, head_dim = 128, value_dim = 128;

  bool operator==(const AttentionShape&) const = default;
};

// Head widths with kernels of their own. Other widths lie between, linear in the logarithm.
inline constexpr std::array<std::int64_t, 5> kHeadDims = {64, 128, 192, 256, 512};

// Constants of one device, fitted to measured kernels.
struct AttentionTerms {
  double rate_share = 0.6;    // rate of all multiprocessors / dense 16-bit peak, head width 128
  double launch_s = 10e-6;    // fixed cost of the kernels of one call
  double tile_s = 3e-6;       // start, first loads and epilogue of 128 queries of one head
  double softmax_s = 20e-12;  // of one score on one multiprocessor, not hidden by products
  double longest_tile = 0.7;  // time of the longest tile relative to its share of the rate
  double memory_share = 0.8;  // of the published bandwidth
  double kv_passes = 2;       // reads of keys and values from memory
  std::array<double, kHeadDims.size()> width_share = {1, 1, 1, 1, 1};  // of rate_share

  bool operator==(const AttentionTerms&) const = default;
};

// Seconds of the forward kernel:
//
//   launch + (total^4 + longest^4)^(1/4) + bytes / bandwidth
//   total    work of all tiles of 128 queries, spread evenly over the multiprocessors: products at
//            the rate, and softmax_s a score, which does not grow with the tensor cores' peak
//   longest  the last tile of a head, which reads the whole sequence
//
// A tile on the diagonal is computed in full. Bytes: queries and result once, keys and values
// kv_passes times.
double AttentionForwardModelSeconds(const AttentionTerms& terms, const KernelMachine& machine,
                                    const AttentionShape& shape);

// Seconds of the backward kernel: as forward, with 5 products instead of 2 (scores again, gradients
// of scores, queries, keys and values) [1] and twice the bytes. The rate is that of the keys'
// width.
//
// [1] Dao 2023, arXiv 2307.08691, s. 4.1: backward counts 2.5 times the forward's FLOPs
double AttentionBackwardModelSeconds(const AttentionTerms& terms, const KernelMachine& machine,
                                     const AttentionShape& shape);

// Position in a residual field: log2 of the sizes. Grouping counts half and head width twice.
FieldPoint PointOf(const AttentionShape& shape);

}  // namespace foretrain
