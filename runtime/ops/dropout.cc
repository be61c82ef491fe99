// Dropout: which random numbers an op draws, and its kernels.
#include "base/hash.h"
#include "runtime/ops/kernel_call.h"
#include "runtime/ops/sequence_runs.h"
#include "sim/program/program.h"

namespace foretrain {

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

FtRandomMask InStep(FtRandomMask mask, const StepValues& values) {
  if (mask.probability > 0.0F) mask.key = StableHash().Add(mask.key).Add(values.step).Value();
  return mask;
}

namespace {

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

FtStatus LaunchDropout(const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                       const StepValues& values) {
  FtDropout dropout = args.dropout;
  dropout.random = InStep(dropout.random, values);
  return api.dropout(queue, &dropout);
}

}  // namespace

KernelCall MakeDropout(const BoundOp& op) {
  KernelCall call;
  FtDropout dropout = DropoutOf(op);
  dropout.x = op.Pointer(0);
  dropout.bias = op.Pointer(1);
  dropout.residual = op.Pointer(2);
  dropout.out = op.Pointer(3);
  dropout.mask = op.Pointer<std::uint8_t>(4);
  dropout.dtype = op.Dtype(0);
  dropout.bias_dtype = op.Dtype(1);
  call.args.dropout = dropout;
  call.launch = &LaunchDropout;
  return call;
}

KernelCall MakeDropoutMask(const BoundOp& op) {
  KernelCall call;
  call.args.dropout = DropoutOf(op);
  call.args.dropout.mask = op.Pointer<std::uint8_t>(0);
  call.launch = &LaunchDropout;
  return call;
}

KernelCall MakeDropoutBackward(const BoundOp& op) {
  KernelCall call;
  call.args.dropout_backward = {.dy = op.Pointer(0),
                                .mask = op.Pointer<std::uint8_t>(1),
                                .dx = op.Pointer(2),
                                .elements = op.op.shape.rows * op.op.shape.cols,
                                .probability = op.op.dropout,
                                .dtype = op.Dtype(0)};
  call.launch = CallOf<&FtDeviceApi::dropout_backward, &KernelArgs::dropout_backward>;
  return call;
}

}  // namespace foretrain
