// Kernel calls of causal attention over packed rows [q | k | v], of rope, and of the ops that
// latent attention and sinks add.
#include "runtime/ops/kernel_makers.h"
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

// Query and key heads are adjacent in a row, so one call rotates both in place. With runs,
// positions come from the rank's two chunks of the sequence.
KernelCall MakeRope(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  return Call<&FtDeviceApi::rope>({.data = op.Element("qkv", s.rotary_first),
                                   .rows = s.rows,
                                   .row_stride = QkvColumns(s).stride,
                                   .sequence = s.sequence,
                                   .heads = s.heads + s.kv_heads,
                                   .head_dim = s.rotary > 0 ? s.rotary : s.head_dim,
                                   .inverse = op.op.inverse,
                                   .theta = op.op.Get(Attribute::kTheta),
                                   .dtype = op.Dtype("qkv"),
                                   .runs = op.runs != nullptr ? op.runs->OfRank(op.cp) : nullptr,
                                   .run_count = op.runs != nullptr ? SequenceRuns::kOfRank : 0,
                                   .head_stride = s.head_dim,
                                   .stretch = StretchOf(op.op.stretch.kind),
                                   .factor = op.op.stretch.factor,
                                   .low = op.op.stretch.low,
                                   .high = op.op.stretch.high,
                                   .original = op.op.stretch.original,
                                   .magnitude = op.op.stretch.magnitude});
}

// q, k and v are column ranges of one packed tensor, with one row stride. ALiBi slopes and dropout
// depend on a head's index in the model, hence FirstHead.
KernelCall MakeAttentionForward(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  const QkvColumns packed(s);
  return Call<&FtDeviceApi::attention_forward>({.q = op.Pointer("qkv"),
                                                .k = op.Element("qkv", packed.k),
                                                .v = op.Element("qkv", packed.v),
                                                .out = op.Pointer("out"),
                                                .lse = op.Pointer<float>("lse"),
                                                .batch = s.batch,
                                                .sequence = s.sequence,
                                                .row_stride = packed.stride,
                                                .heads = s.heads,
                                                .kv_heads = s.kv_heads,
                                                .head_dim = s.head_dim,
                                                .dtype = op.Dtype("qkv"),
                                                .window = s.window,
                                                .scale = op.op.Get(Attribute::kScoreScale),
                                                .value_dim = s.value_dim,
                                                .alibi_heads = s.alibi_heads,
                                                .first_head = FirstHead(op),
                                                .softcap = op.op.Get(Attribute::kScoreCap),
                                                .random = RandomMaskOf(op, FirstHead(op))});
}

// dq, dk and dv are column ranges of one packed gradient. Scores are recomputed from lse, as in
// flash attention.
KernelCall MakeAttentionBackward(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  const QkvColumns packed(s);
  return Call<&FtDeviceApi::attention_backward>({.q = op.Pointer("qkv"),
                                                 .k = op.Element("qkv", packed.k),
                                                 .v = op.Element("qkv", packed.v),
                                                 .out = op.Pointer("out"),
                                                 .lse = op.Pointer<float>("lse"),
                                                 .dout = op.Pointer("dout"),
                                                 .dq = op.Pointer("dqkv"),
                                                 .dk = op.Element("dqkv", packed.k),
                                                 .dv = op.Element("dqkv", packed.v),
                                                 .batch = s.batch,
                                                 .sequence = s.sequence,
                                                 .row_stride = packed.stride,
                                                 .heads = s.heads,
                                                 .kv_heads = s.kv_heads,
                                                 .head_dim = s.head_dim,
                                                 .dtype = op.Dtype("qkv"),
                                                 .window = s.window,
                                                 .scale = op.op.Get(Attribute::kScoreScale),
                                                 .value_dim = s.value_dim,
                                                 .alibi_heads = s.alibi_heads,
                                                 .first_head = FirstHead(op),
                                                 .softcap = op.op.Get(Attribute::kScoreCap),
                                                 .random = RandomMaskOf(op, FirstHead(op))});
}

// Splits rows [left | right] into two tensors, or joins them: two copies of a rectangle.
KernelCall MakeSplitColumns(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  KernelCall call;
  call.args = SplitColumnsCall{.whole = op.Pointer<std::byte>("whole"),
                               .left = op.Pointer<std::byte>("left"),
                               .right = op.Pointer<std::byte>("right"),
                               .rows = s.rows,
                               .left_cols = s.cols,
                               .right_cols = s.inner,
                               .each = BytesIn(FormatOf(op.op, "whole"), 1),
                               .dtype = op.Dtype("whole"),
                               .inverse = op.op.inverse};
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues&) {
    const SplitColumnsCall& g = args.As<SplitColumnsCall>();
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

// Joins queries, keys, values and the shared rotated key into packed rows; inverse: splits the
// gradient.
KernelCall MakeLatentHeads(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  return Call<&FtDeviceApi::latent_heads>({.q = op.Pointer("q"),
                                           .kv = op.Pointer("kv"),
                                           .turned_key = op.Pointer("turned_key"),
                                           .qkv = op.Pointer("qkv"),
                                           .rows = s.rows,
                                           .heads = s.heads,
                                           .head_dim = s.head_dim,
                                           .rotary = s.rotary,
                                           .value_dim = s.value_dim,
                                           .inverse = op.op.inverse,
                                           .dtype = op.Dtype("qkv")});
}

// Rescales attention's output and lse in place for the sink's share of the softmax.
KernelCall MakeSinkForward(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  return Call<&FtDeviceApi::sink_forward>({.out = op.Pointer("out"),
                                           .lse = op.Pointer<float>("lse"),
                                           .sinks = op.Pointer("sinks"),
                                           .rows = s.rows,
                                           .heads = s.heads,
                                           .head_dim = s.head_dim,
                                           .dtype = op.Dtype("out"),
                                           .sinks_dtype = op.Dtype("sinks")});
}

// Gradient of the sinks only; attention's backward works on the rescaled tensors.
KernelCall MakeSinkBackward(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  return Call<&FtDeviceApi::sink_backward>({.out = op.Pointer("out"),
                                            .dout = op.Pointer("dout"),
                                            .lse = op.Pointer<float>("lse"),
                                            .sinks = op.Pointer("sinks"),
                                            .sinks_grad = op.Pointer("sinks_grad"),
                                            .rows = s.rows,
                                            .heads = s.heads,
                                            .head_dim = s.head_dim,
                                            .accumulate = op.op.accumulate,
                                            .dtype = op.Dtype("out"),
                                            .sinks_dtype = op.Dtype("sinks"),
                                            .grad_dtype = op.Dtype("sinks_grad")});
}

}  // namespace

std::span<const KernelMaker> AttentionMakers() {
  static constexpr std::array kMakers = {
      MakerOf<&FtDeviceApi::rope>(OpKind::kRope, &MakeRope),
      MakerOf<&FtDeviceApi::attention_forward>(OpKind::kAttentionForward, &MakeAttentionForward),
      MakerOf<&FtDeviceApi::attention_backward>(OpKind::kAttentionBackward, &MakeAttentionBackward),
      MakerOf<&FtDeviceApi::copy_rows>(OpKind::kSplitColumns, &MakeSplitColumns),
      MakerOf<&FtDeviceApi::latent_heads>(OpKind::kLatentHeads, &MakeLatentHeads),
      MakerOf<&FtDeviceApi::sink_forward>(OpKind::kSinkForward, &MakeSinkForward),
      MakerOf<&FtDeviceApi::sink_backward>(OpKind::kSinkBackward, &MakeSinkBackward),
  };
  return kMakers;
}

}  // namespace foretrain
