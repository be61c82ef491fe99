// Which blocks a pipeline stage holds, and how their parameters lie in flat buckets. Shared by the
// lowering passes and by the closed form of memory.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/program/blocks/parameters.h"
#include "sim/program/program.h"

namespace foretrain {

// Consecutive blocks of a model, one stage of its pipeline: 0 embedding, 1..layers decoder layers,
// layers + 1 head.
struct Chunk {
  int first_block = 0;
  int last_block = 0;  // inclusive
  int direction = 0;   // of its micro-batches: 1 on DualPipe's way up
};

// The blocks of one pipeline rank: a chunk or, under some schedules, several (placement.h).
struct Stage {
  std::vector<Chunk> chunks;  // as the schedule numbers them
  std::vector<int> blocks;    // of all chunks, ascending
  int layers = 0;             // of the model
  int dense_layers = 0;       // of them, before the first with experts
  bool tied = false;          // the head's block uses the token table
  int twin = -1;              // as which of its parameters
  bool shared_table = false;  // both lie on this rank: one tensor, one gradient

  bool HoldsEmbedding() const { return blocks.front() == 0; }
  bool HoldsHead() const { return blocks.back() == layers + 1; }
  // Number of `block`, which the rank holds, among its blocks.
  std::size_t Local(int block) const;
  const Chunk& ChunkOf(int block) const;
  BlockKind KindOf(int block) const {
    if (block == 0) return BlockKind::kEmbedding;
    if (block == layers + 1) return BlockKind::kHead;
    return block <= dense_layers ? BlockKind::kLayer : BlockKind::kExpertLayer;
  }
  // This rank holds a copy of the token table whose twin lies on the pipeline's other end.
  bool HoldsTwin() const { return tied && !shared_table && (HoldsEmbedding() || HoldsHead()); }
};

// The blocks of stage `stage` of the model's pipeline, counted along a micro-batch's way. Layers
// are dealt to the stages as plan.stage_layers says or evenly, the remainder to the first ones; the
// embedding goes with the first layer and the head with the last.
Chunk BlocksOfStage(const ModelSpec& model, const Plan& plan, int stage);

// The blocks of pipeline rank `pp`.
Stage StageOf(const ModelSpec& model, const Plan& plan, int pp);

// Where one block's parameter lies: all its parts, one after the other.
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
  std::vector<std::vector<int>> buckets_of_block;   // likewise, each bucket once
  // Of each bucket: gradients of which each tensor-parallel rank makes a part; begin is -1 where it
  // has none.
  std::vector<ShardRange> own_row_gradients;
  int twin_bucket = -1;  // the token table's, where HoldsTwin()
};

// Buckets of one rank. Consecutive blocks share a bucket up to plan.bucket_bytes; with ZeRO-3 or
// offloaded parameters, which are gathered or copied for each use, up to plan.gather_bytes, and the
// embedding with nothing else. A tied token table is always one by itself. In a bucket tensors that
// decay come first; a bucket is padded to 16 elements a shard.
BucketLayout LayOutBuckets(const ModelSpec& model, const Plan& plan, const Stage& stage,
                           const RankCoordinates& at);

// What a layout depends on beside model, plan and stage: all but the shards, and these.
struct LayoutVariant {
  int tp = 0;
  int ep = 0;                  // place among those who share out a layer's experts
  bool counts_shared = true;   // in the norm: parameters that all data-parallel ranks hold whole,
  bool counts_experts = true;  // experts likewise
  bool second_holder = false;  // of DualPipe's two
  auto operator<=>(const LayoutVariant&) const = default;
};
LayoutVariant VariantOf(const Plan& plan, const RankCoordinates& at);
// Makes a layout that of another rank of the stage with the same variant. O(buckets).
void MoveShards(const Plan& plan, const RankCoordinates& to, BucketLayout& layout);

// This rank's part of a bucket, without padding.
ShardRange ShardOf(const Bucket& bucket);

}  // namespace foretrain
