// Kernel calls of LayerNorm and RMSNorm.
#include "runtime/ops/kernel_makers.h"

namespace foretrain {
namespace {

// mean is null for RMSNorm, and the bias is null for models whose norms have none. mean and rstd
// are kept in fp32 for the backward.
KernelCall MakeNormForward(const BoundOp& op) {
  return Call<&FtDeviceApi::norm_forward>({.x = op.Pointer("x"),
                                           .weight = op.Pointer("weight"),
                                           .bias = op.Pointer("bias"),
                                           .y = op.Pointer("y"),
                                           .mean = op.Pointer<float>("mean"),
                                           .rstd = op.Pointer<float>("rstd"),
                                           .rows = op.op.shape.rows,
                                           .cols = op.op.shape.cols,
                                           .epsilon = op.op.Get(Attribute::kEpsilon),
                                           .rms = op.op.rms,
                                           .dtype = op.Dtype("x"),
                                           .weight_dtype = op.Dtype("weight")});
}

// `residual`: the gradient that passes the branch; the kernel adds it to dx, which saves an op.
KernelCall MakeNormBackwardInput(const BoundOp& op) {
  return Call<&FtDeviceApi::norm_backward_input>({.dy = op.Pointer("dy"),
                                                  .x = op.Pointer("x"),
                                                  .weight = op.Pointer("weight"),
                                                  .mean = op.Pointer<float>("mean"),
                                                  .rstd = op.Pointer<float>("rstd"),
                                                  .residual = op.Pointer("residual"),
                                                  .dx = op.Pointer("dx"),
                                                  .rows = op.op.shape.rows,
                                                  .cols = op.op.shape.cols,
                                                  .rms = op.op.rms,
                                                  .dtype = op.Dtype("dy"),
                                                  .weight_dtype = op.Dtype("weight")});
}

// Gradients may have a wider format than the weights: the one in which micro-batches are summed.
KernelCall MakeNormBackwardWeight(const BoundOp& op) {
  return Call<&FtDeviceApi::norm_backward_weight>({.dy = op.Pointer("dy"),
                                                   .x = op.Pointer("x"),
                                                   .mean = op.Pointer<float>("mean"),
                                                   .rstd = op.Pointer<float>("rstd"),
                                                   .weight_grad = op.Pointer("weight_grad"),
                                                   .bias_grad = op.Pointer("bias_grad"),
                                                   .rows = op.op.shape.rows,
                                                   .cols = op.op.shape.cols,
                                                   .rms = op.op.rms,
                                                   .accumulate = op.op.accumulate,
                                                   .dtype = op.Dtype("dy"),
                                                   .grad_dtype = op.Dtype("weight_grad")});
}

// Residual sum and norm in one pass over the rows.
KernelCall MakeAddNormForward(const BoundOp& op) {
  return Call<&FtDeviceApi::add_norm_forward>({.a = op.Pointer("a"),
                                               .b = op.Pointer("b"),
                                               .bias = op.Pointer("bias"),
                                               .weight = op.Pointer("weight"),
                                               .norm_bias = op.Pointer("norm_bias"),
                                               .sum = op.Pointer("sum"),
                                               .y = op.Pointer("y"),
                                               .mean = op.Pointer<float>("mean"),
                                               .rstd = op.Pointer<float>("rstd"),
                                               .rows = op.op.shape.rows,
                                               .cols = op.op.shape.cols,
                                               .epsilon = op.op.Get(Attribute::kEpsilon),
                                               .rms = op.op.rms,
                                               .dtype = op.Dtype("a"),
                                               .weight_dtype = op.Dtype("weight")});
}

}  // namespace

std::span<const KernelMaker> NormMakers() {
  static constexpr std::array kMakers = {
      MakerOf<&FtDeviceApi::norm_forward>(OpKind::kNormForward, &MakeNormForward),
      MakerOf<&FtDeviceApi::norm_backward_input>(OpKind::kNormBackwardInput,
                                                 &MakeNormBackwardInput),
      MakerOf<&FtDeviceApi::norm_backward_weight>(OpKind::kNormBackwardWeight,
                                                  &MakeNormBackwardWeight),
      MakerOf<&FtDeviceApi::add_norm_forward>(OpKind::kAddNormForward, &MakeAddNormForward),
  };
  return kMakers;
}

}  // namespace foretrain
