// Kernel calls of token and position tables.
#include "runtime/ops/bind_arguments.h"
#include "runtime/ops/kernel_makers.h"

namespace foretrain {
namespace {

KernelCall MakeEmbeddingForward(const BoundOp& op) {
  auto g = BindArguments<FtEmbeddingForward>(op);
  g.dtype = op.Dtype("out");
  return Call<&FtDeviceApi::embedding_forward>(g);
}

// The position table's gradient is a separate op, a sum over the batch. Under context parallelism
// this kernel adds it, because a rank's positions are two ranges.
KernelCall MakeEmbeddingBackward(const BoundOp& op) {
  auto g = BindArguments<FtEmbeddingBackward>(op);
  g.dtype = op.Dtype("dy");
  g.accumulate_table = op.op.accumulate;
  g.accumulate_positions = 1;
  return Call<&FtDeviceApi::embedding_backward>(g);
}

}  // namespace

std::span<const KernelMaker> EmbeddingMakers() {
  static constexpr std::array kMakers = {
      KernelMaker{OpKind::kEmbeddingForward, &MakeEmbeddingForward},
      KernelMaker{OpKind::kEmbeddingBackward, &MakeEmbeddingBackward},
  };
  return kMakers;
}

}  // namespace foretrain
