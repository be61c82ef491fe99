// Causal attention over packed rows [q | k | v], and the rotation of q and k.
#include "runtime/ops/kernel_call.h"
#include "runtime/ops/qkv_columns.h"
#include "runtime/ops/sequence_runs.h"

namespace foretrain {
KernelCall MakeRope(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  KernelCall call;
  call.args.rope = {.data = op.Pointer(0),
                    .rows = s.rows,
                    .row_stride = QkvColumns(s).stride,
                    .sequence = s.sequence,
                    .heads = s.heads + s.kv_heads,
                    .head_dim = s.rotary > 0 ? s.rotary : s.head_dim,
                    .inverse = op.op.inverse,
                    .theta = op.op.parameter,
                    .dtype = op.Dtype(0),
                    .runs = op.runs != nullptr ? op.runs->OfRank(op.cp) : nullptr,
                    .run_count = op.runs != nullptr ? SequenceRuns::kOfRank : 0,
                    .head_stride = s.head_dim};
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues&) { return api.rope(queue, &args.rope); };
  return call;
}

KernelCall MakeAttentionForward(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  const QkvColumns packed(s);
  KernelCall call;
  call.args.attention_forward = {.q = op.Pointer(0),
                                 .k = op.Element(0, packed.k),
                                 .v = op.Element(0, packed.v),
                                 .out = op.Pointer(1),
                                 .lse = op.Pointer<float>(2),
                                 .batch = s.batch,
                                 .sequence = s.sequence,
                                 .row_stride = packed.stride,
                                 .heads = s.heads,
                                 .kv_heads = s.kv_heads,
                                 .head_dim = s.head_dim,
                                 .dtype = op.Dtype(0),
                                 .window = s.window,
                                 .scale = op.op.parameter,
                                 .random = RandomMaskOf(op, std::int64_t{op.tp} * s.heads)};
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues& values) {
    FtAttentionForward forward = args.attention_forward;
    forward.random = InStep(forward.random, values);
    return api.attention_forward(queue, &forward);
  };
  return call;
}

KernelCall MakeAttentionBackward(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  const QkvColumns packed(s);
  KernelCall call;
  call.args.attention_backward = {.q = op.Pointer(0),
                                  .k = op.Element(0, packed.k),
                                  .v = op.Element(0, packed.v),
                                  .out = op.Pointer(1),
                                  .lse = op.Pointer<float>(2),
                                  .dout = op.Pointer(3),
                                  .dq = op.Pointer(4),
                                  .dk = op.Element(4, packed.k),
                                  .dv = op.Element(4, packed.v),
                                  .batch = s.batch,
                                  .sequence = s.sequence,
                                  .row_stride = packed.stride,
                                  .heads = s.heads,
                                  .kv_heads = s.kv_heads,
                                  .head_dim = s.head_dim,
                                  .dtype = op.Dtype(0),
                                  .window = s.window,
                                  .scale = op.op.parameter,
                                  .random = RandomMaskOf(op, std::int64_t{op.tp} * s.heads)};
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues& values) {
    FtAttentionBackward backward = args.attention_backward;
    backward.random = InStep(backward.random, values);
    return api.attention_backward(queue, &backward);
  };
  return call;
}

}  // namespace foretrain
