#include "tests/runtime/gather_tensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "base/numeric/nf4.h"
#include "base/numeric/number_formats.h"
#include "base/result.h"
#include "sim/program/ir/precision.h"
#include "sim/program/lower/layout/bucket_layout.h"

namespace foretrain {
namespace {

std::size_t Index(std::int64_t value) { return static_cast<std::size_t>(value); }

// A rank that runs here, and its memory.
struct Held {
  const RankProgram& rank;
  RankArena& arena;

  const Buffer& Of(std::int32_t buffer) const { return rank.buffers[Index(buffer)]; }
  std::vector<std::byte> Bytes(std::int32_t buffer) const {
    std::vector<std::byte> out(Index(Of(buffer).bytes));
    const Binding whole{buffer, 0, Of(buffer).bytes};
    FT_CHECK(arena.ReadState(whole, out.data()).has_value());  // the disk was just written to
    return out;
  }
};

// The bytes of this rank's shard, of a buffer that holds it or the whole bucket.
std::vector<std::byte> ShardBytes(const Held& held, const Bucket& bucket, std::int32_t buffer) {
  const NumberFormat format = held.Of(buffer).format;
  const bool whole = held.Of(buffer).bytes == BytesIn(format, bucket.elements);
  const ShardRange range = ShardOf(bucket);
  if (range.begin >= range.end) return {};
  const std::vector<std::byte> bytes = held.Bytes(buffer);
  const std::int64_t first = whole ? range.begin : 0;
  const std::int64_t last = first + range.end - range.begin;
  return {bytes.begin() + BytesIn(format, first), bytes.begin() + BytesIn(format, last)};
}

std::vector<float> Decoded(NumberFormat format, const std::vector<std::byte>& bytes) {
  if (bytes.empty()) return {};
  if (format == NumberFormat::kFp32) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    return values;
  }
  const auto* const codes = reinterpret_cast<const std::uint16_t*>(bytes.data());
  std::vector<float> values(bytes.size() / sizeof *codes);
  std::transform(codes, codes + values.size(), values.begin(), [format](std::uint16_t code) {
    return format == NumberFormat::kBf16 ? FloatOfBf16(code) : FloatOfFp16(code);
  });
  return values;
}

// A shard's moments in 8 bits have one scale for each block of FT_SCALE_BLOCK, the block's largest
// absolute value. The second moment is stored as its square root.
std::vector<float> DecodedMoments(const Held& held, const Bucket& bucket, bool first) {
  const std::vector<std::byte> bytes = held.Bytes(first ? bucket.moment1 : bucket.moment2);
  const std::vector<std::byte> scales = held.Bytes(first ? bucket.absmax1 : bucket.absmax2);
  const auto* const codes = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const auto* const largest = reinterpret_cast<const float*>(scales.data());
  std::vector<float> values(Index(bucket.elements / bucket.shards));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float scale = largest[i / FT_SCALE_BLOCK];
    const float root = FloatOfUnsignedDynamic(codes[i]) * scale;
    values[i] = first ? FloatOfSignedDynamic(codes[i]) * scale : root * root;
  }
  return values;
}

// The elements of this rank's shard in fp32.
std::vector<float> ShardOfState(const Held& held, const Plan& plan, const Bucket& bucket,
                                GatheredState kind) {
  const auto plain = [&](std::int32_t buffer) {
    return Decoded(held.Of(buffer).format, ShardBytes(held, bucket, buffer));
  };
  if (kind == GatheredState::kGradients) return plain(bucket.gradients);
  if (kind == GatheredState::kAverage) return plain(bucket.average);
  if (kind == GatheredState::kParameters) {
    const bool master = HasMasters(plan) && !bucket.frozen;
    return plain(master ? bucket.master : bucket.parameters);
  }
  const bool first = kind == GatheredState::kMoment1;
  if (plan.moments == MomentFormat::kInt8) return DecodedMoments(held, bucket, first);
  const std::vector<std::byte> bytes = held.Bytes(first ? bucket.moment1 : bucket.moment2);
  return Decoded(plan.moments == MomentFormat::kBf16 ? NumberFormat::kBf16 : NumberFormat::kFp32,
                 bytes);
}

Tensor& TensorOf(const ParameterPlace& place, TensorMap& tensors) {
  Tensor& tensor = tensors[place.name];
  tensor.rows = place.rows;
  tensor.cols = place.cols;
  tensor.values.resize(Index(place.rows * place.cols));
  return tensor;
}

// Copies the elements of a shard, which starts at range.begin, to their places in the tensor.
void CopyShard(const ParameterPlace& place, ShardRange range, const std::vector<float>& shard,
               Tensor& tensor) {
  const std::int64_t width = place.col_end - place.col_begin;
  for (std::int64_t row = place.row_begin; row < place.row_end; ++row) {
    const std::int64_t start = place.offset + (row - place.row_begin) * width;
    const std::int64_t from = std::max(start, range.begin);
    const std::int64_t to = std::min(start + width, range.end);
    if (from >= to) continue;
    std::copy_n(shard.begin() + (from - range.begin), to - from,
                tensor.values.begin() + row * place.cols + place.col_begin + from - start);
  }
}

// Whole 4-bit buckets by pipeline stage, tensor-parallel index and bucket, assembled from the
// shards of different ranks.
using PackedBuckets = std::map<std::array<int, 3>, std::vector<std::uint8_t>>;

PackedBuckets GatherPacked(Executor& executor) {
  PackedBuckets whole;
  for (int r = 0; r < executor.ranks(); ++r) {
    const RankProgram& rank = executor.Rank(r);
    for (std::size_t i = 0; i < rank.buckets.size(); ++i) {
      const Bucket& bucket = rank.buckets[i];
      if (bucket.weights != NumberFormat::kByte) continue;
      std::vector<std::uint8_t>& bytes = whole[{rank.pp, rank.tp, static_cast<int>(i)}];
      bytes.resize(Index(bucket.used));
      const std::vector<std::byte> shard =
          ShardBytes({rank, executor.Arena(r)}, bucket, bucket.parameters);
      std::transform(shard.begin(), shard.end(), bytes.begin() + ShardOf(bucket).begin,
                     [](std::byte byte) { return static_cast<std::uint8_t>(byte); });
    }
  }
  return whole;
}

// Dequantizes the 4-bit tensor that the place is a part of, and copies this part.
void CopyPacked(const ParameterPlace& place, const std::vector<std::uint8_t>& bucket,
                Tensor& tensor) {
  std::vector<float> numbers(Index(place.packed_elements));
  DequantizeNf4(bucket.data() + place.offset, place.packed_elements, numbers.data());
  const std::int64_t width = place.col_end - place.col_begin;
  auto from = numbers.begin() + place.packed_first;
  for (std::int64_t row = place.row_begin; row < place.row_end; ++row, from += width) {
    std::copy_n(from, width, tensor.values.begin() + row * place.cols + place.col_begin);
  }
}

}  // namespace

// Each rank's own shard is the part that it has reduced and updated. With replicas the last one
// wins, with equal values.
TensorMap GatherTensors(Executor& executor, GatheredState kind) {
  TensorMap tensors;
  const bool parameters = kind == GatheredState::kParameters;
  const bool average = kind == GatheredState::kAverage;
  const bool moments = !parameters && !average && kind != GatheredState::kGradients;
  const Plan& plan = executor.program().plan;
  const int count = MomentsOf(plan.optimizer);
  if (moments && (kind == GatheredState::kMoment1 ? count < 1 : count < 2)) return tensors;
  if (average && plan.average_decay == 0) return tensors;
  const PackedBuckets packed = parameters ? GatherPacked(executor) : PackedBuckets{};
  for (int r = 0; r < executor.ranks(); ++r) {
    const RankProgram& rank = executor.Rank(r);
    std::vector<std::vector<float>> shards(rank.buckets.size());
    for (const ParameterPlace& place : rank.parameters) {
      const Bucket& bucket = rank.buckets[Index(place.bucket)];
      if (bucket.frozen && !parameters) continue;
      if (bucket.orthogonal && kind == GatheredState::kMoment2) continue;
      Tensor& tensor = TensorOf(place, tensors);
      if (place.packed_elements > 0) {
        CopyPacked(place, packed.at({rank.pp, rank.tp, place.bucket}), tensor);
        continue;
      }
      std::vector<float>& shard = shards[Index(place.bucket)];
      if (shard.empty()) shard = ShardOfState({rank, executor.Arena(r)}, plan, bucket, kind);
      CopyShard(place, ShardOf(bucket), shard, tensor);
    }
  }
  return tensors;
}

}  // namespace foretrain
