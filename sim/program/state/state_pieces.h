// The training state in a rank's buffers, as pieces of whole tensors that do not depend on the
// plan. A checkpoint saves them (runtime/checkpoint), and its forecast counts their bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/program/ir/program.h"

namespace foretrain {

//   kWeight   a parameter, from its fp32 master if there is one
//   kMoment1  first moment of AdamW; Adafactor: of the rows of a matrix
//   kMoment2  second moment; Adafactor: of the columns of a matrix, or of a vector
//   kAverage  moving average of a parameter
//   kScalar   a number that all ranks hold alike, such as the loss scale
//   kRank     a buffer that means something to this rank of this program only
enum class StateKind : std::uint8_t { kWeight, kMoment1, kMoment2, kAverage, kScalar, kRank };
inline constexpr int kStateKindCount = 6;
std::string_view Name(StateKind kind);  // "weight", ...

// A piece of a tensor in a buffer. It belongs to the part [row_begin, row_end) x [col_begin,
// col_end) of a tensor of rows x cols, stored row by row, and consists of the part's elements
// [first, end). ZeRO cuts parts anywhere.
struct StatePiece {
  StateKind kind = StateKind::kWeight;
  std::string name;  // "layers.3.attention.qkv.weight"; kRank: "rank 2 buffer 17"
  NumberFormat format = NumberFormat::kFp32;  // kScalar, kRank: kByte, and elements are bytes
  std::int64_t rows = 0;                      // of the whole tensor
  std::int64_t cols = 0;
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
  std::int64_t col_begin = 0;
  std::int64_t col_end = 0;
  std::int64_t first = 0;
  std::int64_t end = 0;
  Binding data;    // its numbers; 8-bit moments: their codes
  Binding scales;  // 8-bit moments: the scales of all blocks of kScaleBlock codes that it touches
  // 8-bit moments: codes of the first block before the piece, which belong to other tensors.
  std::int64_t scale_skip = 0;
  bool derived = false;  // a parameter that has a master: loaded, but not saved

  std::int64_t elements() const { return end - first; }
  std::int64_t bytes() const { return data.bytes + scales.bytes; }
};

// Every place in the rank's buffers where the state belongs: parameters and their masters, both of
// kind kWeight, moments, scalars, and buffers of the rank. Leaves out gradients, which are zero
// between steps, and frozen parameters except routers' biases: a resumed run takes them from where
// the first run did.
std::vector<StatePiece> StateOf(const Program& program, const RankProgram& rank);

// For each rank of the program, the pieces that it saves: together the whole state, each element
// once. Of ranks that hold the same piece, the one with the fewest bytes so far saves it. O(pieces
// of all ranks).
std::vector<std::vector<StatePiece>> SavedPieces(const Program& program);

}  // namespace foretrain
