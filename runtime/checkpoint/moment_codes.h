// 8-bit moments of one buffer, put together from numbers that lay in other blocks or formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/program/ir/number_format.h"
#include "sim/program/state/state_pieces.h"

namespace foretrain {

// Codes of 8-bit moments as a checkpoint has them: the scales are those of all blocks of
// kScaleBlock codes that the codes touch, of which the first begins `skip` codes earlier.
struct SavedCodes {
  const std::byte* codes = nullptr;
  const std::byte* scales = nullptr;
  std::int64_t skip = 0;
};

// Values of codes [first, first + values.size()). moment: kMoment1 or kMoment2, whose codes are of
// the square root.
void DecodeMoments(StateKind moment, const SavedCodes& from, std::int64_t first,
                   std::span<float> values);

// A block keeps its codes if all of them came with one scale, so that equal blocks keep their bits.
// Else it is quantized again, as an update does. Takes 5 bytes an element.
class MomentCodes {
 public:
  //   elements  codes of the buffer
  MomentCodes(StateKind moment, std::int64_t elements);

  // Puts codes [first, first + count) of `from` to element `at` and after it.
  void TakeCodes(std::int64_t at, const SavedCodes& from, std::int64_t first, std::int64_t count);
  // The same with numbers of a format of floats.
  void TakeNumbers(std::int64_t at, NumberFormat format, const std::byte* numbers,
                   std::int64_t count);

  // Writes codes and scales of all blocks that got numbers. Numbers of such a block that never came
  // count as 0.
  void Store(std::byte* codes, std::byte* scales) const;

 private:
  enum class Filled : std::uint8_t { kNot, kByCodes, kByValues };
  struct Block {
    Filled filled = Filled::kNot;
    float scale = 0;  // of all its codes; kByCodes only
  };

  StateKind moment_;
  std::vector<float> values_;
  std::vector<std::uint8_t> codes_;  // of blocks that are kByCodes
  std::vector<Block> blocks_;
};

}  // namespace foretrain
