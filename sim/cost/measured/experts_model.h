// Seconds of the experts of one device in a hot loop, forward: route, permute, two grouped products
// with the gate between them, and combine. Leaves out the exchange of tokens between devices.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "sim/cost/measured/gemm_model.h"
#include "sim/cost/measured/kernel_machine.h"
#include "sim/cost/measured/residual_field.h"

namespace foretrain {

// How a router spreads tokens over experts: evenly, or by a power law with this exponent.
enum class ExpertLoad : std::uint8_t { kBalanced, kPowerLaw101, kPowerLaw12 };
inline constexpr int kExpertLoadCount = 3;
std::string_view Name(ExpertLoad load);  // "balanced", "power_law_1.01", "power_law_1.2"
std::optional<ExpertLoad> ParseExpertLoad(std::string_view name);

// Counts > 0. A device holds experts / ep experts of width ffn_hidden / tp.
struct ExpertsShape {
  std::int64_t tokens = 1;  // of one rank, before routing
  std::int64_t hidden = 1, ffn_hidden = 1, topk = 1, experts = 1, tp = 1, ep = 1;
  ExpertLoad load = ExpertLoad::kBalanced;

  bool operator==(const ExpertsShape&) const = default;
};

// Constants of one device and format, fitted to measured layers.
struct ExpertsTerms {
  double rate_share = 0.5;    // rate of the grouped products / dense 16-bit peak
  double memory_share = 0.6;  // of the published bandwidth, while reading weights
  double launch_s = 30e-6;    // fixed cost of all kernels
  double padding_rows = 32;   // extra rows of each active expert, which fill its last tile
  double fill_width = 64;     // start and epilogue of a tile, as extra width of an expert
  double token_passes = 1.5;  // traffic of the rows between the kernels, in passes over them
  double route_s = 10e-12;    // of one token's score for one expert
  // The device with the most load has ep^skew times the mean load under a power law.
  std::array<double, kExpertLoadCount - 1> skew = {0.2, 0.3};

  bool operator==(const ExpertsTerms&) const = default;
};

// Seconds of one layer's experts on the device with the most load:
//
//   launch + (compute^4 + weights^4)^(1/4) + token_passes * rows / bandwidth + routing
//   pairs    min(tokens * topk / ep * ep^skew, tokens * min(topk, local experts))
//   compute  6 (pairs + padding * active experts) * hidden * (width + fill) / rate
//   weights  3 * hidden * width of each expert that has tokens
double ExpertsForwardModelSeconds(const ExpertsTerms& terms, const KernelMachine& machine,
                                  ProductFormat format, const ExpertsShape& shape);

// Position in a residual field: log2 of the sizes. The model's count three times, degrees and load
// less.
FieldPoint PointOf(const ExpertsShape& shape);

}  // namespace foretrain
