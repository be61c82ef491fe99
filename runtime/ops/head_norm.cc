// Kernel calls of the norms of query and key heads.
#include "runtime/ops/kernel_makers.h"
#include "runtime/ops/qkv_columns.h"

namespace foretrain {
namespace {

// Normalizes q and k in place within qkv rows and keeps their inputs for the backward.
KernelCall MakeHeadNormForward(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  return Call<&FtDeviceApi::head_norm_forward>({.data = op.Pointer("qkv"),
                                                .q_weight = op.Pointer("q_weight"),
                                                .k_weight = op.Pointer("k_weight"),
                                                .kept = op.Pointer("kept"),
                                                .rstd = op.Pointer<float>("rstd"),
                                                .rows = s.rows,
                                                .row_stride = QkvColumns(s).stride,
                                                .heads = s.heads,
                                                .kv_heads = s.kv_heads,
                                                .head_dim = s.head_dim,
                                                .epsilon = op.op.Get(Attribute::kEpsilon),
                                                .dtype = FT_F32});
}

// Turns the gradient of qkv in place into that before the norms, and keeps the one after them for
// the weight gradient.
KernelCall MakeHeadNormBackwardInput(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  return Call<&FtDeviceApi::head_norm_backward_input>({.grad = op.Pointer("dqkv"),
                                                       .x = op.Pointer("kept"),
                                                       .rstd = op.Pointer<float>("rstd"),
                                                       .q_weight = op.Pointer("q_weight"),
                                                       .k_weight = op.Pointer("k_weight"),
                                                       .kept_grad = op.Pointer("kept_grad"),
                                                       .rows = s.rows,
                                                       .row_stride = QkvColumns(s).stride,
                                                       .heads = s.heads,
                                                       .kv_heads = s.kv_heads,
                                                       .head_dim = s.head_dim,
                                                       .dtype = FT_F32});
}

// Reads the kept gradient and inputs; kept apart because it runs in the weight half.
KernelCall MakeHeadNormBackwardWeight(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  return Call<&FtDeviceApi::head_norm_backward_weight>(
      {.dy = op.Pointer("kept_grad"),
       .x = op.Pointer("kept"),
       .rstd = op.Pointer<float>("rstd"),
       .q_weight_grad = op.Pointer("q_weight_grad"),
       .k_weight_grad = op.Pointer("k_weight_grad"),
       .rows = s.rows,
       .heads = s.heads,
       .kv_heads = s.kv_heads,
       .head_dim = s.head_dim,
       .accumulate = op.op.accumulate,
       .dtype = FT_F32});
}

}  // namespace

std::span<const KernelMaker> HeadNormMakers() {
  static constexpr std::array kMakers = {
      MakerOf<&FtDeviceApi::head_norm_forward>(OpKind::kHeadNormForward, &MakeHeadNormForward),
      MakerOf<&FtDeviceApi::head_norm_backward_input>(OpKind::kHeadNormBackwardInput,
                                                      &MakeHeadNormBackwardInput),
      MakerOf<&FtDeviceApi::head_norm_backward_weight>(OpKind::kHeadNormBackwardWeight,
                                                       &MakeHeadNormBackwardWeight),
  };
  return kMakers;
}

}  // namespace foretrain
