// What a GPU architecture makes of its published peaks: few constants, each with its source, for
// devices that were not measured. Leaves out the times that are made of them (kernel_model.h).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/cost/figure.h"

namespace foretrain {

// At most twelve figures; docs/validation.md lists the runs that each was fitted to.
struct Architecture {
  std::string name;                  // "ampere"
  std::vector<std::string> devices;  // starts of the names of its devices
  Figure gemm_efficiency;            // of the dense peak, while all multiprocessors run full tiles
  Figure tile_s;                     // start, pipeline fill and epilogue of one tile
  Figure l2_bytes_per_s;             // to all multiprocessors together
  Figure memory_efficiency;          // of the published bandwidth
  Figure kernel_s;                   // of each kernel, beside its work
  // Attention at long sequences with head_dim 128, of the dense 16-bit peak; causal half counted.
  Figure flash_forward, flash_backward, cudnn_forward, cudnn_backward;
  Figure unaligned_share;   // rate of 16-bit products whose sides are no multiples of 8, of the others
  Figure score_efficiency;  // of the bandwidth: softmax and dropout on the scores of attention
  Figure flash1_share;      // rate of FlashAttention's first version over the second's

  bool operator==(const Architecture&) const = default;
};

// The architectures in `text`; `file` is for messages. Errors: naming file, field, value and
// remedy.
Result<std::vector<Architecture>> ArchitecturesFromJson(std::string_view text,
                                                        std::string_view file);

// Its figures by name, with the range that each may have.
struct ArchitectureField {
  std::string_view name;
  Figure Architecture::*figure;
  double low = 0, high = 0;
};
std::span<const ArchitectureField> ArchitectureFields();

// Those that are part of the program (sim/cost/architectures.json).
Result<std::vector<Architecture>> BuiltInArchitectures();

// The one whose devices' names `device` starts with, or null.
const Architecture* FindArchitecture(const std::vector<Architecture>& architectures,
                                     std::string_view device);

}  // namespace foretrain
