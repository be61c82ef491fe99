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
                    .dtype = FT_F32,
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
  const float* const qkv = op.Pointer<float>(0);
  KernelCall call;
  call.args.attention_forward = {.q = qkv,
                                 .k = qkv + packed.k,
                                 .v = qkv + packed.v,
                                 .out = op.Pointer(1),
                                 .lse = op.Pointer<float>(2),
                                 .batch = s.batch,
                                 .sequence = s.sequence,
                                 .row_stride = packed.stride,
                                 .heads = s.heads,
                                 .kv_heads = s.kv_heads,
                                 .head_dim = s.head_dim,
                                 .dtype = FT_F32,
                                 .window = s.window,
                                 .scale = op.op.parameter};
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues&) {
    return api.attention_forward(queue, &args.attention_forward);
  };
  return call;
}

KernelCall MakeAttentionBackward(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  const QkvColumns packed(s);
  const float* const qkv = op.Pointer<float>(0);
  float* const dqkv = op.Pointer<float>(4);
  KernelCall call;
  call.args.attention_backward = {.q = qkv,
                                  .k = qkv + packed.k,
                                  .v = qkv + packed.v,
                                  .out = op.Pointer(1),
                                  .lse = op.Pointer<float>(2),
                                  .dout = op.Pointer(3),
                                  .dq = dqkv,
                                  .dk = dqkv + packed.k,
                                  .dv = dqkv + packed.v,
                                  .batch = s.batch,
                                  .sequence = s.sequence,
                                  .row_stride = packed.stride,
                                  .heads = s.heads,
                                  .kv_heads = s.kv_heads,
                                  .head_dim = s.head_dim,
                                  .dtype = FT_F32,
                                  .window = s.window,
                                  .scale = op.op.parameter};
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues&) {
    return api.attention_backward(queue, &args.attention_backward);
  };
  return call;
}

}  // namespace foretrain
