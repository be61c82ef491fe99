// Rows of experts as runs, as in FtGroupedGemm. Run lengths lie in device memory.
#pragma once

#include "kernels/cuda/own/kernel.cuh"

namespace foretrain {

// First row of a run and its number of rows.
struct GroupRows {
  std::int64_t first, count;
};

template <class Arguments>
FT_DEVICE std::int64_t RowsOfRun(const Arguments& g, std::int64_t run) {
  if (g.counts == nullptr) return g.rows / g.groups;
  if (g.count_stride == 0) return g.counts[run];
  return g.counts[run / g.experts * g.count_stride + run % g.experts];
}

// Range of a run: sums the counts before it. Rows past the end of the tensor are cut off.
template <class Arguments>
FT_DEVICE GroupRows RowsBefore(const Arguments& g, std::int64_t run) {
  if (g.counts == nullptr) return {run * (g.rows / g.groups), g.rows / g.groups};
  std::int64_t first = 0;
  for (std::int64_t before = 0; before < run; ++before) first += RowsOfRun(g, before);
  const std::int64_t count = RowsOfRun(g, run), room = g.rows - first;
  return {first, count < room ? count : room};
}

// Tile of at most `tile_rows` rows of one run.
struct RunTile {
  std::int64_t run, first, rows;  // first row in the tensor; rows from there to the run's end
};

// Upper bound on the number of tiles. The host does not know the run lengths, so it launches this
// many.
template <class Arguments>
std::int64_t MostRunTiles(const Arguments& g, std::int64_t tile_rows) {
  if (g.counts == nullptr) return g.groups * ((g.rows / g.groups + tile_rows - 1) / tile_rows);
  return g.rows / tile_rows + (g.groups < g.rows ? g.groups : g.rows);
}

// Tile number `tile` over all runs, or rows == 0 past the last. Linear in the number of runs.
template <class Arguments>
FT_DEVICE RunTile RunTileOf(const Arguments& g, std::int64_t tile, int tile_rows) {
  std::int64_t first = 0;
  for (std::int64_t run = 0; run < g.groups && first < g.rows; ++run) {
    const std::int64_t asked = RowsOfRun(g, run), room = g.rows - first;
    const std::int64_t count = asked < room ? asked : room;
    const std::int64_t tiles = (count + tile_rows - 1) / tile_rows;
    if (tile < tiles) return {run, first + tile * tile_rows, count - tile * tile_rows};
    tile -= tiles;
    first += count;
  }
  return {0, 0, 0};
}

// Address `elements` elements past `at`, for any tensor format.
FT_DEVICE const char* Shifted(const void* at, FtDtype dtype, std::int64_t elements) {
  const std::int64_t each = dtype == FT_F32 ? 4 : dtype == FT_FP8 || dtype == FT_E5M2 ? 1 : 2;
  return static_cast<const char*>(at) + elements * each;
}

}  // namespace foretrain
