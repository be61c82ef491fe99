#include "sim/program/blocks/packed_tensors.h"

#include "base/checked.h"
#include "base/result.h"
#include "sim/program/ir/op.h"

namespace foretrain {
namespace {

constexpr std::int64_t kGrain = 16;  // alignment in bytes of fp32 scales and of bucket shards

}  // namespace

// A new tensor begins where the number of copies changes. Offsets are rounded up to 16 bytes.
std::vector<PackedTensor> PackedTensorsOf(const BlockParameter& parameter, int tp) {
  std::vector<PackedTensor> tensors;
  for (std::size_t i = 0; i < parameter.parts.size(); ++i) {
    const ModelTensor& part = parameter.parts[i];
    if (i == 0 || part.Copies(tp) != parameter.parts[i - 1].Copies(tp)) tensors.push_back({i});
    tensors.back().elements += ElementsOf(part, parameter.split, tp);
  }
  std::int64_t end = 0;
  for (PackedTensor& tensor : tensors) {
    tensor.offset = CeilDiv(end, kGrain) * kGrain;
    tensor.bytes = BytesIn(NumberFormat::kNf4, tensor.elements);
    end = tensor.offset + tensor.bytes;
  }
  return tensors;
}

// The last tensor's end: tensors are in ascending order of their offsets.
std::int64_t PackedBytes(const BlockParameter& parameter, int tp) {
  const std::vector<PackedTensor> tensors = PackedTensorsOf(parameter, tp);
  FT_CHECK(!tensors.empty());
  return tensors.back().offset + tensors.back().bytes;
}

}  // namespace foretrain
