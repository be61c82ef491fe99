// Entries that treat 16-bit tensors otherwise than by fp32 copies.
#include <algorithm>
#include <cstdint>

#include "kernels/cpu/entries/entry.h"
#include "kernels/cpu/entries/families.h"
#include "kernels/formats.h"

namespace foretrain {
namespace {

// Residual sum and norm in one kernel: the sum is written once and normalized from cache. With
// short tensors the norm reads the sum as stored (rounded), so that the bits equal those of two
// kernels.
FtStatus AddNormForward(FtQueue* queue, const FtAddNormForward* g) {
  if (!IsShort(g->dtype) && !IsShort(g->weight_dtype)) {
    return Run<&FtDeviceApi::add_norm_forward, &VectorKernels::add_norm_forward>(queue, g);
  }
  const FtAdd add{g->a, g->b, g->bias, g->sum, g->rows, g->cols, g->dtype, g->weight_dtype};
  const FtStatus status = Run<&FtDeviceApi::add, &VectorKernels::add>(queue, &add);
  if (status != FT_OK) return status;
  const FtNormForward norm{g->sum,  g->weight, g->norm_bias, g->y,   g->mean,  g->rstd,
                           g->rows, g->cols,   g->epsilon,   g->rms, g->dtype, g->weight_dtype};
  return Run<&FtDeviceApi::norm_forward, &VectorKernels::norm_forward>(queue, &norm);
}

// Sums all ranks in fp32 and rounds once. Works in pieces of 1,024, so it needs no copies. Every
// rank adds in the same order, so that all get the same bits.
FtStatus SumRanks(FtQueue* queue, const FtSumRanks* arguments) {
  FtSumRanks g = *arguments;
  Check check(queue, FT_KERNEL_SUM_RANKS);
  Describe(check, g);
  if (!check.ok() || g.elements == 0) return check.status();
  if (!IsShort(g.dtype)) {
    queue->kernels->sum_ranks(g);
    return FT_OK;
  }
  constexpr std::int64_t kPiece = 1024;
  float sum[kPiece], other[kPiece];
  for (std::int64_t begin = 0; begin < g.elements; begin += kPiece) {
    const std::int64_t count = std::min(kPiece, g.elements - begin);
    for (std::int32_t rank = 0; rank < g.count; ++rank) {
      const auto* const from = static_cast<const std::uint16_t*>(g.sources[rank]) + begin;
      Widen(g.dtype, from, rank == 0 ? sum : other, count);
      for (std::int64_t i = 0; rank > 0 && i < count; ++i) {
        sum[i] = g.maximum != 0 ? std::max(sum[i], other[i]) : sum[i] + other[i];
      }
    }
    Narrow(g.dtype, sum, static_cast<std::uint16_t*>(g.out) + begin, count);
  }
  return FT_OK;
}

// Copies bits; converting to fp32 and back would only cost time.
FtStatus CopyRows(FtQueue* queue, const FtCopyRows* arguments) {
  FtCopyRows g = *arguments;
  Check check(queue, FT_KERNEL_COPY_ROWS);
  Describe(check, g);
  if (!check.ok()) return check.status();
  if (!IsShort(g.dtype)) {
    queue->kernels->copy_rows(g);
    return FT_OK;
  }
  const auto* const from = static_cast<const std::uint16_t*>(g.from);
  auto* const to = static_cast<std::uint16_t*>(g.to);
  for (std::int64_t row = 0; row < g.rows; ++row) {
    std::copy_n(from + row * g.from_stride, g.cols, to + row * g.to_stride);
  }
  return FT_OK;
}

}  // namespace

void SetShortTensorEntries(FtDeviceApi& api) {
  api.add_norm_forward = &AddNormForward;
  api.sum_ranks = &SumRanks;
  api.copy_rows = &CopyRows;
}

}  // namespace foretrain
