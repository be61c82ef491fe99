// CPU entries of dropout. Random numbers are a function of seed and position (counter-based), so no
// generator state is kept between calls.
#include <algorithm>
#include <cstdint>

#include "kernels/cpu/entries/entry.h"
#include "kernels/cpu/entries/families.h"
#include "kernels/cpu/random_mask.h"

namespace foretrain {
namespace {

constexpr std::int64_t kPiece = 1024;  // factors per KeepFactors call; they stay in L1

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
void Dropout(const FtDropout& g) {
  float factors[kPiece];
  for (std::int64_t row = 0; row < g.rows; ++row) {
    const std::int64_t token = g.first_row + row;
    const std::int64_t position = PositionOf(g, token % g.sequence);
    for (std::int64_t first = 0; first < g.cols; first += kPiece) {
      const std::int64_t count = std::min(kPiece, g.cols - first);
      KeepFactors(g.random, token / g.sequence, 0, position, first, count, factors);
      DropRow(g, row, first, count, factors);
    }
  }
}

// The mask is enough for the backward; no random numbers are drawn again.
void DropoutBackward(const FtDropoutBackward& g) {
  const float kept = 1.0F / (1.0F - g.probability);
  const auto* const dy = static_cast<const float*>(g.dy);
  auto* const dx = static_cast<float*>(g.dx);
  for (std::int64_t i = 0; i < g.elements; ++i) dx[i] = g.mask[i] != 0 ? kept * dy[i] : 0.0F;
}

}  // namespace

void SetDropoutEntries(FtDeviceApi& api) {
  Set<&FtDeviceApi::dropout, &Dropout>(api);
  Set<&FtDeviceApi::dropout_backward, &DropoutBackward>(api);
}

}  // namespace foretrain
