// Bytes of a bucket's buffers that hold a range of its elements on this rank, whether the buffer is
// whole or a shard.
#pragma once

#include "sim/program/lower/layout/bucket_layout.h"
#include "sim/program/lower/rank/skeleton.h"
#include "sim/program/lower/rank/step_description.h"

namespace foretrain {

// Elements [begin, end) of a bucket, all held by this rank. ShardOf(bucket) is always held.
TensorUse ParametersIn(const LowerContext& context, int bucket, const ShardRange& range);
TensorUse GradientsIn(const LowerContext& context, int bucket, const ShardRange& range);
// The parameters that an update changes: the fp32 master if there is one, else the parameters in
// use.
TensorUse UpdatedIn(const LowerContext& context, int bucket, const ShardRange& range);

// The whole of a bucket's buffer.
TensorUse WholeState(std::int32_t Bucket::*buffer, int bucket);
// This rank's shard with its padding, in a buffer of whole parameters, and in the gradients
// wherever they lie.
TensorUse ShardOfParameters(const LowerContext& context, int bucket);
TensorUse ShardOfGradients(const LowerContext& context, int bucket);

// Whole gradients of one micro-batch. They live until they are reduced or leave the device.
TensorName WholeGradientsName(int micro_batch, int bucket);
TensorShape WholeGradientsShape(const LowerContext& context, int bucket);

}  // namespace foretrain
