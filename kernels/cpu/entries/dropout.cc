// CPU entries of dropout. Random numbers are a function of seed and position (counter-based), so no
// generator state is kept between calls.
#include <algorithm>
#include <cstdint>

#include "kernels/cpu/entries/check.h"
#include "kernels/cpu/entries/families.h"
#include "kernels/cpu/random_mask.h"

namespace foretrain {
namespace {

constexpr std::int64_t kPiece = 1024;  // factors per KeepFactors call; they stay in L1

bool IsProbability(float p) { return p >= 0.0F && p < 1.0F; }

// Position in the sequence of token `token` of a sample; the token itself if there are no runs.
std::int64_t PositionOf(const FtDropout& g, std::int64_t token) {
  for (std::int64_t i = 0; g.runs != nullptr && i < g.run_count; ++i) {
    const FtRun& run = g.runs[i];
    if (token >= run.row && token < run.row + run.rows) return run.position + token - run.row;
  }
  return token;
}

// Drops columns [first, first + count) of one row. `factors` are 0 or 1 / (1 - probability).
void DropRow(const FtDropout& g, std::int64_t row, std::int64_t first, std::int64_t count,
             const float* factors) {
  const std::int64_t at = row * g.cols + first;
  for (std::int64_t i = 0; g.mask != nullptr && i < count; ++i) {
    g.mask[at + i] = factors[i] > 0.0F ? 1 : 0;
  }
  if (g.x == nullptr) return;
  const auto* const x = static_cast<const float*>(g.x) + at;
  const auto* const bias = g.bias == nullptr ? nullptr : static_cast<const float*>(g.bias) + first;
  const auto* const residual =
      g.residual == nullptr ? nullptr : static_cast<const float*>(g.residual) + at;
  auto* const out = static_cast<float*>(g.out) + at;
  for (std::int64_t i = 0; i < count; ++i) {
    const float sum = bias == nullptr ? x[i] : x[i] + bias[i];
    out[i] = (residual == nullptr ? 0.0F : residual[i]) + factors[i] * sum;
  }
}

// Factors depend only on seed and position, so a rank that holds part of the rows draws the same
// ones.
FtStatus Dropout(FtQueue* queue, const FtDropout* g) {
  Check check(queue, "dropout", g->dtype);
  check.Size("rows", g->rows).Size("cols", g->cols).AtLeast("sequence", g->sequence, 1);
  check.Size("first_row", g->first_row);
  if (g->x != nullptr) {
    check.Tensor("out", g->out, g->rows, g->cols);
  } else {
    check.Tensor("mask", g->mask, g->rows, g->cols);
  }
  if (!IsProbability(g->random.probability)) {
    check.Refuse(FT_FAILED, "probability %g: must lie in [0, 1)",
                 static_cast<double>(g->random.probability));
  }
  if (!check.ok()) return check.status();
  float factors[kPiece];
  for (std::int64_t row = 0; row < g->rows; ++row) {
    const std::int64_t token = g->first_row + row;
    const std::int64_t position = PositionOf(*g, token % g->sequence);
    for (std::int64_t first = 0; first < g->cols; first += kPiece) {
      const std::int64_t count = std::min(kPiece, g->cols - first);
      KeepFactors(g->random, token / g->sequence, 0, position, first, count, factors);
      DropRow(*g, row, first, count, factors);
    }
  }
  return check.status();
}

// The mask is enough for the backward; no random numbers are drawn again.
FtStatus DropoutBackward(FtQueue* queue, const FtDropoutBackward* g) {
  Check check(queue, "dropout_backward", g->dtype);
  check.Size("elements", g->elements)
      .Tensor("dy", g->dy, g->elements)
      .Tensor("mask", g->mask, g->elements)
      .Tensor("dx", g->dx, g->elements);
  if (!IsProbability(g->probability)) {
    check.Refuse(FT_FAILED, "probability %g: must lie in [0, 1)",
                 static_cast<double>(g->probability));
  }
  if (!check.ok()) return check.status();
  const float kept = 1.0F / (1.0F - g->probability);
  const auto* const dy = static_cast<const float*>(g->dy);
  auto* const dx = static_cast<float*>(g->dx);
  for (std::int64_t i = 0; i < g->elements; ++i) dx[i] = g->mask[i] != 0 ? kept * dy[i] : 0.0F;
  return check.status();
}

}  // namespace

void SetDropoutEntries(FtDeviceApi& api) {
  api.dropout = &Dropout;
  api.dropout_backward = &DropoutBackward;
}

}  // namespace foretrain
