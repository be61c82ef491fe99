#include "sim/cost/measured/experts_model.h"

#include <algorithm>
#include <cmath>

namespace foretrain {
namespace {

constexpr std::array<std::string_view, kExpertLoadCount> kNames = {"balanced", "power_law_1.01",
                                                                   "power_law_1.2"};
constexpr double kHalfBytes = 2;
constexpr double kMatrices = 3;  // gate, up, down
// Distances in the residual field: one doubling of a size of the model, of a degree, and one step
// of the load. Libraries are tuned for single models, so another model is far.
constexpr double kModelStep = 3, kDegreeStep = 0.7, kLoadStep = 0.5;

double Square(double x) { return x * x; }

double Log2(std::int64_t count) { return std::log2(static_cast<double>(count)); }

double SkewOf(const ExpertsTerms& terms, ExpertLoad load) {
  return load == ExpertLoad::kBalanced ? 0 : terms.skew[static_cast<std::size_t>(load) - 1];
}

}  // namespace

std::string_view Name(ExpertLoad load) { return kNames[static_cast<std::size_t>(load)]; }

std::optional<ExpertLoad> ParseExpertLoad(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<ExpertLoad>(i);
  }
  return std::nullopt;
}

double ExpertsForwardModelSeconds(const ExpertsTerms& terms, const KernelMachine& machine,
                                  ProductFormat format, const ExpertsShape& shape) {
  const auto tokens = static_cast<double>(shape.tokens), topk = static_cast<double>(shape.topk);
  const auto hidden = static_cast<double>(shape.hidden), ep = static_cast<double>(shape.ep);
  const double experts = static_cast<double>(shape.experts) / ep;
  const double width = static_cast<double>(shape.ffn_hidden) / static_cast<double>(shape.tp);
  const double pairs = std::min(tokens * topk / ep * std::pow(ep, SkewOf(terms, shape.load)),
                                tokens * std::min(topk, experts));
  // Tokens that fall on experts at random leave a share of e^-load without any.
  const double active = experts * (1 - std::exp(-pairs / experts));
  const double compute = 2 * kMatrices * (pairs + terms.padding_rows * active) * hidden *
                         (width + terms.fill_width) / (terms.rate_share * machine.half_flop_per_s);
  const double weights = kMatrices * hidden * width * active * ElementBytes(format) /
                         (terms.memory_share * machine.memory_bytes_per_s);
  const double rows = kHalfBytes * (pairs * (2 * hidden + kMatrices * width) + tokens * hidden);
  return terms.launch_s +
         std::sqrt(std::sqrt(Square(compute * compute) + Square(weights * weights))) +
         terms.token_passes * rows / machine.memory_bytes_per_s +
         terms.route_s * tokens * static_cast<double>(shape.experts);
}

FieldPoint PointOf(const ExpertsShape& shape) {
  return {Log2(shape.tokens),
          kModelStep * Log2(shape.hidden),
          kModelStep * Log2(shape.ffn_hidden),
          Log2(shape.topk),
          kModelStep * Log2(shape.experts),
          kDegreeStep * Log2(shape.tp),
          kDegreeStep * Log2(shape.ep),
          kLoadStep * static_cast<double>(shape.load)};
}

}  // namespace foretrain
