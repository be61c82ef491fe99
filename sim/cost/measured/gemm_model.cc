#include "sim/cost/measured/gemm_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace foretrain {
namespace {

constexpr std::array<std::string_view, kProductFormatCount> kNames = {"bfloat16", "fp8",
                                                                      "fp8_block", "nvfp4"};
constexpr double kHalfBytes = 2;
constexpr double kSumBytes = 4;  // fp32
// Distance of two shapes that differ in one mark of alignment only.
constexpr double kAlignmentStep = 0.55;

// A tile of the result that one multiprocessor computes, and the share of the rate it reaches.
struct Tile {
  double rows, cols, efficiency;
};
constexpr std::array<Tile, 7> kTiles = {{
    {256, 256, 1.0},
    {256, 128, 1.0},
    {128, 256, 1.0},
    {128, 128, 0.92},
    {128, 64, 0.75},
    {64, 128, 0.75},
    {64, 64, 0.55},
}};

// Position of a product among the knots of BestShare, a decade apart from the first.
double KnotsBeyondFirst(const ProductShape& shape) {
  constexpr double kFirstKnot = 10.5;
  const double flop = 2.0 * static_cast<double>(shape.groups) * static_cast<double>(shape.m) *
                      static_cast<double>(shape.n) * static_cast<double>(shape.k);
  return std::log10(flop) - kFirstKnot;
}

double Square(double x) { return x * x; }

// Compute and memory overlap; close to balance each slows the other.
double Overlap(double a, double b) { return std::sqrt(std::sqrt(Square(a * a) + Square(b * b))); }

}  // namespace

std::string_view Name(ProductFormat format) { return kNames[static_cast<std::size_t>(format)]; }

std::optional<ProductFormat> ParseProductFormat(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<ProductFormat>(i);
  }
  return std::nullopt;
}

double ElementBytes(ProductFormat format) {
  switch (format) {
    case ProductFormat::kBf16:
      return kHalfBytes;
    case ProductFormat::kFp8:
    case ProductFormat::kFp8Block:
      return 1;
    case ProductFormat::kNvfp4:
      break;
  }
  return 0.5 + 1.0 / 16;
}

// Libraries choose tile and split by a heuristic; the minimum stands for it.
double GemmModelSeconds(const GemmTerms& terms, const KernelMachine& machine, ProductFormat format,
                        const ProductShape& shape) {
  const auto m = static_cast<double>(shape.m), n = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k), groups = static_cast<double>(shape.groups);
  const auto units = static_cast<double>(machine.multiprocessors);
  const double peak_share = format == ProductFormat::kBf16 ? 1 : kHalfBytes / ElementBytes(format);
  const double bandwidth = terms.memory_share * machine.memory_bytes_per_s;
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double tiles = groups * std::ceil(m / tile.rows) * std::ceil(n / tile.cols);
    for (const double split : {1.0, 2.0, 4.0, 8.0}) {
      const double waves = tiles * split / units;
      const double counted =
          terms.whole_waves * std::ceil(waves) + (1 - terms.whole_waves) * std::max(1.0, waves);
      const double rate =
          TensorRate(machine, terms.rate_share * tile.efficiency, peak_share) / units;
      const double tile_s =
          2 * tile.rows * tile.cols * (std::ceil(k / split) + terms.fill_depth) / rate;
      const double sums_s = split > 1 ? kSumBytes * groups * m * n * split / bandwidth : 0;
      best = std::min(best, counted * tile_s + sums_s);
    }
  }
  const double bytes = groups * (ElementBytes(format) * k * (m + n) + kHalfBytes * m * n);
  return terms.launch_s + Overlap(best, bytes / bandwidth);
}

double CastSeconds(const GemmTerms& terms, const KernelMachine& machine, ProductFormat format,
                   const ProductShape& shape) {
  if (format == ProductFormat::kBf16) return 0;
  const double elements =
      static_cast<double>(shape.groups * shape.m) * static_cast<double>(shape.k);
  return terms.cast_passes * elements * (kHalfBytes + ElementBytes(format)) /
         machine.memory_bytes_per_s;
}

double BestShareAt(const BestShare& best, const ProductShape& shape) {
  const double at = std::clamp(KnotsBeyondFirst(shape), 0.0, static_cast<double>(best.size() - 1));
  const auto below = std::min(static_cast<std::size_t>(at), best.size() - 2);
  return best[below] + (at - static_cast<double>(below)) * (best[below + 1] - best[below]);
}

std::size_t NearestKnot(const ProductShape& shape) {
  return static_cast<std::size_t>(std::clamp(std::round(KnotsBeyondFirst(shape)), 0.0, 2.0));
}

FieldPoint PointOf(const ProductShape& shape) {
  return {std::log2(static_cast<double>(shape.m)), std::log2(static_cast<double>(shape.n)),
          std::log2(static_cast<double>(shape.k)), shape.m % 2 != 0 ? kAlignmentStep : 0,
          shape.m % 128 != 0 ? kAlignmentStep : 0};
}

}  // namespace foretrain
