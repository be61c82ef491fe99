// Kernel calls of causal attention over packed rows [q | k | v], of rope, and of column splits.
#include "runtime/ops/bind_arguments.h"
#include "runtime/ops/kernel_makers.h"
#include "runtime/ops/qkv_columns.h"

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
    case RopeStretchKind::kQueryGrowth:
      return FT_ROPE_QUERY_GROWTH;
    case RopeStretchKind::kNone:
      break;
  }
  return FT_ROPE_PLAIN;
}

// Query and key heads are adjacent in a row, so one call rotates both in place. Queries alone grow.
KernelCall MakeRope(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  const RopeStretch& stretch = op.op.stretch;
  auto g = BindArguments<FtRope>(op);
  g.data = op.Element("qkv", s.rotary_first);
  const bool grows = stretch.kind == RopeStretchKind::kQueryGrowth;
  g.heads = s.heads + (grows ? 0 : s.kv_heads);
  g.head_dim = s.rotary > 0 ? s.rotary : s.head_dim;
  g.head_stride = s.head_dim;
  g.stretch = StretchOf(stretch.kind);
  g.factor = stretch.factor;
  g.low = stretch.low;
  g.high = stretch.high;
  g.original = stretch.original;
  g.magnitude = stretch.magnitude;
  return Call<&FtDeviceApi::rope>(g);
}

// q, k and v are column ranges of one packed tensor, with one row stride; so are their gradients.
template <auto entry>
KernelCall MakeAttention(const BoundOp& op) {
  const QkvColumns packed(op.op.shape);
  auto g = BindArguments<ArgumentsOf<entry>>(op);
  g.q = op.Pointer("qkv");
  g.k = op.Element("qkv", packed.k);
  g.v = op.Element("qkv", packed.v);
  if constexpr (requires { g.dq; }) {
    g.dq = op.Pointer("dqkv");
    g.dk = op.Element("dqkv", packed.k);
    g.dv = op.Element("dqkv", packed.v);
  }
  return Call<entry>(g);
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

}  // namespace

std::span<const KernelMaker> AttentionMakers() {
  static constexpr std::array kMakers = {
      KernelMaker{OpKind::kRope, &MakeRope},
      KernelMaker{OpKind::kAttentionForward, &MakeAttention<&FtDeviceApi::attention_forward>},
      KernelMaker{OpKind::kAttentionBackward, &MakeAttention<&FtDeviceApi::attention_backward>},
      KernelMaker{OpKind::kStandardAttentionForward,
                  &MakeAttention<&FtDeviceApi::standard_attention_forward>},
      KernelMaker{OpKind::kStandardAttentionBackward,
                  &MakeAttention<&FtDeviceApi::standard_attention_backward>},
      KernelMaker{OpKind::kSplitColumns, &MakeSplitColumns},
  };
  return kMakers;
}

}  // namespace foretrain
