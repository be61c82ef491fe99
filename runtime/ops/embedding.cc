// Kernel calls of token and position tables.
#include "runtime/ops/kernel_makers.h"
#include "runtime/ops/sequence_runs.h"

namespace foretrain {
namespace {

// first_id and all_ids describe this rank's share of a split vocabulary: rows of other ids become
// 0.
KernelCall MakeEmbeddingForward(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  return Call<&FtDeviceApi::embedding_forward>(
      {.ids = op.Pointer<std::int32_t>("ids"),
       .table = op.Pointer("table"),
       .positions = op.Pointer("positions"),
       .out = op.Pointer("out"),
       .rows = s.rows,
       .cols = s.cols,
       .vocab = s.vocab,
       .sequence = s.sequence,
       .first_row = op.op.own_rows ? op.tp * s.rows : 0,
       .first_id = op.FirstId(),
       .all_ids = s.vocab_total,
       .dtype = op.Dtype("out"),
       .runs = op.runs != nullptr ? op.runs->OfRank(op.cp) : nullptr,
       .run_count = op.runs != nullptr ? SequenceRuns::kOfRank : 0,
       .table_dtype = op.Dtype("table"),
       .scale = op.op.Get(Attribute::kTableScale)});
}

// The position table's gradient is a separate op, a sum over the batch. Under context parallelism
// this kernel adds it, because a rank's positions are two ranges.
KernelCall MakeEmbeddingBackward(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  return Call<&FtDeviceApi::embedding_backward>(
      {.ids = op.Pointer<std::int32_t>("ids"),
       .dy = op.Pointer("dy"),
       .table_grad = op.Pointer("table_grad"),
       .positions_grad = op.Pointer("positions_grad"),
       .rows = s.rows,
       .cols = s.cols,
       .vocab = s.vocab,
       .sequence = s.sequence,
       .first_id = op.FirstId(),
       .all_ids = s.vocab_total,
       .accumulate_table = op.op.accumulate,
       .accumulate_positions = 1,
       .dtype = op.Dtype("dy"),
       .runs = op.runs != nullptr ? op.runs->OfRank(op.cp) : nullptr,
       .run_count = op.runs != nullptr ? SequenceRuns::kOfRank : 0,
       .grad_dtype = op.Dtype("table_grad"),
       .scale = op.op.Get(Attribute::kTableScale)});
}

}  // namespace

std::span<const KernelMaker> EmbeddingMakers() {
  static constexpr std::array kMakers = {
      MakerOf<&FtDeviceApi::embedding_forward>(OpKind::kEmbeddingForward, &MakeEmbeddingForward),
      MakerOf<&FtDeviceApi::embedding_backward>(OpKind::kEmbeddingBackward, &MakeEmbeddingBackward),
  };
  return kMakers;
}

}  // namespace foretrain
