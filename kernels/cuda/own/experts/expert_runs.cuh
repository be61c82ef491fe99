// Rows of experts as runs, as in FtGroupedGemm. Run lengths lie in device memory.
#pragma once

#include "kernels/cuda/own/kernel.cuh"

namespace foretrain {

// First row of a run and its number of rows.
struct GroupRows {
  std::int64_t first, count;
};

// Groups are at most 65,535 and rows of equal runs fit 32 bits (CheckRuns), so that nothing divides
// 64-bit numbers, which a GPU does in dozens of instructions.
template <class Arguments>
FT_DEVICE std::int64_t RowsOfRun(const Arguments& g, unsigned run) {
  if (g.counts == nullptr) return static_cast<unsigned>(g.rows) / static_cast<unsigned>(g.groups);
  if (g.count_stride == 0) return g.counts[run];
  const auto experts = static_cast<unsigned>(g.experts);
  return g.counts[run / experts * g.count_stride + run % experts];
}

// Limits of the functions below.
template <class Arguments>
void CheckRuns(CudaCheck& check, const Arguments& g) {
  check.AtMost("groups", g.groups, 65535).AtMost("rows", g.rows, 0x7fffffff);
}

// Rows of a run that begins at `first`: those past the end of the tensor are cut off.
template <class Arguments>
FT_DEVICE std::int64_t RowsFrom(const Arguments& g, std::int64_t first, std::int64_t asked) {
  const std::int64_t room = g.rows - first;
  const std::int64_t count = asked < room ? asked : room;
  return count > 0 ? count : 0;
}

// Range of a run. The lanes of a warp, all of which must call it, add the counts before it.
template <class Arguments>
FT_DEVICE GroupRows RowsBefore(const Arguments& g, unsigned run) {
  const std::int64_t count = RowsOfRun(g, run);
  if (g.counts == nullptr) return {run * count, count};
  std::int64_t first = 0;
  for (unsigned before = LaneOf(); before < run; before += kWarp) first += RowsOfRun(g, before);
  first = JoinWarp(first, Sum{});
  return {first, RowsFrom(g, first, count)};
}

// Where a search for tiles, in increasing order, has arrived: the first run of a window of 32, its
// first row, and the tiles before it.
struct RunSearch {
  unsigned run = 0;
  std::int64_t row = 0, tiles = 0;
};

// A tile of a run: its number within the run, and the run's rows. rows.count == 0: past the last.
struct RunTile {
  unsigned run;
  GroupRows rows;
  unsigned tile;
};

// Tile number `tile` over all runs, if a run of n rows has ceil(n / kTileRows) * across of them.
// The lanes of a warp, all of which must call it, look at 32 runs at once.
template <int kTileRows, class Arguments>
FT_DEVICE RunTile FindRunTile(const Arguments& g, std::int64_t tile, unsigned across,
                              RunSearch& search) {
  const auto groups = static_cast<unsigned>(g.groups);
  while (search.run < groups && search.row < g.rows) {
    const unsigned run = search.run + LaneOf();
    const std::int64_t asked = run < groups ? RowsOfRun(g, run) : 0;
    const std::int64_t rows_end = search.row + SumUpTo(asked), first = rows_end - asked;
    const std::int64_t count = RowsFrom(g, first, asked);
    const std::int64_t tiles = (static_cast<unsigned>(count) + kTileRows - 1) / kTileRows *
                               static_cast<std::int64_t>(across);
    const std::int64_t end = search.tiles + SumUpTo(tiles);
    const unsigned behind = __ballot_sync(kAllLanes, tile < end);
    if (behind != 0) {
      const int lane = __ffs(static_cast<int>(behind)) - 1;
      return {search.run + lane,
              {__shfl_sync(kAllLanes, first, lane), __shfl_sync(kAllLanes, count, lane)},
              static_cast<unsigned>(tile - __shfl_sync(kAllLanes, end - tiles, lane))};
    }
    search.run += kWarp;
    search.row = __shfl_sync(kAllLanes, rows_end, kWarp - 1);
    search.tiles = __shfl_sync(kAllLanes, end, kWarp - 1);
  }
  return {0, {0, 0}, 0};
}

// Upper bound on the number of tiles. The host does not know the run lengths, so it launches this
// many.
template <class Arguments>
std::int64_t MostRunTiles(const Arguments& g, std::int64_t tile_rows) {
  if (g.counts == nullptr) return g.groups * ((g.rows / g.groups + tile_rows - 1) / tile_rows);
  return g.rows / tile_rows + (g.groups < g.rows ? g.groups : g.rows);
}

// Address `elements` elements past `at`, for any tensor format.
FT_DEVICE const char* Shifted(const void* at, FtDtype dtype, std::int64_t elements) {
  const std::int64_t each = dtype == FT_F32 ? 4 : dtype == FT_FP8 || dtype == FT_E5M2 ? 1 : 2;
  return static_cast<const char*>(at) + elements * each;
}

}  // namespace foretrain
