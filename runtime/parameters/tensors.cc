#include "runtime/parameters/tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/numeric/nf4.h"
#include "base/numeric/number_formats.h"
#include "base/numeric/random.h"
#include "sim/program/ir/precision.h"
#include "sim/program/lower/layout/stage.h"

namespace foretrain {
namespace {

constexpr float kStandardDeviation = 0.02F;

bool EndsWith(const std::string& text, std::string_view end) { return text.ends_with(end); }

// A piece of a row of a tensor, and its place in the rank's buffer (in elements).
struct Piece {
  std::int64_t row = 0;
  std::int64_t col = 0;
  std::int64_t count = 0;
  std::int64_t at = 0;
};

// Visits the pieces of `place` inside the bucket's elements `range`, in a buffer that starts with
// element `first` of the bucket. O(rows): a row is contiguous in the bucket, so it gives at most
// one piece, cut at the borders of the range.
void ForEachPiece(const ParameterPlace& place, ShardRange range, std::int64_t first,
                  const std::function<void(const Piece&)>& use) {
  const std::int64_t width = place.col_end - place.col_begin;
  for (std::int64_t row = place.row_begin; row < place.row_end; ++row) {
    const std::int64_t start = place.offset + (row - place.row_begin) * width;
    const std::int64_t from = std::max(start, range.begin);
    const std::int64_t to = std::min(start + width, range.end);
    if (from < to) use({row, place.col_begin + from - start, to - from, from - first});
  }
}

// Buffer with one kind of a bucket's state, and the bucket's element at its start.
struct StateBuffer {
  std::int32_t buffer = -1;
  std::int64_t first = 0;
};
// True if the buffer holds the whole bucket, in its own format. Under ZeRO a buffer may hold only
// this rank's shard.
bool HoldsAll(const RankProgram& rank, const Bucket& bucket, std::int32_t buffer) {
  const Buffer& of = rank.buffers[static_cast<std::size_t>(buffer)];
  return of.bytes == BytesIn(of.format, bucket.elements);
}
StateBuffer BufferOf(const RankProgram& rank, const Bucket& bucket, StateKind kind) {
  const std::int32_t buffers[] = {bucket.parameters, bucket.gradients, bucket.moment1,
                                  bucket.moment2};
  const std::int32_t buffer = buffers[static_cast<int>(kind)];
  const std::int64_t shard = bucket.elements / bucket.shards;
  const bool moments = kind == StateKind::kMoment1 || kind == StateKind::kMoment2;
  const bool whole = !moments && HoldsAll(rank, bucket, buffer);
  return {buffer, whole ? 0 : shard * bucket.shard};
}
// The fp32 master shard, if parameters are stored in a shorter format.
StateBuffer MasterOf(const Bucket& bucket) {
  return {bucket.master, bucket.elements / bucket.shards * bucket.shard};
}

// Access to a buffer as fp32 numbers wherever it is stored. Data on a disk is read on Open and
// written back when another buffer is opened, or by Flush.
class StateView {
 public:
  StateView(RankArena& arena, const RankProgram& rank) : arena_(arena), rank_(rank) {}

  // Opens a buffer in fp32, bf16 or fp16.
  Result<void> Open(std::int32_t buffer) {
    format_ = rank_.buffers[static_cast<std::size_t>(buffer)].format;
    if ((at_ = arena_.BufferAt(buffer)) != nullptr) return {};
    if (buffer != open_) {
      FT_TRY(Flush());
      bytes_.resize(static_cast<std::size_t>(Whole(buffer).bytes));
      FT_TRY(arena_.ReadState(Whole(buffer), bytes_.data()));
      open_ = buffer;
    }
    at_ = bytes_.data();
    return {};
  }
  // Numbers from `first` on; Write rounds to the buffer's format.
  void Read(std::int64_t first, std::span<float> out) const {
    const std::byte* const from = at_ + BytesIn(format_, first);
    if (format_ == NumberFormat::kFp32) {
      std::memcpy(out.data(), from, out.size_bytes());
      return;
    }
    const auto* const codes = reinterpret_cast<const std::uint16_t*>(from);
    const bool bf16 = format_ == NumberFormat::kBf16;
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = bf16 ? FloatOfBf16(codes[i]) : FloatOfFp16(codes[i]);
    }
  }
  void Write(std::int64_t first, std::span<const float> numbers) {
    std::byte* const to = at_ + BytesIn(format_, first);
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
  // Bytes of a buffer that is moved unchanged.
  void WriteBytes(std::int64_t first, std::span<const std::uint8_t> bytes) {
    std::memcpy(at_ + first, bytes.data(), bytes.size());
    changed_ = true;
  }
  void ReadBytes(std::int64_t first, std::span<std::uint8_t> bytes) const {
    std::memcpy(bytes.data(), at_ + first, bytes.size());
  }
  Result<void> Flush() {
    if (open_ >= 0 && changed_) FT_TRY(arena_.WriteState(Whole(open_), bytes_.data()));
    changed_ = false;
    return {};
  }

 private:
  Binding Whole(std::int32_t buffer) const {
    return {buffer, 0, rank_.buffers[static_cast<std::size_t>(buffer)].bytes};
  }

  RankArena& arena_;
  const RankProgram& rank_;
  NumberFormat format_ = NumberFormat::kFp32;
  std::byte* at_ = nullptr;
  std::int32_t open_ = -1;
  bool changed_ = false;
  std::vector<std::byte> bytes_;
};

// Fills the tensor's part of elements `range` of the bucket.
Result<void> FillPlace(StateView& view, const ParameterPlace& place, ShardRange range,
                       const StateBuffer& state, const TensorSource& source) {
  FT_TRY(view.Open(state.buffer));
  Result<void> result;
  std::vector<float> row;
  ForEachPiece(place, range, state.first, [&](const Piece& piece) {
    if (!result.has_value()) return;
    row.resize(static_cast<std::size_t>(piece.count));
    result = source(place, piece.row, piece.col, row);
    if (result.has_value()) view.Write(piece.at, row);
  });
  return result;
}

// The consecutive places that are parts of one 4-bit tensor.
std::span<const ParameterPlace> PackedWith(std::span<const ParameterPlace> places) {
  std::size_t count = 1;
  while (count < places.size() && places[count].packed_first > 0) ++count;
  return places.first(count);
}

// Visits a part's rows at their positions in the tensor's numbers.
template <class Numbers, class Use>
Result<void> ForEachPackedRow(const ParameterPlace& place, Numbers& numbers, const Use& use) {
  const std::int64_t width = place.col_end - place.col_begin;
  for (std::int64_t row = place.row_begin; row < place.row_end; ++row) {
    const std::int64_t at = place.packed_first + (row - place.row_begin) * width;
    FT_TRY(use(row, std::span(numbers).subspan(static_cast<std::size_t>(at),
                                               static_cast<std::size_t>(width))));
  }
  return {};
}

// Quantizes the whole tensor made of `parts`, and writes the bytes that fall into `range` of the
// bucket. Every rank quantizes the whole tensor, because block scales cross shard borders.
Result<void> FillPacked(StateView& view, std::span<const ParameterPlace> parts, ShardRange range,
                        const StateBuffer& state, const TensorSource& source) {
  const ParameterPlace& first = parts.front();
  std::vector<float> numbers(static_cast<std::size_t>(first.packed_elements));
  for (const ParameterPlace& place : parts) {
    FT_TRY(ForEachPackedRow(place, numbers, [&](std::int64_t row, std::span<float> out) {
      return source(place, row, place.col_begin, out);
    }));
  }
  std::vector<std::uint8_t> packed(
      static_cast<std::size_t>(Nf4Layout(first.packed_elements).bytes));
  QuantizeNf4(numbers.data(), first.packed_elements, packed.data());
  const std::int64_t begin = std::max(range.begin, first.offset);
  const std::int64_t end =
      std::min(range.end, first.offset + static_cast<std::int64_t>(packed.size()));
  if (begin >= end) return {};
  FT_TRY(view.Open(state.buffer));
  view.WriteBytes(begin - state.first,
                  std::span(packed).subspan(static_cast<std::size_t>(begin - first.offset),
                                            static_cast<std::size_t>(end - begin)));
  return {};
}

// Whole 4-bit buckets, assembled from the shards of different ranks.
class PackedBuckets {
 public:
  // Copies this rank's shard to its place. Replicas write the same bytes again.
  void Add(StateView& view, const RankProgram& rank, int number, const StateBuffer& state) {
    const Bucket& bucket = rank.buckets[static_cast<std::size_t>(number)];
    std::vector<std::uint8_t>& bytes = whole_[Key(rank, number)];
    bytes.resize(static_cast<std::size_t>(bucket.used));
    const ShardRange range = ShardOf(bucket);
    if (range.begin >= range.end) return;
    FT_CHECK(view.Open(state.buffer).has_value());  // the disk was just written to
    view.ReadBytes(range.begin - state.first,
                   std::span(bytes).subspan(static_cast<std::size_t>(range.begin),
                                            static_cast<std::size_t>(range.end - range.begin)));
  }
  // Dequantizes one 4-bit tensor and copies its parts to the model's tensors.
  void Read(const RankProgram& rank, std::span<const ParameterPlace> parts,
            TensorMap& tensors) const {
    const ParameterPlace& first = parts.front();
    std::vector<float> numbers(static_cast<std::size_t>(first.packed_elements));
    DequantizeNf4(whole_.at(Key(rank, first.bucket)).data() + first.offset, first.packed_elements,
                  numbers.data());
    for (const ParameterPlace& place : parts) {
      Tensor& tensor = tensors[place.name];
      tensor.rows = place.rows;
      tensor.cols = place.cols;
      tensor.values.resize(static_cast<std::size_t>(place.rows * place.cols));
      const auto copied = ForEachPackedRow(
          place, numbers, [&](std::int64_t row, std::span<float> from) -> Result<void> {
            std::copy(from.begin(), from.end(),
                      tensor.values.begin() + row * place.cols + place.col_begin);
            return {};
          });
      FT_CHECK(copied.has_value());
    }
  }

 private:
  using Place = std::array<int, 3>;  // pipeline stage, tensor-parallel index, bucket
  static Place Key(const RankProgram& rank, int bucket) { return {rank.pp, rank.tp, bucket}; }

  std::map<Place, std::vector<std::uint8_t>> whole_;
};

bool IsPacked(const ParameterPlace& place) { return place.packed_elements > 0; }

// Gathers the 4-bit tensors of all ranks.
void GatherPacked(Executor& executor, TensorMap& tensors) {
  PackedBuckets buckets;
  const std::vector<RankProgram>& ranks = executor.program().ranks;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    StateView view(executor.Arena(static_cast<int>(r)), ranks[r]);
    for (std::size_t i = 0; i < ranks[r].buckets.size(); ++i) {
      const Bucket& bucket = ranks[r].buckets[i];
      if (bucket.weights != NumberFormat::kByte) continue;
      buckets.Add(view, ranks[r], static_cast<int>(i),
                  BufferOf(ranks[r], bucket, StateKind::kParameters));
    }
  }
  for (const RankProgram& rank : ranks) {
    const std::span<const ParameterPlace> places = rank.parameters;
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (!IsPacked(places[i]) || places[i].packed_first > 0) continue;
      buckets.Read(rank, PackedWith(places.subspan(i)), tensors);
    }
  }
}

// A shard's moments in fp32, decoded from a shorter format, which is always on the device. 8-bit
// codes have one scale for each block of FT_SCALE_BLOCK, the block's largest absolute value. The
// second moment is stored as its square root, which needs half the range of exponents.
std::vector<float> DecodeMoments(RankArena& arena, MomentFormat format, const Bucket& bucket,
                                 bool first) {
  const void* const at = arena.BufferAt(first ? bucket.moment1 : bucket.moment2);
  std::vector<float> values(static_cast<std::size_t>(bucket.elements / bucket.shards));
  const auto* const halves = static_cast<const std::uint16_t*>(at);
  const auto* const codes = static_cast<const std::uint8_t*>(at);
  const float* largest = nullptr;
  if (format == MomentFormat::kInt8) {
    largest =
        reinterpret_cast<const float*>(arena.BufferAt(first ? bucket.absmax1 : bucket.absmax2));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (format == MomentFormat::kBf16) {
      values[i] = FloatOfBf16(halves[i]);
    } else {
      const float scale = largest[i / FT_SCALE_BLOCK];
      const float root = FloatOfUnsignedDynamic(codes[i]) * scale;
      values[i] = first ? FloatOfSignedDynamic(codes[i]) * scale : root * root;
    }
  }
  return values;
}

}  // namespace

TensorSource InitialWeights(const ModelSpec& model, std::uint64_t seed) {
  const float residual = kStandardDeviation / std::sqrt(2.0F * static_cast<float>(model.layers));
  return [seed, residual](const ParameterPlace& place, std::int64_t row, std::int64_t col,
                          std::span<float> out) -> Result<void> {
    if (EndsWith(place.name, ".lora_A.weight")) {
      const float deviation = 1.0F / static_cast<float>(place.rows);  // r is `rows`
      CounterRandom(seed, place.name)
          .FillNormal(static_cast<std::uint64_t>(row * place.cols + col), 0.0F, deviation, out);
    } else if (EndsWith(place.name, ".bias") || EndsWith(place.name, ".lora_B.weight") ||
               EndsWith(place.name, ".sinks")) {
      std::fill(out.begin(), out.end(), 0.0F);
    } else if (!place.decays) {
      std::fill(out.begin(), out.end(), 1.0F);
    } else {
      const bool projection =
          EndsWith(place.name, "attention.out.weight") || EndsWith(place.name, "mlp.down.weight");
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

// A rank fills its own shard, or the whole bucket if its buffer holds that: replicas need no
// message. Master weights get unrounded values.
Result<void> FillParameters(Executor& executor, const TensorSource& source) {
  for (int r = 0; r < executor.ranks(); ++r) {
    const RankProgram& rank = executor.Rank(r);
    StateView view(executor.Arena(r), rank);
    const std::span<const ParameterPlace> places = rank.parameters;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const ParameterPlace& place = places[i];
      const Bucket& bucket = rank.buckets[static_cast<std::size_t>(place.bucket)];
      const StateBuffer state = BufferOf(rank, bucket, StateKind::kParameters);
      const bool whole =
          state.first == 0 && bucket.shards > 1 && HoldsAll(rank, bucket, state.buffer);
      const ShardRange range = whole ? ShardRange{0, bucket.used} : ShardOf(bucket);
      if (IsPacked(place)) {
        if (place.packed_first > 0) continue;  // done with the first part
        FT_TRY(FillPacked(view, PackedWith(places.subspan(i)), range, state, source));
        continue;
      }
      FT_TRY(FillPlace(view, place, range, state, source));
      if (bucket.master < 0) continue;
      FT_TRY(FillPlace(view, place, ShardOf(bucket), MasterOf(bucket), source));
    }
    FT_TRY(view.Flush());
  }
  return {};
}

// Every element is taken from the rank that owns its shard; with replicas the last one wins, with
// equal values.
TensorMap GatherTensors(Executor& executor, StateKind kind) {
  TensorMap tensors;
  const bool moments = kind == StateKind::kMoment1 || kind == StateKind::kMoment2;
  const Plan& plan = executor.program().plan;
  if (moments && plan.optimizer == OptimizerKind::kSgd) return tensors;
  const bool encoded = moments && plan.moments != MomentFormat::kFp32;
  for (int r = 0; r < executor.ranks(); ++r) {
    const RankProgram& rank = executor.Rank(r);
    StateView view(executor.Arena(r), rank);
    std::vector<std::vector<float>> of_bucket(rank.buckets.size());  // decoded moments
    for (const ParameterPlace& place : rank.parameters) {
      const Bucket& bucket = rank.buckets[static_cast<std::size_t>(place.bucket)];
      if ((bucket.frozen && kind != StateKind::kParameters) || IsPacked(place)) continue;
      const bool master = kind == StateKind::kParameters && HasMasters(plan) && !bucket.frozen;
      const StateBuffer state = master ? MasterOf(bucket) : BufferOf(rank, bucket, kind);
      Tensor& tensor = tensors[place.name];
      tensor.rows = place.rows;
      tensor.cols = place.cols;
      tensor.values.resize(static_cast<std::size_t>(place.rows * place.cols));
      std::vector<float>& decoded = of_bucket[static_cast<std::size_t>(place.bucket)];
      if (encoded && decoded.empty()) {
        decoded =
            DecodeMoments(executor.Arena(r), plan.moments, bucket, kind == StateKind::kMoment1);
      }
      if (!encoded) FT_CHECK(view.Open(state.buffer).has_value());  // the disk was just written to
      // Each rank's own shard is the part that it has reduced and updated.
      ForEachPiece(place, ShardOf(bucket), state.first, [&](const Piece& piece) {
        const auto to = tensor.values.begin() + piece.row * place.cols + piece.col;
        if (encoded) {
          std::copy_n(decoded.data() + piece.at, piece.count, to);
        } else {
          view.Read(piece.at, std::span(to, static_cast<std::size_t>(piece.count)));
        }
      });
    }
  }
  if (kind == StateKind::kParameters) GatherPacked(executor, tensors);
  return tensors;
}

}  // namespace foretrain
