// By which kernels attention runs, and which tiles and scores it visits: functions of sizes alone,
// the same on the host and on the device.
#pragma once

#include <cstdint>

#include "base/device_api.h"

namespace foretrain {

enum class AttentionPath { kTensorCores, kCudaCores };

// What a call of attention asks for, as far as the choice of kernels goes.
struct AttentionNeeds {
  FtDtype dtype;
  std::int32_t head_dim, value_dim;
  bool is_bent;             // a cap or slopes
  bool drops;               // dropout of weights
  bool is_aligned;          // tensors and rows, to 16 bytes
  std::int32_t capability;  // of the device: 10 * major + minor
};

// Heads of tensor cores: widths are padded to the next of these with zeros.
constexpr std::int32_t kTensorDims[] = {64, 80, 96, 128};
constexpr std::int32_t kMostTensorDim = 128;

constexpr std::int32_t PaddedTensorDim(std::int32_t dim) {
  for (const std::int32_t padded : kTensorDims) {
    if (dim <= padded) return padded;
  }
  return 0;
}

// Tensor cores for numbers of 16 bits and heads of multiples of 8 up to 128, from compute
// capability 8.0 on; all else on CUDA cores. What both can do, caps, slopes and dropout, CUDA cores
// alone have been given.
constexpr AttentionPath PathOf(const AttentionNeeds& needs) {
  const bool is_short = needs.dtype == FT_BF16 || needs.dtype == FT_F16;
  const bool fits = needs.head_dim % 8 == 0 && needs.value_dim % 8 == 0 &&
                    needs.head_dim <= kMostTensorDim && needs.value_dim <= kMostTensorDim;
  const bool is_plain = !needs.is_bent && !needs.drops;
  return is_short && fits && is_plain && needs.is_aligned && needs.capability >= 80
             ? AttentionPath::kTensorCores
             : AttentionPath::kCudaCores;
}

// ---- tiles: a run's rows in pieces of `tile_rows`

struct TileRange {
  std::int64_t begin, end;
};

// The tiles of `run` that hold some position of [first, last].
constexpr TileRange TilesWithin(const FtRun& run, std::int64_t first, std::int64_t last,
                                std::int64_t tile_rows) {
  const std::int64_t begin = first > run.position ? (first - run.position) / tile_rows : 0;
  const std::int64_t up_to_last = last - run.position + 1;
  const std::int64_t rows = up_to_last < run.rows ? up_to_last : run.rows;
  const std::int64_t end = rows > 0 ? (rows + tile_rows - 1) / tile_rows : 0;
  return {begin, end > begin ? end : begin};
}

// Positions that meet those of a tile of `rows` rows from `position` on: of keys that its queries
// see, and of queries that see its keys. window 0: no limit.
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

// ---- scores of a row of one tile with the columns of another: columns [from, to) are seen

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
// Of keys from `position` on, `cols` of them, by the query at `query`.
constexpr Columns KeyColumns(std::int64_t query, std::int64_t position, int cols,
                             std::int64_t window) {
  return ColumnsBetween(window == 0 ? 0 : query - window + 1 - position, query - position + 1,
                        cols);
}
// Of queries from `position` on, of the key at `key`.
constexpr Columns QueryColumns(std::int64_t key, std::int64_t position, int cols,
                               std::int64_t window) {
  return ColumnsBetween(key - position, window == 0 ? cols : key + window - position, cols);
}

}  // namespace foretrain
