// Decides which kernels run attention, and which tiles and scores they visit. All functions depend
// on sizes only and give the same result on host and device.
#pragma once

#include <cstdint>

#include "base/device_api.h"

namespace foretrain {

enum class AttentionPath { kTensorCores, kCudaCores };

// Properties of an attention call that decide its kernels.
struct AttentionNeeds {
  FtDtype dtype;
  std::int32_t head_dim, value_dim;
  bool is_bent;             // soft cap, ALiBi or documents
  bool drops;               // dropout of weights
  bool is_aligned;          // tensors and rows are 16-byte aligned
  std::int32_t capability;  // compute capability: 10 * major + minor
};

// Head dimensions of the tensor-core kernels. A head is padded with zeros to the next of them.
constexpr std::int32_t kTensorDims[] = {64, 80, 96, 128};
constexpr std::int32_t kMaxTensorDim = 128;

constexpr std::int32_t PaddedTensorDim(std::int32_t dim) {
  for (const std::int32_t padded : kTensorDims) {
    if (dim <= padded) return padded;
  }
  return 0;
}

// Tensor cores take 16-bit values and head dimensions that are multiples of 8 up to 128, from
// compute capability 8.0 on. Everything else runs on CUDA cores, including soft caps, ALiBi,
// documents and dropout, which only those kernels implement.
constexpr AttentionPath PathOf(const AttentionNeeds& needs) {
  const bool is_short = needs.dtype == FT_BF16 || needs.dtype == FT_F16;
  const bool fits = needs.head_dim % 8 == 0 && needs.value_dim % 8 == 0 &&
                    needs.head_dim <= kMaxTensorDim && needs.value_dim <= kMaxTensorDim;
  const bool is_plain = !needs.is_bent && !needs.drops;
  return is_short && fits && is_plain && needs.is_aligned && needs.capability >= 80
             ? AttentionPath::kTensorCores
             : AttentionPath::kCudaCores;
}

// ---- tiles: a run's rows in pieces of `tile_rows`

struct TileRange {
  std::int64_t begin, end;
};

// Tiles of `run` that contain a position in [first, last].
constexpr TileRange TilesWithin(const FtRun& run, std::int64_t first, std::int64_t last,
                                std::int64_t tile_rows) {
  const std::int64_t begin = first > run.position ? (first - run.position) / tile_rows : 0;
  const std::int64_t up_to_last = last - run.position + 1;
  const std::int64_t rows = up_to_last < run.rows ? up_to_last : run.rows;
  const std::int64_t end = rows > 0 ? (rows + tile_rows - 1) / tile_rows : 0;
  return {begin, end > begin ? end : begin};
}

// Positions that interact with a tile of `rows` rows from `position` on: keys that its queries see,
// or queries that see its keys. window 0: no limit.
struct Positions {
  std::int64_t first, last;
};
constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;
constexpr Positions KeysSeenBy(std::int64_t position, std::int64_t rows, std::int64_t window) {
  return {window == 0 ? -kNoLimit : position - window + 1, position + rows - 1};
}
constexpr Positions QueriesThatSee(std::int64_t position, std::int64_t rows, std::int64_t window) {
  return {position, window == 0 ? kNoLimit : position + rows - 1 + window - 1};
}

// ---- scores of one tile's row against another tile's columns; columns [from, to) are visible

struct Columns {
  int from, to;
};
constexpr Columns ColumnsBetween(std::int64_t from, std::int64_t to, int cols) {
  const std::int64_t last = to < cols ? to : cols;
  return {static_cast<int>(from < 0      ? 0
                           : from < cols ? from
                                         : cols),
          static_cast<int>(last > 0 ? last : 0)};
}
// Keys that the query at `query` sees, of `cols` keys from `position` on.
constexpr Columns KeyColumns(std::int64_t query, std::int64_t position, int cols,
                             std::int64_t window) {
  return ColumnsBetween(window == 0 ? 0 : query - window + 1 - position, query - position + 1,
                        cols);
}
// Queries that see the key at `key`, of `cols` queries from `position` on.
constexpr Columns QueryColumns(std::int64_t key, std::int64_t position, int cols,
                               std::int64_t window) {
  return ColumnsBetween(key - position, window == 0 ? cols : key + window - position, cols);
}

}  // namespace foretrain
