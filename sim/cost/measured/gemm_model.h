// Seconds of one matrix product in a hot loop on one device: tiles, waves, memory, and the cast of
// the activations to a narrower format. Leaves out the sustained clock under a power limit and all
// that a framework adds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "sim/cost/measured/kernel_machine.h"
#include "sim/cost/measured/residual_field.h"

namespace foretrain {

// Formats of products: bf16, fp8 with a scale per tensor, fp8 with scales per block of 128 x 128,
// and NVFP4 with a scale per 16 elements.
enum class ProductFormat : std::uint8_t { kBf16, kFp8, kFp8Block, kNvfp4 };
inline constexpr int kProductFormatCount = 4;
std::string_view Name(ProductFormat format);  // "bfloat16", "fp8", "fp8_block", "nvfp4"
std::optional<ProductFormat> ParseProductFormat(std::string_view name);

// Bytes of one element with its share of the scales.
double ElementBytes(ProductFormat format);

// `groups` products [m, k] x [k, n] in one kernel, all > 0; m counts tokens.
struct ProductShape {
  std::int64_t m = 1, n = 1, k = 1, groups = 1;

  bool operator==(const ProductShape&) const = default;
};

// Constants of one device and format, fitted to measured products.
struct GemmTerms {
  double rate_share = 0.7;    // rate of full tiles on all multiprocessors / dense 16-bit peak
  double memory_share = 0.8;  // of the published bandwidth
  double launch_s = 3e-6;     // fixed cost of the kernels of one product
  double fill_depth = 64;     // start, pipeline fill and epilogue of a tile, as extra k
  double whole_waves = 0.5;   // 0: tiles share multiprocessors freely; 1: waves count in full
  // Traffic of the cast of activations from 16 bits, in passes over 2 + ElementBytes bytes an
  // element at the published bandwidth. Unused for bf16.
  double cast_passes = 2;

  bool operator==(const GemmTerms&) const = default;
};

// Seconds of a product without the cast of its activations:
//
//   launch + (compute^4 + memory^4)^(1/4)
//   compute = min over tiles and splits of waves * 2 rows cols (depth + fill) / rate of a
//             multiprocessor + partial sums
//   memory  = (operands + result in 16 bits) / bandwidth
//
// Tiles: seven shapes from 64 x 64 to 256 x 256; smaller ones reach 0.92, 0.75 and 0.55 of the
// rate, because a tile's loads grow with its edges and its work with its area. Splits of k: 1, 2,
// 4, 8, with fp32 partial sums. Half a microsecond. Safe from any thread.
double GemmModelSeconds(const GemmTerms& terms, const KernelMachine& machine, ProductFormat format,
                        const ProductShape& shape);

// Seconds of the cast of the activations [m, k] from 16 bits; 0 for bf16. The published tables of
// fp8 and NVFP4 products include it.
double CastSeconds(const GemmTerms& terms, const KernelMachine& machine, ProductFormat format,
                   const ProductShape& shape);

// Time of a product in the best library relative to the median of libraries, at 10^10.5, 10^11.5
// and 10^12.5 FLOP; linear between in the logarithm, constant beyond. Training takes the best.
using BestShare = std::array<double, 3>;
double BestShareAt(const BestShare& best, const ProductShape& shape);
// The knot of `best` that is nearest to the product.
std::size_t NearestKnot(const ProductShape& shape);

// Position in a residual field: log2 of the sizes, and whether m is even and a multiple of 128,
// because other m need padding or narrower loads.
FieldPoint PointOf(const ProductShape& shape);

}  // namespace foretrain
