// Kernel calls of an encoder-decoder: attention over whole sequences with keys of another tensor or
// biases by distance, these biases, and copies of what a layer hands on.
#include "runtime/ops/bind_arguments.h"
#include "runtime/ops/kernel_makers.h"
#include "runtime/ops/qkv_columns.h"

namespace foretrain {
namespace {

// The call's runs lie beside its arguments, which the launch points at them.
template <class Arguments>
struct StackCall {
  Arguments of;
  FtRun queries, keys;
};

// Queries that stand after all keys see every one; `bias_zero` makes up for the shift. q is a
// tensor of its own or the first columns of packed rows [q | k | v].
template <auto entry>
KernelCall MakeStackAttention(const BoundOp& op) {
  using Arguments = ArgumentsOf<entry>;
  const OpShape& s = op.op.shape;
  const std::int64_t samples = s.batch, queries = s.rows / samples, keys = s.inner / samples;
  const bool packed = SameTensor(op, "q", "kv");
  const QkvColumns columns(s, /*own=*/!packed);
  StackCall<Arguments> stack{BindArguments<Arguments>(op), {}, {}};
  Arguments& g = stack.of;
  const std::int64_t shift = op.op.bidirectional ? keys : 0;
  stack.queries = {0, shift, queries};
  stack.keys = {0, 0, keys};
  g.query_run_count = g.key_run_count = 1;
  g.sample_rows = queries;
  g.key_sample_rows = keys;
  g.k = op.Element("kv", columns.k);
  g.v = op.Element("kv", columns.v);
  g.q_stride = packed ? columns.stride : std::int64_t{s.heads} * s.head_dim;
  g.kv_stride = columns.stride;
  if (op.AccessOf("bias").has_value()) {
    g.bias_stride = queries + keys - 1;
    g.bias_zero = queries - 1 + shift;
  }
  if constexpr (requires { g.dq; }) {
    g.dq = op.Pointer("dq");
    g.dk = op.Element("dkv", columns.k);
    g.dv = op.Element("dkv", columns.v);
    g.dkv_stride = columns.stride;
  }
  KernelCall call;
  call.args = stack;
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues&) {
    StackCall<Arguments> here = args.As<StackCall<Arguments>>();
    here.of.query_runs = &here.queries;
    here.of.key_runs = &here.keys;
    return (api.*entry)(queue, &here.of);
  };
  return call;
}

template <auto entry>
KernelCall MakeRelativeBias(const BoundOp& op) {
  auto g = BindArguments<ArgumentsOf<entry>>(op);
  g.queries = op.op.shape.rows;
  g.keys = op.op.shape.inner;
  g.bidirectional = op.op.bidirectional;
  return Call<entry>(g);
}

KernelCall MakeCopyOn(const BoundOp& op) {
  const std::int64_t elements = op.op.shape.elements;
  return Call<&FtDeviceApi::copy_rows>({.from = op.Pointer("from"),
                                        .to = op.Pointer("to"),
                                        .rows = 1,
                                        .cols = elements,
                                        .from_stride = elements,
                                        .to_stride = elements,
                                        .dtype = op.Dtype("from")});
}

}  // namespace

KernelCall MakeStackAttentionForward(const BoundOp& op) {
  return MakeStackAttention<&FtDeviceApi::attention_part_forward>(op);
}
KernelCall MakeStackAttentionBackward(const BoundOp& op) {
  return MakeStackAttention<&FtDeviceApi::attention_part_backward>(op);
}

std::span<const KernelMaker> StackAttentionMakers() {
  static constexpr std::array kMakers = {
      KernelMaker{OpKind::kRelativeBias, &MakeRelativeBias<&FtDeviceApi::relative_bias>},
      KernelMaker{OpKind::kRelativeBiasBackward,
                  &MakeRelativeBias<&FtDeviceApi::relative_bias_backward>},
      KernelMaker{OpKind::kCopyOn, &MakeCopyOn},
  };
  return kMakers;
}

}  // namespace foretrain
