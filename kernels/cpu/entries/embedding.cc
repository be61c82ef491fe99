// CPU entries of embeddings.

#include "kernels/cpu/entries/entry.h"
#include "kernels/cpu/entries/families.h"

namespace foretrain {
namespace {

// Ids may be -1, and with a split vocabulary any id of the whole table: rows of other ranks become
// 0.
void EmbeddingForward(Check& check, const FtEmbeddingForward& g) {
  check.Ids(g.ids, g.rows, g.all_ids == 0 ? g.vocab : g.all_ids, /*least=*/-1);
  if (check.ok() && g.cols > 0) check.queue()->kernels->embedding_forward(g);
}

// Rows may repeat an id, so the kernel adds them in row order, which makes the sum reproducible.
void EmbeddingBackward(Check& check, const FtEmbeddingBackward& g) {
  check.Ids(g.ids, g.rows, g.all_ids == 0 ? g.vocab : g.all_ids, /*least=*/-1);
  if (check.ok() && g.cols > 0 && g.vocab > 0) check.queue()->kernels->embedding_backward(g);
}

}  // namespace

void SetEmbeddingEntries(FtDeviceApi& api) {
  Set<&FtDeviceApi::embedding_forward, &EmbeddingForward>(api);
  Set<&FtDeviceApi::embedding_backward, &EmbeddingBackward>(api);
}

}  // namespace foretrain
