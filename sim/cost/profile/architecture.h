// Efficiencies of a GPU architecture relative to its published peaks: a few constants, each with
// its source, for devices that were not measured. kernel_model.h computes times from them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/cost/profile/figure.h"

namespace foretrain {

// At most eleven constants; docs/validation.md lists the runs that each was fitted to.
struct Architecture {
  std::string name;                  // "ampere"
  std::vector<std::string> devices;  // prefixes of the names of its devices
  // Rate of products in a run of an hour relative to hot loops of the same kernel: the clock that
  // the power limit allows, cold caches, and operands read transposed.
  Figure sustained_share;
  Figure sustained_short_share;  // the same of products in 8 bits and fewer
  Figure memory_efficiency;      // share of the published bandwidth
  Figure kernel_s;               // fixed cost of each kernel
  // Attention with long sequences and head_dim 128, relative to the dense 16-bit peak; the causal
  // half is counted.
  Figure flash_forward, flash_backward, cudnn_forward, cudnn_backward;
  // Rate of 16-bit products whose sides are no multiples of 8, of the others.
  Figure unaligned_share;
  Figure score_efficiency;  // share of the bandwidth for softmax and dropout on attention scores
  Figure flash1_share;      // rate of FlashAttention's first version relative to the second

  bool operator==(const Architecture&) const = default;
};

// Parses architectures; `file` is for messages. Errors name file, field, value and remedy.
Result<std::vector<Architecture>> ArchitecturesFromJson(std::string_view text,
                                                        std::string_view file);

// The constants by name, with their ranges.
struct ArchitectureField {
  std::string_view name;
  Figure Architecture::*figure;
  double low = 0, high = 0;
};
std::span<const ArchitectureField> ArchitectureFields();

// The built-in architectures (sim/cost/profile/architectures.json).
Result<std::vector<Architecture>> BuiltInArchitectures();

// The architecture with a prefix of `device`'s name, or NULL.
const Architecture* FindArchitecture(const std::vector<Architecture>& architectures,
                                     std::string_view device);

}  // namespace foretrain
