#include "sim/cost/measured/training_model.h"

#include <cmath>

namespace foretrain {
namespace {

constexpr std::array<std::string_view, kProductLayoutCount> kNames = {"TN", "NN", "NT"};
constexpr std::int64_t kHalfBytes = 2;

}  // namespace

std::string_view Name(ProductLayout layout) { return kNames[static_cast<std::size_t>(layout)]; }

std::optional<ProductLayout> ParseProductLayout(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<ProductLayout>(i);
  }
  return std::nullopt;
}

// The hot product writes its result once in 16 bits. A sum is also read, and may be wider.
double TrainingProductModelSeconds(const TrainingTerms& terms, const KernelMachine& machine,
                                   const TrainingProduct& product, double hot_s) {
  const ProductShape& shape = product.shape;
  const double elements = static_cast<double>(shape.groups) * static_cast<double>(shape.m) *
                          static_cast<double>(shape.n);
  const std::int64_t bytes = product.sum_bytes * (product.accumulate ? 2 : 1) - kHalfBytes;
  const double sum_s =
      terms.sum_passes * elements * static_cast<double>(bytes) / machine.memory_bytes_per_s;
  const double grouped = shape.groups > 1 ? terms.grouped_time : 1;
  return terms.launch_s +
         grouped * terms.layout_time[static_cast<std::size_t>(product.layout)] * hot_s + sum_s;
}

// The two overlap: the device waits only while the host is slower.
double TrainingAttentionModelSeconds(const TrainingTerms& terms, double hot_s) {
  return std::pow(std::pow(terms.forward_floor_s, 4) + std::pow(terms.forward_time * hot_s, 4),
                  0.25);
}

}  // namespace foretrain
