// Kernel calls of standard attention, which stores scores and weights.
#include "runtime/ops/kernel_makers.h"
#include "runtime/ops/qkv_columns.h"

namespace foretrain {
namespace {

// Absent outputs are null: without `out` the kernel stops at the weights, without `mask` nothing is
// dropped.
KernelCall MakeStandardAttentionForward(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  const QkvColumns packed(s);
  return Call<&FtDeviceApi::standard_attention_forward>(
      {.q = op.Pointer("qkv"),
       .k = op.Element("qkv", packed.k),
       .v = op.Element("qkv", packed.v),
       .scores = op.Pointer("scores"),
       .weights = op.Pointer("weights"),
       .mask = op.Pointer<std::uint8_t>("mask"),
       .dropped = op.Pointer("dropped"),
       .out = op.Pointer("out"),
       .batch = s.batch,
       .sequence = s.sequence,
       .row_stride = packed.stride,
       .heads = s.heads,
       .kv_heads = s.kv_heads,
       .head_dim = s.head_dim,
       .dtype = op.Dtype("qkv"),
       .window = s.window,
       .scale = op.op.Get(Attribute::kScoreScale),
       .random = RandomMaskOf(op, std::int64_t{op.tp} * s.heads)});
}

// Reads the stored weights instead of recomputing the softmax; no window is needed, because masked
// weights are 0.
KernelCall MakeStandardAttentionBackward(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  const QkvColumns packed(s);
  return Call<&FtDeviceApi::standard_attention_backward>(
      {.q = op.Pointer("qkv"),
       .k = op.Element("qkv", packed.k),
       .v = op.Element("qkv", packed.v),
       .weights = op.Pointer("weights"),
       .mask = op.Pointer<std::uint8_t>("mask"),
       .dropped = op.Pointer("dropped"),
       .dout = op.Pointer("dout"),
       .d_scores = op.Pointer("d_scores"),
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
       .scale = op.op.Get(Attribute::kScoreScale),
       .probability = op.op.dropout});
}

}  // namespace

std::span<const KernelMaker> StandardAttentionMakers() {
  static constexpr std::array kMakers = {
      MakerOf<&FtDeviceApi::standard_attention_forward>(OpKind::kStandardAttentionForward,
                                                        &MakeStandardAttentionForward),
      MakerOf<&FtDeviceApi::standard_attention_backward>(OpKind::kStandardAttentionBackward,
                                                         &MakeStandardAttentionBackward),
  };
  return kMakers;
}

}  // namespace foretrain
