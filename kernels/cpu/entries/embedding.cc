// CPU entries of the token and position tables.
#include <cstdint>

#include "kernels/cpu/entries/check.h"
#include "kernels/cpu/entries/families.h"

namespace foretrain {
namespace {

// Ids may be -1, and with a split vocabulary any id of the whole table: rows of other ranks become
// 0.
FtStatus EmbeddingForward(FtQueue* queue, const FtEmbeddingForward* g) {
  Check check(queue, "embedding_forward", g->dtype);
  check.Size("rows", g->rows).Size("cols", g->cols).Size("vocab", g->vocab);
  check.AtLeast("sequence", g->sequence, g->positions == nullptr ? 0 : 1);
  check.Size("first_row", g->first_row);
  check.Tensor("table", g->table, g->vocab, g->cols).Tensor("out", g->out, g->rows, g->cols);
  check.Size("first_id", g->first_id).Size("all_ids", g->all_ids);
  check.Ids(g->ids, g->rows, g->all_ids == 0 ? g->vocab : g->all_ids, /*least=*/-1);
  if (check.ok() && g->rows > 0 && g->cols > 0) {
    queue->kernels->embedding_forward(*g);
  }
  return check.status();
}

// Rows may repeat an id, so the kernel adds them in row order, which makes the sum reproducible.
FtStatus EmbeddingBackward(FtQueue* queue, const FtEmbeddingBackward* g) {
  Check check(queue, "embedding_backward", g->dtype);
  check.Size("rows", g->rows).Size("cols", g->cols).Size("vocab", g->vocab);
  check.AtLeast("sequence", g->sequence, g->positions_grad == nullptr ? 0 : 1);
  check.Tensor("dy", g->dy, g->rows, g->cols)
      .Tensor("table_grad", g->table_grad, g->vocab, g->cols);
  check.Size("first_id", g->first_id).Size("all_ids", g->all_ids);
  check.Ids(g->ids, g->rows, g->all_ids == 0 ? g->vocab : g->all_ids, /*least=*/-1);
  if (check.ok() && g->cols > 0 && g->vocab > 0) {
    queue->kernels->embedding_backward(*g);
  }
  return check.status();
}

}  // namespace

void SetEmbeddingEntries(FtDeviceApi& api) {
  api.embedding_forward = &EmbeddingForward;
  api.embedding_backward = &EmbeddingBackward;
}

}  // namespace foretrain
