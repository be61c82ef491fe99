// Rows of experts: runs whose lengths lie in device memory, as FtGroupedGemm has them.
#pragma once

#include "kernels/cuda/kernel.cuh"

namespace foretrain {

// Rows of a run, and of all runs before it.
struct GroupRows {
  std::int64_t first, count;
};

template <class Arguments>
FT_DEVICE std::int64_t RowsOfRun(const Arguments& g, std::int64_t run) {
  if (g.counts == nullptr) return g.rows / g.groups;
  if (g.count_stride == 0) return g.counts[run];
  return g.counts[run / g.experts * g.count_stride + run % g.experts];
}

// Rows behind the last one of the tensor count for nothing.
template <class Arguments>
FT_DEVICE GroupRows RowsBefore(const Arguments& g, std::int64_t run) {
  if (g.counts == nullptr) return {run * (g.rows / g.groups), g.rows / g.groups};
  std::int64_t first = 0;
  for (std::int64_t before = 0; before < run; ++before) first += RowsOfRun(g, before);
  const std::int64_t count = RowsOfRun(g, run), room = g.rows - first;
  return {first, count < room ? count : room};
}

// A tile of `tile_rows` rows of one run.
struct RunTile {
  std::int64_t run, first, rows;  // row of the tensor, and rows from there to the run's end
};

// How many tiles there can be: only the device knows how long the runs are.
template <class Arguments>
std::int64_t MostRunTiles(const Arguments& g, std::int64_t tile_rows) {
  if (g.counts == nullptr) return g.groups * ((g.rows / g.groups + tile_rows - 1) / tile_rows);
  return g.rows / tile_rows + (g.groups < g.rows ? g.groups : g.rows);
}

// Tile number `tile` of all runs; rows 0 behind the last.
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

FT_DEVICE const char* Shifted(const void* at, FtDtype dtype, std::int64_t elements) {
  const std::int64_t each = dtype == FT_F32 ? 4 : dtype == FT_FP8 || dtype == FT_E5M2 ? 1 : 2;
  return static_cast<const char*>(at) + elements * each;
}

}  // namespace foretrain
