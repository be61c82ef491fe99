// Blocks of a pipeline stage, and the layout of their parameters in flat buckets. The lowerings and
// the closed form of memory share it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/program/blocks/parameters.h"
#include "sim/program/ir/program.h"

namespace foretrain {

// Consecutive blocks that form one stage of the pipeline. Block 0 is the embedding, 1..layers are
// decoder layers, layers + 1 is the head.
struct Chunk {
  int first_block = 0;
  int last_block = 0;  // inclusive
  int direction = 0;   // 1: its micro-batches run from the last rank to the first (DualPipe)
};

// The blocks of one pipeline rank: one chunk or, under some schedules, several (placement.h).
struct Stage {
  std::vector<Chunk> chunks;  // numbered as in the schedule
  std::vector<int> blocks;    // blocks of all chunks, ascending
  int layers = 0;             // layers of the model
  int dense_layers = 0;       // layers before the first one with experts
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
    return block <= dense_layers ? BlockKind::kLayer : BlockKind::kExpertLayer;
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

// Place of one parameter of a block: all its parts, one after the other.
struct ParameterRange {
  int bucket = -1;  // -1: the model has no such parameter
  std::int64_t offset = 0;
  std::int64_t elements = 0;
};

// Part of a bucket: [begin, end) in elements.
struct ShardRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
struct BucketLayout {
  std::vector<Bucket> buckets;  // in the order in which a backward completes them; no buffers yet
  std::vector<ParameterPlace> places;
  std::vector<std::vector<ParameterRange>> ranges;  // [Stage::Local(block)][parameter]
  std::vector<std::vector<int>> buckets_of_block;   // [Stage::Local(block)], each bucket once
  // By bucket: gradients of which each tensor-parallel rank computes a part; begin is -1 if none.
  std::vector<ShardRange> own_row_gradients;
  // By bucket: elements whose squares this rank adds to the norm, ascending, with gaps between
  // them. Those in another rank's shard are left to that rank.
  std::vector<std::vector<ShardRange>> counted;
  int tied_bucket = -1;  // bucket of the token table if HoldsTiedCopy(), else -1
};

// Buckets of one rank. Consecutive blocks share a bucket up to plan.bucket_bytes. With ZeRO-3 or
// offloaded parameters, which are copied for each use, the limit is plan.gather_bytes and the
// embedding has buckets of its own. A tied token table always has its own bucket. Tensors with
// weight decay come first. A bucket is padded to 16 elements per shard.
BucketLayout LayOutBuckets(const ModelSpec& model, const Plan& plan, const Stage& stage,
                           const RankCoordinates& at);

// Tells layouts of one model, plan and stage apart, but for their shards.
struct LayoutVariant {
  int tp = 0;
  int ep = 0;                  // place among the ranks that a layer's experts are dealt to
  bool counts_shared = true;   // counts parameters into the norm that all dp ranks hold whole
  bool counts_experts = true;  // counts its experts into the norm
  bool second_holder = false;  // second of DualPipe's two holders of a stage
  auto operator<=>(const LayoutVariant&) const = default;
};
LayoutVariant VariantOf(const Plan& plan, const RankCoordinates& at);
// Changes a layout to that of another rank of the stage with the same variant. O(buckets).
void MoveShards(const Plan& plan, const RankCoordinates& to, BucketLayout& layout);

// This rank's part of a bucket, without padding.
ShardRange ShardOf(const Bucket& bucket);

}  // namespace foretrain
