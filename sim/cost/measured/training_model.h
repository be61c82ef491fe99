// Times of training's kernels relative to the tables of single products and of forward attention:
// layouts of the operands, sums of weight gradients, grouped products, attention backward.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "sim/cost/measured/attention_model.h"
#include "sim/cost/measured/gemm_model.h"

namespace foretrain {

// Layouts of a linear layer's three products: forward, input gradient and weight gradient. T: the
// operand is read transposed.
enum class ProductLayout : std::uint8_t { kTn, kNn, kNt };
inline constexpr int kProductLayoutCount = 3;
std::string_view Name(ProductLayout layout);  // "TN", "NN", "NT"
std::optional<ProductLayout> ParseProductLayout(std::string_view name);

struct TrainingProduct {
  ProductShape shape;
  ProductLayout layout = ProductLayout::kTn;
  bool accumulate = false;     // adds the result to a sum
  std::int64_t sum_bytes = 2;  // of one element of the result
};

// Constants of one device's training library, fitted to measured shares of the peak.
struct TrainingTerms {
  std::array<double, kProductLayoutCount> layout_time = {1, 1, 1};  // relative to the hot product
  double grouped_time = 1;  // of grouped products, relative to one product with all tiles
  double sum_passes = 1;    // traffic of the result's sum, in passes over its reads and writes
  double launch_s = 2e-6;   // added to each product
  double forward_time = 1;  // of attention forward, relative to the hot kernel
  double forward_floor_s = 50e-6;  // minimum of attention forward, while the host issues it

  bool operator==(const TrainingTerms&) const = default;
};

// Seconds of a product in 16 bits whose hot kernel takes `hot_s`.
double TrainingProductModelSeconds(const TrainingTerms& terms, const KernelMachine& machine,
                                   const TrainingProduct& product, double hot_s);

// Seconds of attention forward whose hot kernel takes `hot_s`.
double TrainingAttentionModelSeconds(const TrainingTerms& terms, double hot_s);

}  // namespace foretrain
