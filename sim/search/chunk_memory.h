// Bytes that the passes of a chunk of layers need, from those of its blocks. Leaves out state and
// copies of parameters (state_table.h).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/search/block_table.h"
#include "sim/search/pipeline_table.h"

namespace foretrain {

struct ChunkBytes {
  std::int64_t saved = 0;  // of one micro-batch between its forward and its backward
  std::int64_t owed = 0;   // between the halves of its backward
  // At the fullest moment of a slot, over what was there before it. Of pairs the two halves add up:
  // what the forward's layers keep the backward's free.
  std::array<std::int64_t, kChunkPassCount> peak{};
};

class ChunkMemory {
 public:
  ChunkMemory(const ModelSpec& model, const Plan& plan);

  // The next `count` equal blocks of a forward; the table's entry must outlive this. Of offloaded
  // activations what layers keep leaves behind them, and is back for as many as are ahead.
  void Add(BlockKind kind, const BlockFigures& block, int count);
  // Of the chunk that has these blocks. O(blocks that were added).
  ChunkBytes Of(const ChunkClass& chunk) const;

 private:
  struct Walk {
    std::int64_t now = 0, peak = 0;
    void Make(std::int64_t bytes);
    void Run(std::int64_t peak_bytes, std::int64_t end_bytes, int count);
  };
  struct Blocks {
    const BlockFigures* figures = nullptr;
    int count = 0;
    std::int64_t moved_bytes = 0;  // by each, off the device
  };
  Walk Forward(const ChunkClass& chunk) const;
  // One of the passes that go from the last block to the first.
  Walk Back(const ChunkClass& chunk, PassFigures BlockFigures::*pass) const;
  std::int64_t LoadedBytes(const ChunkClass& chunk) const;

  std::int64_t boundary_bytes_, ids_bytes_;
  int back_ = 0;  // blocks whose offloaded activations are on the device at once, at most
  bool moves_;
  std::int64_t most_moved_bytes_ = 0;
  std::vector<Blocks> blocks_;
};

}  // namespace foretrain
