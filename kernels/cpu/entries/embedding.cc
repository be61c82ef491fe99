// CPU entries of embeddings.

#include "kernels/cpu/entries/entry.h"
#include "kernels/cpu/entries/families.h"

namespace foretrain {
namespace {

// Position of row `row` of a sample; the row itself if no run contains it.
template <class Arguments>
std::int64_t PositionOf(const Arguments& g, std::int64_t row) {
  for (std::int64_t r = 0; r < g.run_count; ++r) {
    const FtRun& run = g.runs[r];
    if (row >= run.row && row < run.row + run.rows) return run.position + row - run.row;
  }
  return row;
}

// Refuses rows whose document begins outside the sample or after them: they would read past the
// table of positions.
template <class Arguments>
void CheckStarts(Check& check, const Arguments& g, std::int64_t first_row) {
  for (std::int64_t row = first_row;
       g.document_starts != nullptr && check.ok() && row < first_row + g.rows; ++row) {
    const std::int32_t start = g.document_starts[row];
    const std::int64_t position = PositionOf(g, row % g.sequence);
    if (start >= 0 && start <= position) continue;
    check.Refuse(FT_FAILED, "row %lld has position %lld of its sample and a document from %d on",
                 static_cast<long long>(row), static_cast<long long>(position), start);
  }
}

// Ids may be -1, and with a split vocabulary any id of the whole table: rows of other ranks become
// 0.
void EmbeddingForward(Check& check, const FtEmbeddingForward& g) {
  check.Ids(g.ids, g.rows, g.all_ids == 0 ? g.vocab : g.all_ids, /*least=*/-1);
  CheckStarts(check, g, g.first_row);
  if (check.ok() && g.cols > 0) check.queue()->kernels->embedding_forward(g);
}

// Rows may repeat an id, so the kernel adds them in row order, which makes the sum reproducible.
void EmbeddingBackward(Check& check, const FtEmbeddingBackward& g) {
  check.Ids(g.ids, g.rows, g.all_ids == 0 ? g.vocab : g.all_ids, /*least=*/-1);
  CheckStarts(check, g, 0);
  if (check.ok() && g.cols > 0 && g.vocab > 0) check.queue()->kernels->embedding_backward(g);
}

}  // namespace

void SetEmbeddingEntries(FtDeviceApi& api) {
  Set<&FtDeviceApi::embedding_forward, &EmbeddingForward>(api);
  Set<&FtDeviceApi::embedding_backward, &EmbeddingBackward>(api);
}

}  // namespace foretrain
