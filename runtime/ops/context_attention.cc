// Parts of attention and the copies around their communication, where a sequence is shared out.
#include "runtime/ops/kernel_call.h"
#include "runtime/ops/qkv_columns.h"
#include "runtime/ops/sequence_runs.h"

namespace foretrain {
namespace {

struct Runs {
  const FtRun* at;
  std::int64_t count;
};

// All ranks' rows, or those of the rank `turn` before this one.
Runs RunsOf(const BoundOp& op, std::int64_t rows, int turn) {
  const OpShape& s = op.op.shape;
  if (rows > s.batch * s.sequence) return {op.runs->OfAll(), op.runs->all_count()};
  return {op.runs->OfRank((op.cp - turn + s.cp) % s.cp), SequenceRuns::kOfRank};
}

// Whether operands `a` and `b` are one tensor.
bool Same(const BoundOp& op, std::size_t a, std::size_t b) {
  return op.operands[a].slot == op.operands[b].slot;
}

}  // namespace

KernelCall MakeAttentionPartForward(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  const QkvColumns q(s), kv(s, !Same(op, 0, 1));
  const Runs queries = RunsOf(op, s.rows, 0), keys = RunsOf(op, s.inner, s.turn);
  KernelCall call;
  call.args.attention_part_forward = {.q = op.Pointer(0),
                                      .k = op.Element(1, kv.k),
                                      .v = op.Element(1, kv.v),
                                      .out = op.Pointer(2),
                                      .lse = op.Pointer<float>(3),
                                      .query_runs = queries.at,
                                      .key_runs = keys.at,
                                      .query_run_count = queries.count,
                                      .key_run_count = keys.count,
                                      .batch = s.batch,
                                      .sample_rows = s.sequence,
                                      .q_stride = q.stride,
                                      .kv_stride = kv.stride,
                                      .heads = s.heads,
                                      .kv_heads = s.kv_heads,
                                      .head_dim = s.head_dim,
                                      .merge = op.op.accumulate,
                                      .dtype = op.Dtype(0),
                                      .window = s.window,
                                      .scale = op.op.parameter,
                                      .value_dim = s.value_dim,
                                      .alibi_heads = s.alibi_heads,
                                      .first_head = FirstHead(op),
                                      .softcap = op.op.cap,
                                      .random = RandomMaskOf(op, FirstHead(op))};
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues& values) {
    FtAttentionPartForward part = args.attention_part_forward;
    part.random = InStep(part.random, values);
    return api.attention_part_forward(queue, &part);
  };
  return call;
}

KernelCall MakeAttentionPartBackward(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  const QkvColumns q(s), kv(s, !Same(op, 0, 1)), dkv(s, !Same(op, 5, 6));
  const Runs queries = RunsOf(op, s.rows, 0), keys = RunsOf(op, s.inner, s.turn);
  KernelCall call;
  call.args.attention_part_backward = {.q = op.Pointer(0),
                                       .k = op.Element(1, kv.k),
                                       .v = op.Element(1, kv.v),
                                       .out = op.Pointer(2),
                                       .lse = op.Pointer<float>(3),
                                       .dout = op.Pointer(4),
                                       .dq = op.Pointer(5),
                                       .dk = op.Element(6, dkv.k),
                                       .dv = op.Element(6, dkv.v),
                                       .query_runs = queries.at,
                                       .key_runs = keys.at,
                                       .query_run_count = queries.count,
                                       .key_run_count = keys.count,
                                       .batch = s.batch,
                                       .sample_rows = s.sequence,
                                       .q_stride = q.stride,
                                       .kv_stride = kv.stride,
                                       .dkv_stride = dkv.stride,
                                       .heads = s.heads,
                                       .kv_heads = s.kv_heads,
                                       .head_dim = s.head_dim,
                                       .accumulate_dq = op.op.accumulate,
                                       .dtype = op.Dtype(0),
                                       .window = s.window,
                                       .scale = op.op.parameter,
                                       .value_dim = s.value_dim,
                                       .alibi_heads = s.alibi_heads,
                                       .first_head = FirstHead(op),
                                       .softcap = op.op.cap,
                                       .random = RandomMaskOf(op, FirstHead(op))};
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues& values) {
    FtAttentionPartBackward part = args.attention_part_backward;
    part.random = InStep(part.random, values);
    return api.attention_part_backward(queue, &part);
  };
  return call;
}

KernelCall MakeKeyColumns(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  const QkvColumns packed(s), own(s, /*own=*/true);
  const std::size_t packed_operand = op.op.inverse ? 1 : 0;
  void* const columns = op.Element(packed_operand, packed.k);
  void* const keys = op.Pointer(1 - packed_operand);
  KernelCall call;
  call.args.copy_rows = {.from = op.op.inverse ? keys : columns,
                         .to = op.op.inverse ? columns : keys,
                         .rows = s.rows,
                         .cols = own.stride,
                         .from_stride = op.op.inverse ? own.stride : packed.stride,
                         .to_stride = op.op.inverse ? packed.stride : own.stride,
                         .dtype = op.Dtype(0)};
  call.launch = CallOf<&FtDeviceApi::copy_rows, &KernelArgs::copy_rows>;
  return call;
}

// A rectangle for each part and each of q, k and v.
KernelCall MakeHeadParts(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  const std::int64_t q = std::int64_t{s.heads} * s.head_dim;
  const std::int64_t k = std::int64_t{s.kv_heads} * s.head_dim;
  const std::int64_t v = std::int64_t{s.kv_heads} * s.ValueDim();
  const std::size_t whole_operand = op.op.inverse ? 1 : 0;
  KernelCall call;
  call.args.head_parts = {.whole = op.Pointer<std::byte>(whole_operand),
                          .parts = op.Pointer<std::byte>(1 - whole_operand),
                          .rows = s.rows,
                          .widths = {q, k, v},
                          .count = s.cp,
                          .each = BytesIn(op.op.formats[0], 1),
                          .dtype = op.Dtype(0),
                          .inverse = op.op.inverse};
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues&) {
    const HeadPartsCall& g = args.head_parts;
    const std::int64_t stride = g.widths[0] + g.widths[1] + g.widths[2];
    std::byte* part = g.parts;
    for (std::int64_t p = 0; p < g.count; ++p) {
      std::int64_t whole_column = 0, part_column = 0;
      for (const std::int64_t width : g.widths) {
        const std::int64_t cols = width / g.count;
        std::byte* const whole = g.whole + (whole_column + p * cols) * g.each;
        std::byte* const in_part = part + part_column * g.each;
        const FtCopyRows copy{g.inverse ? in_part : whole,
                              g.inverse ? whole : in_part,
                              g.rows,
                              cols,
                              g.inverse ? stride / g.count : stride,
                              g.inverse ? stride : stride / g.count,
                              g.dtype};
        const FtStatus status = api.copy_rows(queue, &copy);
        if (status != FT_OK) return status;
        whole_column += width;
        part_column += cols;
      }
      part += g.rows * (stride / g.count) * g.each;
    }
    return FT_OK;
  };
  return call;
}

}  // namespace foretrain
