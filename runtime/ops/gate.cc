// Kernel calls of row gates, and of router balancing by biases instead of a loss.
#include "runtime/ops/kernel_makers.h"

namespace foretrain {
namespace {

// Multiplies each row of the shared experts' output by the sigmoid of its score.
KernelCall MakeGateForward(const BoundOp& op) {
  return Call<&FtDeviceApi::gate_forward>({.x = op.Pointer("x"),
                                           .scores = op.Pointer<float>("scores"),
                                           .y = op.Pointer("y"),
                                           .rows = op.op.shape.rows,
                                           .cols = op.op.shape.cols,
                                           .accumulate = op.op.accumulate,
                                           .dtype = op.Dtype("x")});
}

KernelCall MakeGateBackward(const BoundOp& op) {
  return Call<&FtDeviceApi::gate_backward>({.dy = op.Pointer("dy"),
                                            .x = op.Pointer("x"),
                                            .scores = op.Pointer<float>("scores"),
                                            .dx = op.Pointer("dx"),
                                            .d_scores = op.Pointer<float>("d_scores"),
                                            .rows = op.op.shape.rows,
                                            .cols = op.op.shape.cols,
                                            .dtype = op.Dtype("dy")});
}

// Adds this micro-batch's tokens to each expert's load of the step.
KernelCall MakeCountChoices(const BoundOp& op) {
  return Call<&FtDeviceApi::count_choices>({.chosen = op.Pointer<std::int32_t>("chosen"),
                                            .loads = op.Pointer<float>("loads"),
                                            .rows = op.op.shape.rows,
                                            .experts = op.op.shape.experts,
                                            .per_token = op.op.shape.per_token});
}

// Moves each expert's choice bias by a fixed rate towards an even load, and zeroes the loads.
KernelCall MakeBalanceBias(const BoundOp& op) {
  return Call<&FtDeviceApi::balance_bias>({.loads = op.Pointer<float>("loads"),
                                           .bias = op.Pointer<float>("bias"),
                                           .experts = op.op.shape.experts,
                                           .rate = op.op.Get(Attribute::kBiasRate)});
}

}  // namespace

std::span<const KernelMaker> GateMakers() {
  static constexpr std::array kMakers = {
      MakerOf<&FtDeviceApi::gate_forward>(OpKind::kGateForward, &MakeGateForward),
      MakerOf<&FtDeviceApi::gate_backward>(OpKind::kGateBackward, &MakeGateBackward),
      MakerOf<&FtDeviceApi::count_choices>(OpKind::kCountChoices, &MakeCountChoices),
      MakerOf<&FtDeviceApi::balance_bias>(OpKind::kBalanceBias, &MakeBalanceBias),
  };
  return kMakers;
}

}  // namespace foretrain
