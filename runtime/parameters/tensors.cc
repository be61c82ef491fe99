#include "runtime/parameters/tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/numeric/nf4.h"
#include "base/numeric/number_formats.h"
#include "base/numeric/random.h"
#include "sim/program/lower/layout/bucket_layout.h"

namespace foretrain {
namespace {

constexpr float kStandardDeviation = 0.02F;

// A buffer of this rank, and the bucket's element at its start.
struct StateBuffer {
  std::int32_t buffer = -1;
  std::int64_t first = 0;
};
// True if the rank's parameters are the whole bucket. Under ZeRO-3 they are only its shard.
bool HoldsAll(const RankProgram& rank, const Bucket& bucket) {
  const Buffer& of = rank.buffers[static_cast<std::size_t>(bucket.parameters)];
  return of.bytes == BytesIn(of.format, bucket.elements);
}
std::int64_t ShardStart(const Bucket& bucket) {
  return bucket.elements / bucket.shards * bucket.shard;
}

// Writes fp32 numbers to buffers wherever they are stored. Memory that the host can address is
// written in place. Data on the device or on a disk is written to a copy in host memory, which is
// stored when other data is opened, or by Flush.
class StateView {
 public:
  StateView(RankArena& arena, const RankProgram& rank) : arena_(arena), rank_(rank) {}

  // Opens elements [begin, end) of a bucket for writing. The caller writes all of them.
  Result<void> Open(const StateBuffer& of, std::int64_t begin, std::int64_t end) {
    const NumberFormat format = rank_.buffers[static_cast<std::size_t>(of.buffer)].format;
    return Open({of.buffer, BytesIn(format, begin - of.first), BytesIn(format, end - begin)});
  }
  // The same for bytes.
  Result<void> Open(const Binding& part) {
    const Buffer& buffer = rank_.buffers[static_cast<std::size_t>(part.buffer)];
    format_ = buffer.format;
    if ((at_ = arena_.HostAt(part.buffer)) != nullptr) {
      first_byte_ = 0;
      return {};
    }
    if (buffer.space != Space::kNvme) {
      FT_TRY(Flush());
      Copy(part);
    } else if (part.buffer != copied_.buffer) {  // disks transfer whole blocks
      FT_TRY(Flush());
      Copy({part.buffer, 0, buffer.bytes});
      FT_TRY(arena_.ReadState(copied_, bytes_.data()));
    }
    at_ = bytes_.data();
    first_byte_ = copied_.offset;
    return {};
  }
  // Rounds numbers to the buffer's format and stores them from element `first` on.
  void Write(std::int64_t first, std::span<const float> numbers) {
    std::byte* const to = at_ + BytesIn(format_, first) - first_byte_;
    changed_ = true;
    if (format_ == NumberFormat::kFp32) {
      std::memcpy(to, numbers.data(), numbers.size_bytes());
      return;
    }
    auto* const codes = reinterpret_cast<std::uint16_t*>(to);
    const bool bf16 = format_ == NumberFormat::kBf16;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      codes[i] = bf16 ? Bf16OfFloat(numbers[i]) : Fp16OfFloat(numbers[i]);
    }
  }
  // Stores bytes unchanged, from byte `first` on.
  void WriteBytes(std::int64_t first, std::span<const std::uint8_t> bytes) {
    std::memcpy(at_ + first - first_byte_, bytes.data(), bytes.size());
    changed_ = true;
  }
  Result<void> Flush() {
    if (copied_.buffer >= 0 && changed_) FT_TRY(arena_.WriteState(copied_, bytes_.data()));
    changed_ = false;
    return {};
  }

 private:
  void Copy(const Binding& part) {
    copied_ = part;
    bytes_.resize(static_cast<std::size_t>(part.bytes));
  }

  RankArena& arena_;
  const RankProgram& rank_;
  NumberFormat format_ = NumberFormat::kFp32;
  std::byte* at_ = nullptr;
  std::int64_t first_byte_ = 0;  // of the buffer, at `at_`
  Binding copied_{.buffer = -1};
  std::vector<std::byte> bytes_;  // of copied_
  bool changed_ = false;
};

// Fills the tensor's part of elements `range` of the bucket. O(rows): a row is contiguous in the
// bucket, so it gives at most one piece, cut at the borders of the range.
Result<void> FillPlace(StateView& view, const ParameterPlace& place, ShardRange range,
                       const StateBuffer& state, const TensorSource& source) {
  const std::int64_t width = place.col_end - place.col_begin;
  const std::int64_t begin = std::max(place.offset, range.begin);
  const std::int64_t end =
      std::min(place.offset + (place.row_end - place.row_begin) * width, range.end);
  if (begin >= end) return {};
  FT_TRY(view.Open(state, begin, end));
  std::vector<float> piece;
  for (std::int64_t row = place.row_begin; row < place.row_end; ++row) {
    const std::int64_t start = place.offset + (row - place.row_begin) * width;
    const std::int64_t from = std::max(start, range.begin);
    const std::int64_t to = std::min(start + width, range.end);
    if (from >= to) continue;
    piece.resize(static_cast<std::size_t>(to - from));
    FT_TRY(source(place, row, place.col_begin + from - start, piece));
    view.Write(from - state.first, piece);
  }
  return {};
}

// The consecutive places that are parts of one 4-bit tensor.
std::span<const ParameterPlace> PackedWith(std::span<const ParameterPlace> places) {
  std::size_t count = 1;
  while (count < places.size() && places[count].packed_first > 0) ++count;
  return places.first(count);
}

// Quantizes the whole tensor made of `parts`, and writes the bytes that fall into `range` of the
// bucket. Every rank quantizes the whole tensor, because block scales cross shard borders.
Result<void> FillPacked(StateView& view, std::span<const ParameterPlace> parts, ShardRange range,
                        const StateBuffer& state, const TensorSource& source) {
  const ParameterPlace& first = parts.front();
  std::vector<float> numbers(static_cast<std::size_t>(first.packed_elements));
  for (const ParameterPlace& place : parts) {
    const auto width = static_cast<std::size_t>(place.col_end - place.col_begin);
    auto at = static_cast<std::size_t>(place.packed_first);
    for (std::int64_t row = place.row_begin; row < place.row_end; ++row, at += width) {
      FT_TRY(source(place, row, place.col_begin, std::span(numbers).subspan(at, width)));
    }
  }
  std::vector<std::uint8_t> packed(
      static_cast<std::size_t>(Nf4Layout(first.packed_elements).bytes));
  QuantizeNf4(numbers.data(), first.packed_elements, packed.data());
  const std::int64_t begin = std::max(range.begin, first.offset);
  const std::int64_t end =
      std::min(range.end, first.offset + static_cast<std::int64_t>(packed.size()));
  if (begin >= end) return {};
  FT_TRY(view.Open({state.buffer, begin - state.first, end - begin}));
  view.WriteBytes(begin - state.first,
                  std::span(packed).subspan(static_cast<std::size_t>(begin - first.offset),
                                            static_cast<std::size_t>(end - begin)));
  return {};
}

bool IsPacked(const ParameterPlace& place) { return place.packed_elements > 0; }

// A rank fills its own shard, or the whole bucket if its buffer holds that: replicas need no
// message. Master weights get unrounded values, and so do moving averages, which start from them.
Result<void> FillRank(Executor& executor, int place_of_rank, bool with_frozen,
                      const TensorSource& source) {
  const RankProgram& rank = executor.Rank(place_of_rank);
  StateView view(executor.Arena(place_of_rank), rank);
  const std::span<const ParameterPlace> places = rank.parameters;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const ParameterPlace& place = places[i];
    const Bucket& bucket = rank.buckets[static_cast<std::size_t>(place.bucket)];
    if (bucket.frozen && !with_frozen) continue;
    const bool whole = HoldsAll(rank, bucket);
    const StateBuffer state{bucket.parameters, whole ? 0 : ShardStart(bucket)};
    const ShardRange range = whole ? ShardRange{0, bucket.used} : ShardOf(bucket);
    if (IsPacked(place)) {
      if (place.packed_first > 0) continue;  // done with the first part
      FT_TRY(FillPacked(view, PackedWith(places.subspan(i)), range, state, source));
      continue;
    }
    FT_TRY(FillPlace(view, place, range, state, source));
    for (const std::int32_t also : {bucket.master, bucket.average}) {
      if (also < 0) continue;
      FT_TRY(FillPlace(view, place, ShardOf(bucket), {also, ShardStart(bucket)}, source));
    }
  }
  return view.Flush();
}

}  // namespace

TensorSource InitialWeights(const ModelSpec& model, std::uint64_t seed) {
  const float residual = kStandardDeviation / std::sqrt(2.0F * static_cast<float>(model.layers));
  return [seed, residual](const ParameterPlace& place, std::int64_t row, std::int64_t col,
                          std::span<float> out) -> Result<void> {
    if (place.name.ends_with(".lora_A.weight")) {
      const float deviation = 1.0F / static_cast<float>(place.rows);  // r is `rows`
      CounterRandom(seed, place.name)
          .FillNormal(static_cast<std::uint64_t>(row * place.cols + col), 0.0F, deviation, out);
    } else if (place.name.ends_with(".bias") || place.name.ends_with(".lora_B.weight") ||
               place.name.ends_with(".sinks")) {
      std::fill(out.begin(), out.end(), 0.0F);
    } else if (!place.decays) {
      std::fill(out.begin(), out.end(), 1.0F);
    } else {
      const bool projection =
          place.name.ends_with("attention.out.weight") || place.name.ends_with("mlp.down.weight");
      CounterRandom(seed, place.name)
          .FillNormal(static_cast<std::uint64_t>(row * place.cols + col), 0.0F,
                      projection ? residual : kStandardDeviation, out);
    }
    return {};
  };
}

// Copying a pattern is much faster than drawing numbers, and large models have billions. Vectors
// keep their real values, as norm weights must be 1.
TensorSource PatternWeights(const ModelSpec& model, std::uint64_t seed) {
  constexpr std::size_t kNumbers = std::size_t{1} << 16;
  std::vector<float> pattern(kNumbers);
  CounterRandom(seed, "pattern").FillNormal(0, 0.0F, kStandardDeviation, pattern);
  return [pattern = std::move(pattern), vectors = InitialWeights(model, seed)](
             const ParameterPlace& place, std::int64_t row, std::int64_t col,
             std::span<float> out) -> Result<void> {
    if (place.rows == 1) return vectors(place, row, col, out);
    const auto first = static_cast<std::size_t>(row * place.cols + col);
    for (std::size_t done = 0; done < out.size();) {
      const std::size_t at = (first + done) % kNumbers;
      const std::size_t count = std::min(out.size() - done, kNumbers - at);
      std::copy_n(pattern.begin() + static_cast<std::ptrdiff_t>(at), count,
                  out.begin() + static_cast<std::ptrdiff_t>(done));
      done += count;
    }
    return {};
  };
}

Result<void> FillParameters(Executor& executor, const TensorSource& source) {
  for (int r = 0; r < executor.ranks(); ++r) {
    FT_TRY(FillRank(executor, r, /*with_frozen=*/true, source));
  }
  return {};
}

Result<void> FillTrainedParameters(Executor& executor, const TensorSource& source) {
  for (int r = 0; r < executor.ranks(); ++r) {
    FT_TRY(FillRank(executor, r, /*with_frozen=*/false, source));
  }
  return {};
}

}  // namespace foretrain
