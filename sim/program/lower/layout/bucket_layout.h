// Layout of a stage's parameters in flat buckets. The lowerings and the closed form of memory share
// it.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "sim/program/ir/program.h"
#include "sim/program/lower/layout/stage.h"

namespace foretrain {

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
// A matrix in a bucket, row by row: under tensor parallelism, a part of its rows or columns.
struct MatrixPlace {
  std::int64_t offset = 0;  // elements from the start of the bucket
  std::int64_t rows = 0;    // of the whole matrix
  std::int64_t cols = 0;
  // Adafactor: the first numbers of its rows and of its columns in the bucket's two moments.
  std::int64_t row_moments = 0;
  std::int64_t col_moments = 0;
  bool decays = false;
  ShardRange own_rows, own_cols;  // of this rank
  // This rank counts the part into sums over tensor-parallel ranks: it is the first that holds it.
  bool counted = true;
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
  // By bucket: the matrices that Muon updates, without gaps from the start, or all tensors if
  // Adafactor updates them; empty for others.
  std::vector<std::vector<MatrixPlace>> matrices;
  int tied_bucket = -1;  // bucket of the token table if HoldsTiedCopy(), else -1
};

// Buckets of one rank. Consecutive blocks share a bucket up to plan.bucket_bytes. With ZeRO-3 or
// offloaded parameters, which are copied for each use, the limit is plan.gather_bytes and the
// embedding has buckets of its own. A tied token table always has its own bucket, and so have the
// matrices of layers under Muon. Tensors with weight decay come first. A bucket is padded to 16
// elements per shard.
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
