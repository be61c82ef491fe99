// Where a range of a bucket's state lies on this rank, whole or in shards.
#pragma once

#include "sim/program/lower/rank_builder.h"

namespace foretrain {

// Elements [begin, end) of the bucket, which this rank holds. ShardOf(bucket) is always held.
Binding ParameterRangeOf(const RankBuilder& rank, const Bucket& bucket, std::int64_t begin,
                         std::int64_t end);
// What updates are made on: the master, or the parameters themselves.
Binding UpdatedRangeOf(const RankBuilder& rank, const Bucket& bucket, std::int64_t begin,
                       std::int64_t end);
Binding GradientRangeOf(const RankBuilder& rank, const Bucket& bucket, std::int64_t begin,
                        std::int64_t end);

// This rank's shard with its padding, in a buffer that holds the whole bucket.
Binding OwnShard(const RankBuilder& rank, const Bucket& bucket, int buffer);
// The same of the gradients, wherever they lie.
Binding ShardOfGradients(const RankBuilder& rank, const Bucket& bucket);

}  // namespace foretrain
