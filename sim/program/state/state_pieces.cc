#include "sim/program/state/state_pieces.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/enum_names.h"
#include "sim/program/blocks/parameters.h"
#include "sim/program/lower/layout/bucket_layout.h"

namespace foretrain {
namespace {

constexpr std::array<std::string_view, kStateKindCount> kNames = {"weight",  "moment1", "moment2",
                                                                  "average", "scalar",  "rank"};

// A buffer that holds a bucket's numbers from element `first` on.
struct BucketBuffer {
  StateKind kind = StateKind::kWeight;
  std::int32_t buffer = -1;
  std::int32_t scales = -1;
  std::int64_t first = 0;
  ShardRange range;  // elements of the bucket that it holds
  NumberFormat format = NumberFormat::kFp32;
  bool derived = false;
};

const Buffer& At(const RankProgram& rank, std::int32_t buffer) {
  return rank.buffers[static_cast<std::size_t>(buffer)];
}

// Moments have the format of their bytes an element: the buffer of 8-bit codes does not name one.
NumberFormat MomentFormat(const RankProgram& rank, const Bucket& bucket, std::int32_t buffer) {
  if (bucket.absmax1 >= 0) return NumberFormat::kInt8;
  const std::int64_t elements = bucket.elements / bucket.shards;
  return At(rank, buffer).bytes == BytesIn(NumberFormat::kBf16, elements) ? NumberFormat::kBf16
                                                                          : NumberFormat::kFp32;
}

std::vector<BucketBuffer> BuffersOf(const RankProgram& rank, const Bucket& bucket) {
  const std::int64_t shard_first = bucket.elements / bucket.shards * bucket.shard;
  const Buffer& parameters = At(rank, bucket.parameters);
  const bool whole = parameters.bytes == BytesIn(parameters.format, bucket.elements);
  std::vector<BucketBuffer> buffers;
  buffers.push_back({.buffer = bucket.parameters,
                     .first = whole ? 0 : shard_first,
                     .range = whole ? ShardRange{0, bucket.used} : ShardOf(bucket),
                     .format = parameters.format,
                     .derived = bucket.master >= 0});
  const auto add = [&](StateKind kind, std::int32_t buffer, std::int32_t scales,
                       NumberFormat format) {
    if (buffer < 0) return;
    buffers.push_back({kind, buffer, scales, shard_first, ShardOf(bucket), format});
  };
  add(StateKind::kWeight, bucket.master, -1, NumberFormat::kFp32);
  add(StateKind::kAverage, bucket.average, -1, NumberFormat::kFp32);
  if (bucket.factored) return buffers;
  for (const auto& [kind, buffer, scales] :
       {std::tuple(StateKind::kMoment1, bucket.moment1, bucket.absmax1),
        std::tuple(StateKind::kMoment2, bucket.moment2, bucket.absmax2)}) {
    if (buffer >= 0) add(kind, buffer, scales, MomentFormat(rank, bucket, buffer));
  }
  return buffers;
}

// The tensor's part in the buffer; no elements if the buffer has none of it.
StatePiece PieceOf(const ParameterPlace& place, const BucketBuffer& in) {
  StatePiece piece;
  const std::int64_t width = place.col_end - place.col_begin;
  const std::int64_t begin = std::max(place.offset, in.range.begin);
  const std::int64_t end =
      std::min(place.offset + (place.row_end - place.row_begin) * width, in.range.end);
  if (begin >= end) return piece;
  piece.kind = in.kind;
  piece.name = place.name;
  piece.format = in.format;
  piece.rows = place.rows;
  piece.cols = place.cols;
  piece.row_begin = place.row_begin;
  piece.row_end = place.row_end;
  piece.col_begin = place.col_begin;
  piece.col_end = place.col_end;
  piece.first = begin - place.offset;
  piece.end = end - place.offset;
  piece.derived = in.derived;
  const std::int64_t at = begin - in.first, count = end - begin;
  if (in.format != NumberFormat::kInt8) {
    piece.data = {in.buffer, BytesIn(in.format, at), BytesIn(in.format, count)};
    return piece;
  }
  piece.data = {in.buffer, at, count};
  piece.scale_skip = at % kScaleBlock;
  const std::int64_t first_block = at / kScaleBlock;
  const std::int64_t blocks = (at + count + kScaleBlock - 1) / kScaleBlock - first_block;
  piece.scales = {in.scales, first_block * 4, blocks * 4};
  return piece;
}

// A whole tensor of rows x cols in fp32 that begins at number `first` of a buffer.
StatePiece WholeTensor(StateKind kind, const std::string& name, std::int64_t rows,
                       std::int64_t cols, std::int32_t buffer, std::int64_t first) {
  StatePiece piece;
  piece.kind = kind;
  piece.name = name;
  piece.rows = piece.row_end = rows;
  piece.cols = piece.col_end = cols;
  piece.end = rows * cols;
  piece.data = {buffer, BytesIn(piece.format, first), BytesIn(piece.format, piece.end)};
  return piece;
}

// Moments of rows and of columns that Adafactor keeps, in the order of the bucket's tensors
// (MatrixPlace). A vector has one row, and no moments of rows.
void AddFactors(const RankProgram& rank, std::vector<StatePiece>& pieces) {
  std::map<std::pair<std::int32_t, std::int64_t>, const ParameterPlace*> by_offset;
  for (const ParameterPlace& place : rank.parameters) {
    if (!rank.buckets[static_cast<std::size_t>(place.bucket)].factored) continue;
    by_offset[{place.bucket, place.offset}] = &place;
  }
  std::map<std::int32_t, std::pair<std::int64_t, std::int64_t>> next;  // rows and columns so far
  for (const auto& [key, place] : by_offset) {
    const Bucket& bucket = rank.buckets[static_cast<std::size_t>(key.first)];
    auto& [rows, cols] = next[key.first];
    if (place->rows > 1) {
      pieces.push_back(
          WholeTensor(StateKind::kMoment1, place->name, place->rows, 1, bucket.moment1, rows));
      rows += place->rows;
    }
    pieces.push_back(
        WholeTensor(StateKind::kMoment2, place->name, 1, place->cols, bucket.moment2, cols));
    cols += place->cols;
  }
}

bool IsLeftOut(const ParameterPlace& place, const Bucket& bucket) {
  return place.packed_elements > 0 ||
         (bucket.frozen && !place.name.ends_with("router.choice.bias"));
}

StatePiece BytesOf(StateKind kind, std::string name, const Binding& data) {
  StatePiece piece;
  piece.kind = kind;
  piece.name = std::move(name);
  piece.format = NumberFormat::kByte;
  piece.rows = piece.row_end = 1;
  piece.cols = piece.col_end = piece.end = data.bytes;
  piece.data = data;
  return piece;
}

// Scalars that outlast a step, found by the ops that change them.
std::vector<StatePiece> ScalarsOf(const Program& program, const RankProgram& rank) {
  std::vector<StatePiece> scalars;
  std::set<std::string> found;
  const auto add = [&](const char* name, OpRef ref, int operand) {
    if (!found.insert(name).second) return;
    scalars.push_back(
        BytesOf(StateKind::kScalar, name, OperandBinding(program, rank, ref, operand)));
  };
  for (std::size_t i = 0; i < rank.step.size(); ++i) {
    const Block& block = program.blocks[static_cast<std::size_t>(rank.step[i].block)];
    for (std::size_t o = 0; o < block.ops.size(); ++o) {
      const OpRef ref{static_cast<std::int32_t>(i), static_cast<std::int32_t>(o)};
      if (block.ops[o].kind == OpKind::kScaleLoss) {
        add("loss_scale", ref, 1);
        add("loss_scale.good_steps", ref, 2);
      } else if (block.ops[o].kind == OpKind::kCountSkipped) {
        add("skipped_steps", ref, 1);
      }
    }
  }
  return scalars;
}

// Buckets of which another rank's copy has other bits: amended updates round the tied token tables
// of two stages differently (post_validation.h).
std::set<std::int32_t> OwnCopies(const Program& program, const RankProgram& rank) {
  std::set<std::int32_t> buckets;
  if (!program.plan.post_validation || !program.model.tied_embeddings) return buckets;
  for (const ParameterPlace& place : rank.parameters) {
    if (place.name == kTokenTableName) buckets.insert(place.bucket);
  }
  return buckets;
}

// Buffers whose contents the pieces so far do not hold: state of this rank alone. A delayed update
// also keeps its gradients, and parameters that are older than their masters.
void AddBuffersOfRank(const Program& program, const RankProgram& rank,
                      std::vector<StatePiece>& pieces) {
  std::set<std::int32_t> known;
  for (const StatePiece& piece : pieces) {
    if (piece.kind == StateKind::kScalar) known.insert(piece.data.buffer);
  }
  const bool delayed = program.plan.delayed_update;
  const std::set<std::int32_t> own = OwnCopies(program, rank);
  for (std::size_t i = 0; i < rank.buckets.size(); ++i) {
    const Bucket& bucket = rank.buckets[i];
    if (!delayed) known.insert(bucket.gradients);
    if (own.contains(static_cast<std::int32_t>(i))) continue;
    if (!delayed || bucket.master < 0) known.insert(bucket.parameters);
    known.insert({bucket.master, bucket.average, bucket.moment1, bucket.moment2, bucket.absmax1,
                  bucket.absmax2});
  }
  for (std::size_t i = 0; i < rank.buffers.size(); ++i) {
    const Buffer& buffer = rank.buffers[i];
    const auto number = static_cast<std::int32_t>(i);
    if (!buffer.persistent || buffer.holds != Holds::kState || known.contains(number)) continue;
    pieces.push_back(BytesOf(
        StateKind::kRank, "rank " + std::to_string(rank.rank) + " buffer " + std::to_string(number),
        {number, 0, buffer.bytes}));
  }
}

// Tells pieces apart: kind, name, first row and column of the part, elements.
using PieceKey =
    std::tuple<StateKind, std::string, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
PieceKey KeyOf(const StatePiece& piece) {
  return {piece.kind, piece.name, piece.row_begin, piece.col_begin, piece.first, piece.end};
}

}  // namespace

std::string_view Name(StateKind kind) { return NameIn(kNames, kind); }

std::vector<StatePiece> StateOf(const Program& program, const RankProgram& rank) {
  std::vector<StatePiece> pieces;
  std::vector<std::vector<BucketBuffer>> buffers;
  for (const Bucket& bucket : rank.buckets) buffers.push_back(BuffersOf(rank, bucket));
  for (const ParameterPlace& place : rank.parameters) {
    const auto bucket = static_cast<std::size_t>(place.bucket);
    if (IsLeftOut(place, rank.buckets[bucket])) continue;
    for (const BucketBuffer& buffer : buffers[bucket]) {
      StatePiece piece = PieceOf(place, buffer);
      if (piece.elements() > 0) pieces.push_back(std::move(piece));
    }
  }
  AddFactors(rank, pieces);
  for (StatePiece& scalar : ScalarsOf(program, rank)) pieces.push_back(std::move(scalar));
  AddBuffersOfRank(program, rank, pieces);
  return pieces;
}

// Ranks that hold a part divide it into the same pieces, so pieces overlap only if they are equal.
// Pieces that a single rank holds are dealt first: they leave no choice.
std::vector<std::vector<StatePiece>> SavedPieces(const Program& program) {
  struct Holder {
    std::size_t rank = 0;
    StatePiece piece;
  };
  std::map<PieceKey, std::vector<Holder>> holders;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    for (StatePiece& piece : StateOf(program, program.ranks[r])) {
      if (piece.derived) continue;
      std::vector<Holder>& all = holders[KeyOf(piece)];
      all.push_back({r, std::move(piece)});
    }
  }
  std::vector<std::vector<StatePiece>> saved(program.ranks.size());
  std::vector<std::int64_t> bytes(program.ranks.size());
  const auto deal = [&](Holder& holder) {
    bytes[holder.rank] += holder.piece.bytes();
    saved[holder.rank].push_back(std::move(holder.piece));
  };
  for (auto& [key, all] : holders) {
    if (all.size() == 1) deal(all.front());
  }
  for (auto& [key, all] : holders) {
    if (all.size() == 1) continue;
    deal(*std::min_element(all.begin(), all.end(), [&](const Holder& a, const Holder& b) {
      return bytes[a.rank] < bytes[b.rank];
    }));
  }
  return saved;
}

}  // namespace foretrain
