// Arguments of embeddings and losses.
#include <algorithm>

#include "kernels/arguments/describe.h"
#include "kernels/arguments/tensors.h"

namespace foretrain {
namespace {

// Extent of a position table. Runs may name positions past the sequence's length.
template <class Arguments>
Extent Positions(const Arguments& g) {
  std::int64_t rows = g.sequence;
  for (std::int64_t i = 0; g.runs != nullptr && i < g.run_count; ++i) {
    rows = std::max(rows, g.runs[i].position + g.runs[i].rows);
  }
  return Rows(rows, g.cols);
}

}  // namespace

void Describe(ArgumentReader& reader, FtEmbeddingForward& g) {
  reader.Float("dtype", g.dtype).Float("table_dtype", g.table_dtype);
  reader.Size("rows", g.rows).Size("cols", g.cols).Size("vocab", g.vocab);
  reader.AtLeast("sequence", g.sequence, g.positions == nullptr ? 0 : 1);
  reader.Size("first_row", g.first_row).Size("first_id", g.first_id).Size("all_ids", g.all_ids);
  reader.Tensors({Read("table", g.table, g.table_dtype, Rows(g.vocab, g.cols)),
                  Read("positions", g.positions, g.table_dtype, Positions(g), kOptional),
                  Write("out", g.out, g.dtype, Rows(g.rows, g.cols)),
                  Plain("ids", g.ids, Row(g.rows))});
}

// Rows of ids that do not occur keep their values, so both gradients are read too.
void Describe(ArgumentReader& reader, FtEmbeddingBackward& g) {
  reader.Float("dtype", g.dtype).Float("grad_dtype", g.grad_dtype);
  reader.Size("rows", g.rows).Size("cols", g.cols).Size("vocab", g.vocab);
  reader.AtLeast("sequence", g.sequence, g.positions_grad == nullptr ? 0 : 1);
  reader.Size("first_id", g.first_id).Size("all_ids", g.all_ids);
  reader.Tensors(
      {Read("dy", g.dy, g.dtype, Rows(g.rows, g.cols)), Plain("ids", g.ids, Row(g.rows)),
       ReadWrite("table_grad", g.table_grad, g.grad_dtype, Rows(g.vocab, g.cols)),
       ReadWrite("positions_grad", g.positions_grad, g.grad_dtype, Positions(g), kOptional)});
}

// Targets are not checked against the vocabulary: one outside it adds nothing to the loss.
void Describe(ArgumentReader& reader, FtCrossEntropyForward& g) {
  reader.Float("dtype", g.dtype).Size("rows", g.rows).AtLeast("vocab", g.vocab, 1);
  reader.Size("all_ids", g.all_ids);
  const Extent row = Row(g.rows);
  reader.Tensors({Read("logits", g.logits, g.dtype, Rows(g.rows, g.vocab)),
                  Plain("targets", g.targets, row), Plain("lse", g.lse, row),
                  Plain("loss", g.loss, Row(1))});
}

void Describe(ArgumentReader& reader, FtCrossEntropyBackward& g) {
  reader.Float("dtype", g.dtype).Size("rows", g.rows).AtLeast("vocab", g.vocab, 1);
  reader.Size("first_id", g.first_id).Size("all_ids", g.all_ids);
  reader.Tensors({ReadWrite("logits", g.logits, g.dtype, Rows(g.rows, g.vocab)),
                  Plain("targets", g.targets, Row(g.rows)), Plain("lse", g.lse, Row(g.rows))});
}

void Describe(ArgumentReader& reader, FtCrossEntropy& g) {
  reader.Float("dtype", g.dtype).Size("rows", g.rows).AtLeast("vocab", g.vocab, 1);
  reader.Size("all_ids", g.all_ids);
  const Extent row = Row(g.rows);
  reader.Tensors({ReadWrite("logits", g.logits, g.dtype, Rows(g.rows, g.vocab)),
                  Plain("targets", g.targets, row), Plain("terms", g.terms, row),
                  Plain("loss", g.loss, Row(1))});
}

void Describe(ArgumentReader& reader, FtZLoss& g) {
  reader.Size("rows", g.rows).Size("vocabulary", g.vocabulary);
  reader.Tensors({Plain("targets", g.targets, Row(g.rows)), Plain("lse", g.lse, Row(g.rows)),
                  Plain("loss", g.loss, Row(1))});
}

void Describe(ArgumentReader& reader, FtZLossBackward& g) {
  reader.Float("dtype", g.dtype).Size("rows", g.rows).AtLeast("vocab", g.vocab, 1);
  reader.Size("first_id", g.first_id).Size("all_ids", g.all_ids);
  reader.Tensors({ReadWrite("logits", g.logits, g.dtype, Rows(g.rows, g.vocab)),
                  Plain("targets", g.targets, Row(g.rows)), Plain("lse", g.lse, Row(g.rows))});
}

namespace {

// The part that the kernels on one rank's columns share.
template <class Arguments>
void Share(ArgumentReader& reader, Arguments& g) {
  reader.Float("dtype", g.dtype).Size("rows", g.rows).AtLeast("vocab", g.vocab, 1);
  reader.AtLeast("all_ids", g.all_ids, 1).Size("first_id", g.first_id);
  reader.Tensors(
      {Read("logits", g.logits, g.dtype, Rows(g.rows, g.vocab)), Plain("max", g.max, Row(g.rows))});
}

}  // namespace

void Describe(ArgumentReader& reader, FtVocabMax& g) { Share(reader, g); }

void Describe(ArgumentReader& reader, FtVocabSums& g) {
  Share(reader, g);
  const Extent row = Row(g.rows);
  reader.Tensors(
      {Plain("targets", g.targets, row), Plain("sum", g.sum, row), Plain("picked", g.picked, row)});
}

void Describe(ArgumentReader& reader, FtVocabLoss& g) {
  reader.Size("rows", g.rows).AtLeast("all_ids", g.all_ids, 1);
  const Extent row = Row(g.rows);
  reader.Tensors({Plain("targets", g.targets, row), Plain("max", g.max, row),
                  Plain("sum", g.sum, row), Plain("picked", g.picked, row),
                  Plain("lse", g.lse, row), Plain("loss", g.loss, Row(1))});
}

void Describe(ArgumentReader& reader, FtShiftTargets& g) {
  reader.Size("rows", g.rows).AtLeast("sequence", g.sequence, 1);
  reader.Tensors({Plain("targets", g.targets, Row(g.rows)), Plain("out", g.out, Row(g.rows))});
}

}  // namespace foretrain
