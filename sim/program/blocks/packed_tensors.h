// Layout of a parameter stored in 4 bits (base/numeric/nf4.h): its packed tensors. Which parameters
// are packed is in BlockParameter::quantized, and their buckets are lowering's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/program/blocks/parameters.h"

namespace foretrain {

// One packed tensor of a parameter on one rank.
struct PackedTensor {
  std::size_t part = 0;       // index of its first part in the parameter
  std::int64_t elements = 0;  // numbers in all its parts
  std::int64_t offset = 0;    // bytes from the parameter's start, a multiple of 16
  std::int64_t bytes = 0;
};

// Packed tensors of a parameter with parts on one of `tp` ranks, in the order of the parts. All
// parts share one tensor, unless several ranks hold the same key and value heads
// (ModelTensor::Copies). Those heads get a tensor of their own: a number's code depends on its
// tensor, and all ranks must have the same codes for the same heads.
std::vector<PackedTensor> PackedTensorsOf(const BlockParameter& parameter, int tp);

// Bytes of all packed tensors of the parameter.
std::int64_t PackedBytes(const BlockParameter& parameter, int tp);

}  // namespace foretrain
