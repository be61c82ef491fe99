#include "runtime/checkpoint/state_loader.h"

#include <algorithm>
#include <set>

#include "runtime/checkpoint/stored_numbers.h"

namespace foretrain {
namespace {

// Elements of a part stored row by row, or of a piece of it.
struct Range {
  std::int64_t first = 0;
  std::int64_t end = 0;
};

// The piece's elements of columns [col_begin, col_end) of `row`, both counted in the whole tensor.
Range ElementsOf(const StatePiece& piece, std::int64_t row, std::int64_t col_begin,
                 std::int64_t col_end) {
  const std::int64_t start =
      (row - piece.row_begin) * (piece.col_end - piece.col_begin) - piece.col_begin;
  return {std::max(piece.first, start + col_begin), std::min(piece.end, start + col_end)};
}

std::int64_t BytesBefore(NumberFormat format, std::int64_t elements) {
  return elements * LayoutOf(format).bits / 8;
}

bool IsNumber(NumberFormat format) { return IsFloat(format) || format == NumberFormat::kInt8; }

}  // namespace

StateLoader::StateLoader(const Program& program, const RankProgram& rank, RankArena& arena,
                         bool same_program)
    : arena_(arena), same_program_(same_program) {
  std::vector<StatePiece> pieces = StateOf(program, rank);
  if (same_program) {
    // Whole buffers come back as they were, so pieces of tensors in them are not needed.
    std::set<std::int32_t> whole;
    for (const StatePiece& piece : pieces) {
      if (piece.kind == StateKind::kRank) whole.insert(piece.data.buffer);
    }
    std::erase_if(pieces, [&](const StatePiece& piece) {
      return piece.kind != StateKind::kRank && whole.contains(piece.data.buffer);
    });
  }
  for (StatePiece& piece : pieces) {
    const std::pair key(piece.kind, piece.name);
    targets_[key].push_back({std::move(piece)});
  }
}

Result<void> StateLoader::Take(const SavedPiece& saved, std::span<const std::byte> bytes) {
  const StateKind kind = saved.piece.kind;
  if (kind == StateKind::kRank && !same_program_) return {};
  const auto found = targets_.find({kind, saved.piece.name});
  if (found == targets_.end()) return {};
  for (Target& target : found->second) FT_TRY(Fill(target, saved, bytes));
  return {};
}

// Rows and columns that both have, row by row: a row of each is contiguous, cut where the piece or
// the target begins or ends within it.
Result<void> StateLoader::Fill(Target& target, const SavedPiece& saved,
                               std::span<const std::byte> bytes) {
  const StatePiece& from = saved.piece;
  const StatePiece& to = target.piece;
  const std::int64_t row_end = std::min(from.row_end, to.row_end);
  const std::int64_t col_begin = std::max(from.col_begin, to.col_begin);
  const std::int64_t col_end = std::min(from.col_end, to.col_end);
  if (col_begin >= col_end) return {};
  if (from.format != to.format && !(IsNumber(from.format) && IsNumber(to.format))) {
    return Fail(ErrorCode::kUnsupported, std::string(Name(from.kind)) + " of " + from.name +
                                             " is " + std::string(Name(from.format)) +
                                             ", this plan's is " + std::string(Name(to.format)));
  }
  const std::int64_t from_width = from.col_end - from.col_begin;
  const std::int64_t to_width = to.col_end - to.col_begin;
  for (std::int64_t row = std::max(from.row_begin, to.row_begin); row < row_end; ++row) {
    const Range source = ElementsOf(from, row, col_begin, col_end);
    const Range wanted = ElementsOf(to, row, col_begin, col_end);
    // From elements of the source's part to those of the target's.
    const std::int64_t shift = (row - to.row_begin) * to_width - to.col_begin -
                               ((row - from.row_begin) * from_width - from.col_begin);
    const std::int64_t first = std::max(source.first, wanted.first - shift);
    const std::int64_t end = std::min(source.end, wanted.end - shift);
    if (first >= end) continue;
    FT_TRY(Copy(to, saved, bytes, {first - from.first, first + shift - to.first, end - first}));
    target.filled += end - first;
  }
  return {};
}

Result<void> StateLoader::Copy(const StatePiece& to, const SavedPiece& saved,
                               std::span<const std::byte> bytes, const Run& run) {
  const StatePiece& from = saved.piece;
  const std::byte* const numbers = bytes.data() + BytesBefore(from.format, run.from);
  const SavedCodes codes{bytes.data(), bytes.data() + saved.data_bytes, from.scale_skip};
  if (to.format == NumberFormat::kInt8) {
    MomentCodes& in = CodesOf(to);
    const std::int64_t at = to.data.offset + run.to;
    if (from.format == NumberFormat::kInt8) {
      in.TakeCodes(at, codes, run.from, run.count);
    } else {
      in.TakeNumbers(at, from.format, numbers, run.count);
    }
    return {};
  }
  FT_ASSIGN(std::byte* const base, HostCopy(to.data.buffer));
  std::byte* const here = base + to.data.offset + BytesBefore(to.format, run.to);
  if (from.format != NumberFormat::kInt8) {
    CopyNumbers(from.format, numbers, to.format, here, run.count);
    return {};
  }
  std::vector<float> values(static_cast<std::size_t>(run.count));
  DecodeMoments(from.kind, codes, run.from, values);
  CopyNumbers(NumberFormat::kFp32, reinterpret_cast<const std::byte*>(values.data()), to.format,
              here, run.count);
  return {};
}

MomentCodes& StateLoader::CodesOf(const StatePiece& to) {
  const auto at = codes_.find(to.data.buffer);
  if (at != codes_.end()) return at->second.codes;
  const std::int64_t elements = arena_.BufferBytes(to.data.buffer);
  return codes_.emplace(to.data.buffer, Codes{to.scales.buffer, MomentCodes(to.kind, elements)})
      .first->second.codes;
}

Result<std::byte*> StateLoader::HostCopy(std::int32_t buffer) {
  if (std::byte* const own = arena_.HostAt(buffer)) return own;
  const auto [at, is_new] = copies_.try_emplace(buffer);
  if (is_new) {
    const std::int64_t bytes = arena_.BufferBytes(buffer);
    at->second.resize(static_cast<std::size_t>(bytes));
    FT_TRY(arena_.ReadState({buffer, 0, bytes}, at->second.data()));
  }
  return at->second.data();
}

Result<void> StateLoader::Finish() {
  for (const auto& [key, targets] : targets_) {
    const bool optional =
        key.first == StateKind::kScalar || (key.first == StateKind::kRank && !same_program_);
    for (const Target& target : targets) {
      if (target.filled == target.piece.elements() || (optional && target.filled == 0)) continue;
      return Fail(ErrorCode::kInvalidArgument,
                  "the checkpoint has " + std::to_string(target.filled) + " of " +
                      std::to_string(target.piece.elements()) +
                      " numbers that a rank needs of the " + std::string(Name(key.first)) + " of " +
                      key.second);
    }
  }
  for (const auto& [buffer, taken] : codes_) {
    FT_ASSIGN(std::byte* const codes, HostCopy(buffer));
    FT_ASSIGN(std::byte* const scales, HostCopy(taken.scales));
    taken.codes.Store(codes, scales);
  }
  codes_.clear();
  for (const auto& [buffer, bytes] : copies_) {
    FT_TRY(arena_.WriteState({buffer, 0, static_cast<std::int64_t>(bytes.size())}, bytes.data()));
  }
  copies_.clear();
  return {};
}

}  // namespace foretrain
