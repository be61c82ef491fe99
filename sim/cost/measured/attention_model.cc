#include "sim/cost/measured/attention_model.h"

#include <algorithm>
#include <cmath>

namespace foretrain {
namespace {

constexpr double kTile = 128;  // queries and keys
constexpr double kHalfBytes = 2;
constexpr double kForwardProducts = 2, kBackwardProducts = 5;
constexpr double kForwardPasses = 1, kBackwardPasses = 2;

double Square(double x) { return x * x; }

double Overlap(double a, double b) { return std::sqrt(std::sqrt(Square(a * a) + Square(b * b))); }

// Width that chooses the forward kernel. Values narrower than keys have kernels of their own, as
// fast as equal heads of the values' width.
std::int64_t ForwardWidth(const AttentionShape& shape) {
  return std::min(shape.head_dim, shape.value_dim);
}

// Share of the rate at head width `width`, between the widths of kHeadDims.
double WidthShare(const AttentionTerms& terms, std::int64_t width) {
  if (width <= kHeadDims.front()) return terms.width_share.front();
  for (std::size_t i = 1; i < kHeadDims.size(); ++i) {
    if (width > kHeadDims[i]) continue;
    const double low = std::log2(static_cast<double>(kHeadDims[i - 1]));
    const double part = (std::log2(static_cast<double>(width)) - low) /
                        (std::log2(static_cast<double>(kHeadDims[i])) - low);
    return std::pow(terms.width_share[i - 1], 1 - part) * std::pow(terms.width_share[i], part);
  }
  return terms.width_share.back();
}

double Seconds(const AttentionTerms& terms, const KernelMachine& machine,
               const AttentionShape& shape, std::int64_t width, double products, double passes) {
  const double units = static_cast<double>(machine.multiprocessors);
  const double batch = static_cast<double>(shape.batch), heads = static_cast<double>(shape.heads);
  const double sequence = static_cast<double>(shape.sequence);
  const double blocks = std::ceil(sequence / kTile);
  const double widths = static_cast<double>(shape.head_dim + shape.value_dim);
  const double rate = terms.rate_share * WidthShare(terms, width) * machine.half_flop_per_s / units;
  // One product of a block of queries with a block of keys, averaged over both head widths.
  const double block_s = kTile * kTile * (products * widths / rate + terms.softmax_s);
  const double total = batch * heads * blocks * ((blocks + 1) / 2 * block_s + terms.tile_s) / units;
  const double longest = terms.longest_tile * (blocks * block_s + terms.tile_s);
  const double bytes = passes * kHalfBytes * batch * sequence * widths *
                       (heads + terms.kv_passes * static_cast<double>(shape.kv_heads));
  return terms.launch_s + Overlap(total, longest) +
         bytes / (terms.memory_share * machine.memory_bytes_per_s);
}

}  // namespace

double AttentionForwardModelSeconds(const AttentionTerms& terms, const KernelMachine& machine,
                                    const AttentionShape& shape) {
  return Seconds(terms, machine, shape, ForwardWidth(shape), kForwardProducts, kForwardPasses);
}

double AttentionBackwardModelSeconds(const AttentionTerms& terms, const KernelMachine& machine,
                                     const AttentionShape& shape) {
  return Seconds(terms, machine, shape, shape.head_dim, kBackwardProducts, kBackwardPasses);
}

FieldPoint PointOf(const AttentionShape& shape) {
  const double heads = std::log2(static_cast<double>(shape.heads));
  return {std::log2(static_cast<double>(shape.batch)),
          std::log2(static_cast<double>(shape.sequence)), heads,
          (heads - std::log2(static_cast<double>(shape.kv_heads))) / 2,
          2 * std::log2(static_cast<double>(ForwardWidth(shape)))};
}

}  // namespace foretrain
