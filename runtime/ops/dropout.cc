// Kernel calls of dropout, and the random numbers that an op draws.
#include "base/hash.h"
#include "runtime/ops/kernel_makers.h"
#include "runtime/ops/sequence_runs.h"
#include "sim/program/ir/program.h"

namespace foretrain {
namespace {

// Arguments that the three dropout ops share. first_row and runs give each row's token, on which
// its random numbers depend, so that all parallel layouts drop the same elements.
FtDropout DropoutOf(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  return {.x = nullptr,
          .bias = nullptr,
          .residual = nullptr,
          .out = nullptr,
          .mask = nullptr,
          .rows = s.rows,
          .cols = s.cols,
          .sequence = s.sequence,
          .first_row = op.op.own_rows ? op.tp * s.rows : 0,
          .random = RandomMaskOf(op, /*first_head=*/0),
          .runs = op.runs != nullptr ? op.runs->OfRank(op.cp) : nullptr,
          .run_count = op.runs != nullptr ? SequenceRuns::kOfRank : 0,
          .dtype = FT_F32,
          .bias_dtype = FT_F32};
}

KernelCall MakeDropout(const BoundOp& op) {
  FtDropout dropout = DropoutOf(op);
  dropout.x = op.Pointer("x");
  dropout.bias = op.Pointer("bias");
  dropout.residual = op.Pointer("residual");
  dropout.out = op.Pointer("out");
  dropout.mask = op.Pointer<std::uint8_t>("mask");
  dropout.dtype = op.Dtype("x");
  dropout.bias_dtype = op.Dtype("bias");
  return Call<&FtDeviceApi::dropout>(dropout);
}

// The dropout kernel without x writes the mask only.
KernelCall MakeDropoutMask(const BoundOp& op) {
  FtDropout dropout = DropoutOf(op);
  dropout.mask = op.Pointer<std::uint8_t>("mask");
  return Call<&FtDeviceApi::dropout>(dropout);
}

KernelCall MakeDropoutBackward(const BoundOp& op) {
  return Call<&FtDeviceApi::dropout_backward>({.dy = op.Pointer("dy"),
                                               .mask = op.Pointer<std::uint8_t>("mask"),
                                               .dx = op.Pointer("dx"),
                                               .elements = op.op.shape.rows * op.op.shape.cols,
                                               .probability = op.op.dropout,
                                               .dtype = op.Dtype("dy")});
}

}  // namespace

// The stream depends on seed, block and dropout site, and not on the rank or the pass. A
// recomputation draws the same numbers.
RandomPlace RandomPlaceOf(const Op& op, std::uint64_t seed, const InstructionKey& key,
                          const Plan& plan, int dp) {
  if (op.dropout == 0.0F) return {};
  return {StableHash().Add(seed).Add(key.block).Add(op.dropout_site).Value(),
          plan.FirstSample(dp, key.micro_batch)};
}

FtRandomMask RandomMaskOf(const BoundOp& op, std::int64_t first_head) {
  return {.key = op.random.stream,
          .first_sample = op.random.first_sample,
          .first_head = first_head,
          .probability = op.op.dropout};
}

// The step enters at launch, because the arguments are made before the first step.
FtRandomMask InStep(FtRandomMask mask, const StepValues& values) {
  if (mask.probability > 0.0F) mask.key = StableHash().Add(mask.key).Add(values.step).Value();
  return mask;
}

std::span<const KernelMaker> DropoutMakers() {
  static constexpr std::array kMakers = {
      MakerOf<&FtDeviceApi::dropout>(OpKind::kDropout, &MakeDropout),
      MakerOf<&FtDeviceApi::dropout>(OpKind::kDropoutMask, &MakeDropoutMask),
      MakerOf<&FtDeviceApi::dropout_backward>(OpKind::kDropoutBackward, &MakeDropoutBackward),
  };
  return kMakers;
}

}  // namespace foretrain
