// Which tensors in 4 bits (base/nf4.h) a parameter is kept as. Leaves out what is kept so
// (BlockParameter::quantized) and where its bucket lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/program/blocks/parameters.h"

namespace foretrain {

// One of a parameter's tensors in 4 bits on one rank.
struct PackedTensor {
  std::size_t part = 0;       // the first of the parameter's parts in it
  std::int64_t elements = 0;  // numbers, of all its parts
  std::int64_t offset = 0;    // bytes from the parameter's start, a multiple of 16
  std::int64_t bytes = 0;
};

// Of a parameter with parts, on one of `tp` ranks, in the order of its parts: one tensor of them
// all but where several ranks have the same heads of keys and values (ModelTensor::Copies). Those
// are a tensor of their own then, because a number's code goes by the others of its tensor, and all
// ranks are to have the same of the same heads.
std::vector<PackedTensor> PackedTensorsOf(const BlockParameter& parameter, int tp);

// Bytes of all of them.
std::int64_t PackedBytes(const BlockParameter& parameter, int tp);

}  // namespace foretrain
