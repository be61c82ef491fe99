// Bytes that the passes of a chunk of layers need, from the bytes of its blocks. Leaves out state
// and gathered parameters (state_table.h).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/search/evaluate/block_table.h"
#include "sim/search/evaluate/pipeline_table.h"

namespace foretrain {

struct ChunkBytes {
  std::int64_t saved = 0;  // one micro-batch holds these between its forward and its backward
  std::int64_t owed = 0;   // and these between the input and the weight half of its backward
  // Peak of each pass, relative to the bytes before it. The peak of a pair is kPairF + kPairB: its
  // backward frees layer by layer as much as its forward saves.
  std::array<std::int64_t, kChunkPassCount> peak{};
};

class ChunkMemory {
 public:
  ChunkMemory(const ModelSpec& model, const Plan& plan);

  // Adds the next `count` equal blocks, in forward order. `block` must outlive this object. If
  // activations are offloaded, kept bytes of layers leave the device after their forward. Those of
  // a few layers are back at any time of a backward.
  void Add(BlockKind kind, const BlockCosts& block, int count);
  // Bytes of the chunk made of the added blocks. O(blocks added).
  ChunkBytes Of(const ChunkClass& chunk) const;

 private:
  // Running total over the passes of blocks, and its maximum.
  struct Walk {
    std::int64_t now = 0, peak = 0;
    void Make(std::int64_t bytes);
    void Run(std::int64_t peak_bytes, std::int64_t end_bytes, int count);
  };
  struct Blocks {
    const BlockCosts* figures = nullptr;
    int count = 0;
    std::int64_t moved_bytes = 0;  // that each offloads
  };
  Walk Forward(const ChunkClass& chunk) const;
  // A pass that runs from the last block to the first.
  Walk Back(const ChunkClass& chunk, PassCosts BlockCosts::*pass) const;
  std::int64_t LoadedBytes(const ChunkClass& chunk) const;

  std::int64_t boundary_bytes_, ids_bytes_, starts_bytes_;
  int back_ = 0;  // max layers whose offloaded activations are on the device at once
  bool moves_;
  std::int64_t max_moved_bytes_ = 0;
  std::vector<Blocks> blocks_;
};

}  // namespace foretrain
