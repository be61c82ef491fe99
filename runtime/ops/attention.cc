// Causal attention over packed rows [q | k | v], the rotation of q and k, and what latent attention
// and sinks put before and behind it.
#include "runtime/ops/kernel_call.h"
#include "runtime/ops/qkv_columns.h"
#include "runtime/ops/sequence_runs.h"

namespace foretrain {
namespace {

FtRopeStretch StretchOf(RopeStretchKind kind) {
  switch (kind) {
    case RopeStretchKind::kLinear:
      return FT_ROPE_LINEAR;
    case RopeStretchKind::kYarn:
      return FT_ROPE_YARN;
    case RopeStretchKind::kLlama3:
      return FT_ROPE_LLAMA3;
    case RopeStretchKind::kNone:
      break;
  }
  return FT_ROPE_PLAIN;
}

FtStatus LaunchForward(const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                       const StepValues& values) {
  FtAttentionForward forward = args.attention_forward;
  forward.random = InStep(forward.random, values);
  return api.attention_forward(queue, &forward);
}

FtStatus LaunchBackward(const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                        const StepValues& values) {
  FtAttentionBackward backward = args.attention_backward;
  backward.random = InStep(backward.random, values);
  return api.attention_backward(queue, &backward);
}

}  // namespace

const FtAttentionForward* AttentionForwardOf(const KernelCall& call) {
  return call.launch == &LaunchForward ? &call.args.attention_forward : nullptr;
}

const FtAttentionBackward* AttentionBackwardOf(const KernelCall& call) {
  return call.launch == &LaunchBackward ? &call.args.attention_backward : nullptr;
}

KernelCall MakeRope(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  KernelCall call;
  call.args.rope = {.data = op.Element(0, s.rotary_first),
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
                    .head_stride = s.head_dim,
                    .stretch = StretchOf(op.op.stretch.kind),
                    .factor = op.op.stretch.factor,
                    .low = op.op.stretch.low,
                    .high = op.op.stretch.high,
                    .original = op.op.stretch.original,
                    .magnitude = op.op.stretch.magnitude};
  call.launch = CallOf<&FtDeviceApi::rope, &KernelArgs::rope>;
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
                                 .value_dim = s.value_dim,
                                 .alibi_heads = s.alibi_heads,
                                 .first_head = FirstHead(op),
                                 .softcap = op.op.cap,
                                 .random = RandomMaskOf(op, FirstHead(op))};
  call.launch = &LaunchForward;
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
                                  .value_dim = s.value_dim,
                                  .alibi_heads = s.alibi_heads,
                                  .first_head = FirstHead(op),
                                  .softcap = op.op.cap,
                                  .random = RandomMaskOf(op, FirstHead(op))};
  call.launch = &LaunchBackward;
  return call;
}

// Both tensors of a row are parts of the other one's.
KernelCall MakeSplitColumns(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  const bool joins = op.op.inverse;
  KernelCall call;
  call.args.split_columns = {.whole = op.Pointer<std::byte>(joins ? 2 : 0),
                             .left = op.Pointer<std::byte>(joins ? 0 : 1),
                             .right = op.Pointer<std::byte>(joins ? 1 : 2),
                             .rows = s.rows,
                             .left_cols = s.cols,
                             .right_cols = s.inner,
                             .each = BytesIn(op.op.formats[0], 1),
                             .dtype = op.Dtype(0),
                             .inverse = joins};
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues&) {
    const SplitColumnsCall& g = args.split_columns;
    const std::int64_t stride = g.left_cols + g.right_cols;
    const auto copy = [&](std::byte* whole, std::byte* part, std::int64_t cols) {
      const FtCopyRows rows{g.inverse ? part : whole,  g.inverse ? whole : part,  g.rows, cols,
                            g.inverse ? cols : stride, g.inverse ? stride : cols, g.dtype};
      return api.copy_rows(queue, &rows);
    };
    const FtStatus status = copy(g.whole, g.left, g.left_cols);
    if (status != FT_OK) return status;
    return copy(g.whole + g.left_cols * g.each, g.right, g.right_cols);
  };
  return call;
}

KernelCall MakeLatentHeads(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  const std::size_t first = op.op.inverse ? 1 : 0;
  KernelCall call;
  call.args.latent_heads = {.q = op.Pointer(first),
                            .kv = op.Pointer(first + 1),
                            .turned_key = op.Pointer(first + 2),
                            .qkv = op.Pointer(op.op.inverse ? 0 : 3),
                            .rows = s.rows,
                            .heads = s.heads,
                            .head_dim = s.head_dim,
                            .rotary = s.rotary,
                            .value_dim = s.value_dim,
                            .inverse = op.op.inverse,
                            .dtype = op.Dtype(0)};
  call.launch = CallOf<&FtDeviceApi::latent_heads, &KernelArgs::latent_heads>;
  return call;
}

KernelCall MakeSinkForward(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  KernelCall call;
  call.args.sink_forward = {.out = op.Pointer(0),
                            .lse = op.Pointer<float>(1),
                            .sinks = op.Pointer(2),
                            .rows = s.rows,
                            .heads = s.heads,
                            .head_dim = s.head_dim,
                            .dtype = op.Dtype(0),
                            .sinks_dtype = op.Dtype(2)};
  call.launch = CallOf<&FtDeviceApi::sink_forward, &KernelArgs::sink_forward>;
  return call;
}

KernelCall MakeSinkBackward(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  KernelCall call;
  call.args.sink_backward = {.out = op.Pointer(0),
                             .dout = op.Pointer(1),
                             .lse = op.Pointer<float>(2),
                             .sinks = op.Pointer(3),
                             .sinks_grad = op.Pointer(4),
                             .rows = s.rows,
                             .heads = s.heads,
                             .head_dim = s.head_dim,
                             .accumulate = op.op.accumulate,
                             .dtype = op.Dtype(0),
                             .sinks_dtype = op.Dtype(3),
                             .grad_dtype = op.Dtype(4)};
  call.launch = CallOf<&FtDeviceApi::sink_backward, &KernelArgs::sink_backward>;
  return call;
}

}  // namespace foretrain
