// Attention that writes its scores out.
#include "runtime/ops/kernel_call.h"
#include "runtime/ops/qkv_columns.h"

namespace foretrain {

KernelCall MakeStandardAttentionForward(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  const QkvColumns packed(s);
  KernelCall call;
  call.args.standard_attention_forward = {
      .q = op.Pointer(0),
      .k = op.Element(0, packed.k),
      .v = op.Element(0, packed.v),
      .scores = op.Pointer(1),
      .weights = op.Pointer(2),
      .mask = op.Pointer<std::uint8_t>(3),
      .dropped = op.Pointer(4),
      .out = op.Pointer(5),
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
    FtStandardAttentionForward forward = args.standard_attention_forward;
    forward.random = InStep(forward.random, values);
    return api.standard_attention_forward(queue, &forward);
  };
  return call;
}

KernelCall MakeStandardAttentionBackward(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  const QkvColumns packed(s);
  KernelCall call;
  call.args.standard_attention_backward = {.q = op.Pointer(0),
                                           .k = op.Element(0, packed.k),
                                           .v = op.Element(0, packed.v),
                                           .weights = op.Pointer(1),
                                           .mask = op.Pointer<std::uint8_t>(2),
                                           .dropped = op.Pointer(3),
                                           .dout = op.Pointer(4),
                                           .d_scores = op.Pointer(5),
                                           .dq = op.Pointer(6),
                                           .dk = op.Element(6, packed.k),
                                           .dv = op.Element(6, packed.v),
                                           .batch = s.batch,
                                           .sequence = s.sequence,
                                           .row_stride = packed.stride,
                                           .heads = s.heads,
                                           .kv_heads = s.kv_heads,
                                           .head_dim = s.head_dim,
                                           .dtype = op.Dtype(0),
                                           .scale = op.op.parameter,
                                           .probability = op.op.dropout};
  call.launch =
      CallOf<&FtDeviceApi::standard_attention_backward, &KernelArgs::standard_attention_backward>;
  return call;
}

}  // namespace foretrain
