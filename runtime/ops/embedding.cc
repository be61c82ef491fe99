// Token and position tables.
#include "runtime/ops/kernel_call.h"
#include "runtime/ops/sequence_runs.h"

namespace foretrain {

KernelCall MakeEmbeddingForward(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  KernelCall call;
  call.args.embedding_forward = {.ids = op.Pointer<std::int32_t>(0),
                                 .table = op.Pointer(1),
                                 .positions = op.Pointer(2),
                                 .out = op.Pointer(3),
                                 .rows = s.rows,
                                 .cols = s.cols,
                                 .vocab = s.vocab,
                                 .sequence = s.sequence,
                                 .first_row = op.op.own_rows ? op.tp * s.rows : 0,
                                 .first_id = op.FirstId(),
                                 .all_ids = s.vocab_total,
                                 .dtype = op.Dtype(3),
                                 .runs = op.runs != nullptr ? op.runs->OfRank(op.cp) : nullptr,
                                 .run_count = op.runs != nullptr ? SequenceRuns::kOfRank : 0,
                                 .table_dtype = op.Dtype(1),
                                 .scale = op.op.scale};
  call.launch = CallOf<&FtDeviceApi::embedding_forward, &KernelArgs::embedding_forward>;
  return call;
}

// The position table's gradient is an op of its own, a sum over the batch, unless the sequence is
// shared out.
KernelCall MakeEmbeddingBackward(const BoundOp& op) {
  const OpShape& s = op.op.shape;
  KernelCall call;
  call.args.embedding_backward = {.ids = op.Pointer<std::int32_t>(0),
                                  .dy = op.Pointer(1),
                                  .table_grad = op.Pointer(2),
                                  .positions_grad = op.Pointer(3),
                                  .rows = s.rows,
                                  .cols = s.cols,
                                  .vocab = s.vocab,
                                  .sequence = s.sequence,
                                  .first_id = op.FirstId(),
                                  .all_ids = s.vocab_total,
                                  .accumulate_table = op.op.accumulate,
                                  .accumulate_positions = 1,
                                  .dtype = op.Dtype(1),
                                  .runs = op.runs != nullptr ? op.runs->OfRank(op.cp) : nullptr,
                                  .run_count = op.runs != nullptr ? SequenceRuns::kOfRank : 0,
                                  .grad_dtype = op.Dtype(2),
                                  .scale = op.op.scale};
  call.launch = CallOf<&FtDeviceApi::embedding_backward, &KernelArgs::embedding_backward>;
  return call;
}

}  // namespace foretrain
