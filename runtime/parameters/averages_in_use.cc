#include "runtime/parameters/averages_in_use.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>

#include "runtime/parameters/tensors.h"
#include "sim/program/state/state_pieces.h"

namespace foretrain {
namespace {

using WholeTensors = std::map<std::string, std::vector<float>>;

// Copies a piece, which was read into `numbers`, to its rows and columns of the whole tensor.
void Place(const StatePiece& piece, std::span<const float> numbers, std::vector<float>& tensor) {
  tensor.resize(static_cast<std::size_t>(piece.rows * piece.cols));
  const std::int64_t width = piece.col_end - piece.col_begin;
  for (std::int64_t at = piece.first; at < piece.end;) {
    const std::int64_t col = at % width;
    const std::int64_t count = std::min(width - col, piece.end - at);
    const std::int64_t to = (piece.row_begin + at / width) * piece.cols + piece.col_begin + col;
    std::copy_n(numbers.begin() + (at - piece.first), count, tensor.begin() + to);
    at += count;
  }
}

Result<WholeTensors> AveragesOf(Executor& training) {
  WholeTensors tensors;
  std::vector<float> numbers;
  for (int r = 0; r < training.ranks(); ++r) {
    for (const StatePiece& piece : StateOf(training.program(), training.Rank(r))) {
      if (piece.kind != StateKind::kAverage) continue;
      numbers.resize(static_cast<std::size_t>(piece.elements()));
      FT_TRY(training.Arena(r).ReadState(piece.data, numbers.data()));
      Place(piece, numbers, tensors[piece.name]);
    }
  }
  return tensors;
}

}  // namespace

Result<AveragesInUse> AveragesInUse::Make(Executor& training) {
  AveragesInUse in_use(training);
  FT_ASSIGN(const WholeTensors averages, AveragesOf(training));
  for (int r = 0; r < training.ranks(); ++r) {
    for (const Bucket& bucket : training.Rank(r).buckets) {
      if (bucket.frozen) continue;
      FT_TRY(in_use.Keep(r, bucket.parameters));
      if (bucket.master >= 0) FT_TRY(in_use.Keep(r, bucket.master));
    }
  }
  const auto source = [&](const ParameterPlace& place, std::int64_t row, std::int64_t col,
                          std::span<float> out) -> Result<void> {
    const std::vector<float>& tensor = averages.at(place.name);
    std::copy_n(tensor.begin() + row * place.cols + col, out.size(), out.begin());
    return {};
  };
  FT_TRY(FillTrainedParameters(training, source));
  return in_use;
}

Result<void> AveragesInUse::Keep(int place, std::int32_t buffer) {
  RankArena& arena = training_->Arena(place);
  Kept kept{place, {buffer, 0, arena.BufferBytes(buffer)}, {}};
  kept.bytes.resize(static_cast<std::size_t>(kept.buffer.bytes));
  FT_TRY(arena.ReadState(kept.buffer, kept.bytes.data()));
  kept_.push_back(std::move(kept));
  return {};
}

Result<void> AveragesInUse::Restore() {
  for (const Kept& kept : kept_) {
    FT_TRY(training_->Arena(kept.place).WriteState(kept.buffer, kept.bytes.data()));
  }
  kept_.clear();
  return {};
}

}  // namespace foretrain
