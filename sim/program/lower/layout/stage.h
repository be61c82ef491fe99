// Blocks of a pipeline stage.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/program/blocks/parameters.h"
#include "sim/program/ir/program.h"

namespace foretrain {

// Consecutive blocks that form one stage of the pipeline. Block 0 is the embedding, 1..layers are
// layers, those of an encoder first, and layers + 1 is the head.
struct Chunk {
  int first_block = 0;
  int last_block = 0;  // inclusive
  int direction = 0;   // 1: its micro-batches run from the last rank to the first (DualPipe)
};

// The blocks of one pipeline rank: one chunk or, under some schedules, several (placement.h).
struct Stage {
  std::vector<Chunk> chunks;  // numbered as in the schedule
  std::vector<int> blocks;    // blocks of all chunks, ascending
  int layers = 0;             // layers of the model, of both stacks if it has two
  int encoder_layers = 0;     // leading layers that are an encoder's; 0: no encoder-decoder
  int dense_layers = 0;       // leading layers that have no experts
  int expert_every = 1;       // of the others, layers whose number is a multiple have experts
  bool tied = false;          // the head uses the token table
  int tied_copy = -1;         // number of that parameter of the head; -1: not tied
  bool shared_table = false;  // embedding and head share one tensor and gradient on this rank

  bool HoldsEmbedding() const { return blocks.front() == 0; }
  bool HoldsHead() const { return blocks.back() == layers + 1; }
  // Index of `block` in `blocks`; the rank must hold it (FT_CHECK).
  std::size_t Local(int block) const;
  const Chunk& ChunkOf(int block) const;
  BlockKind KindOf(int block) const {
    if (block == 0) return BlockKind::kEmbedding;
    if (block == layers + 1) return BlockKind::kHead;
    if (encoder_layers > 0 && block > encoder_layers) {
      return block == encoder_layers + 1 ? BlockKind::kFirstDecoderLayer : BlockKind::kDecoderLayer;
    }
    const bool experts = block > dense_layers && block % expert_every == 0;
    return experts ? BlockKind::kExpertLayer : BlockKind::kLayer;
  }
  // True if this rank holds one of two tied copies of the token table; the other end of the
  // pipeline holds the other.
  bool HoldsTiedCopy() const { return tied && !shared_table && (HoldsEmbedding() || HoldsHead()); }
};

// Blocks of stage `stage`, counted in the order in which a micro-batch passes them.
// plan.stage_layers gives the layers per stage; if it is empty, layers are split evenly and the
// first stages get the remainder. The embedding is in the first stage and the head in the last.
Chunk BlocksOfStage(const ModelSpec& model, const Plan& plan, int stage);

// The blocks of pipeline rank `pp`.
Stage StageOf(const ModelSpec& model, const Plan& plan, int pp);

}  // namespace foretrain
