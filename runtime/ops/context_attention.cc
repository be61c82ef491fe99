// Kernel calls of attention parts under context parallelism, and of the copies before and after
// their communication.
#include "runtime/ops/bind_arguments.h"
#include "runtime/ops/kernel_makers.h"
#include "runtime/ops/qkv_columns.h"
#include "runtime/ops/sequence_runs.h"

namespace foretrain {
namespace {
struct Runs {
  const FtRun* at;
  std::int64_t count;
};

// Positions of the rows: all ranks' runs if the op covers the whole sequence, else those of rank cp
// - turn.
Runs RunsOf(const BoundOp& op, std::int64_t rows, int turn) {
  const OpShape& s = op.op.shape;
  if (rows > s.batch * s.sequence) return {op.runs->OfAll(), op.runs->all_count()};
  return {op.runs->OfRank((op.cp - turn + s.cp) % s.cp), SequenceRuns::kOfRank};
}

// True for attention over whole sequences with keys of another tensor or biases
// (stack_attention.cc).
bool IsOfStacks(const BoundOp& op) {
  return op.op.shape.cp == 1 && (!SameTensor(op, "q", "kv") || op.AccessOf("bias").has_value());
}

// Keys are columns of the packed qkv if both operands are one tensor, else a tensor [k | v] of
// their own. Key gradients are of this part only; query gradients add over parts.
template <auto entry>
KernelCall MakeAttentionPart(const BoundOp& op) {
  if (IsOfStacks(op)) {
    constexpr bool kForward = requires(ArgumentsOf<entry> of) { of.merge; };
    return kForward ? MakeStackAttentionForward(op) : MakeStackAttentionBackward(op);
  }
  const OpShape& s = op.op.shape;
  const QkvColumns q(s), kv(s, !SameTensor(op, "q", "kv"));
  const Runs keys = RunsOf(op, s.inner, s.turn);
  Runs queries = RunsOf(op, s.rows, 0);
  if (op.op.bidirectional) {
    const bool all = queries.at == op.runs->OfAll();
    queries.at = all ? op.runs->AfterOfAll() : op.runs->AfterOfRank(op.cp);
  }
  auto g = BindArguments<ArgumentsOf<entry>>(op);
  g.k = op.Element("kv", kv.k);
  g.v = op.Element("kv", kv.v);
  g.query_runs = queries.at;
  g.query_run_count = queries.count;
  g.key_runs = keys.at;
  g.key_run_count = keys.count;
  g.sample_rows = s.sequence;
  g.q_stride = q.stride;
  g.kv_stride = kv.stride;
  if constexpr (requires { g.dq; }) {
    const QkvColumns dkv(s, !SameTensor(op, "dq", "dkv"));
    g.dq = op.Pointer("dq");
    g.dk = op.Element("dkv", dkv.k);
    g.dv = op.Element("dkv", dkv.v);
    g.dkv_stride = dkv.stride;
    g.accumulate_dq = op.op.accumulate;
  } else {
    g.merge = op.op.accumulate;
  }
  return Call<entry>(g);
}

KernelCall MakeKeyColumns(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  const QkvColumns packed(s), own(s, /*own=*/true);
  void* const columns = op.op.inverse ? op.Element("to", packed.k) : op.Element("from", packed.k);
  void* const keys = op.op.inverse ? op.Pointer("from") : op.Pointer("to");
  return Call<&FtDeviceApi::copy_rows>({.from = op.op.inverse ? keys : columns,
                                        .to = op.op.inverse ? columns : keys,
                                        .rows = s.rows,
                                        .cols = own.stride,
                                        .from_stride = op.op.inverse ? own.stride : packed.stride,
                                        .to_stride = op.op.inverse ? packed.stride : own.stride,
                                        .dtype = op.Dtype("from")});
}

// Copies a rectangle for each rank's part and each of q, k and v. Kernels of 2 D copies are enough:
// a launch each, 3 cp in all.
KernelCall MakeHeadParts(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  const std::int64_t q = std::int64_t{s.heads} * s.head_dim;
  const std::int64_t k = std::int64_t{s.kv_heads} * s.head_dim;
  const std::int64_t v = std::int64_t{s.kv_heads} * s.ValueDim();
  auto* const from = op.Pointer<std::byte>("from");
  auto* const to = op.Pointer<std::byte>("to");
  KernelCall call;
  call.args = HeadPartsCall{.whole = op.op.inverse ? to : from,
                            .parts = op.op.inverse ? from : to,
                            .rows = s.rows,
                            .widths = {q, k, v},
                            .count = s.cp,
                            .each = BytesIn(FormatOf(op.op, "from"), 1),
                            .dtype = op.Dtype("from"),
                            .inverse = op.op.inverse};
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues&) {
    const HeadPartsCall& g = args.As<HeadPartsCall>();
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

}  // namespace

std::span<const KernelMaker> ContextAttentionMakers() {
  static constexpr std::array kMakers = {
      KernelMaker{OpKind::kAttentionPartForward,
                  &MakeAttentionPart<&FtDeviceApi::attention_part_forward>},
      KernelMaker{OpKind::kAttentionPartBackward,
                  &MakeAttentionPart<&FtDeviceApi::attention_part_backward>},
      KernelMaker{OpKind::kKeyColumns, &MakeKeyColumns},
      KernelMaker{OpKind::kHeadParts, &MakeHeadParts},
  };
  return kMakers;
}

}  // namespace foretrain
