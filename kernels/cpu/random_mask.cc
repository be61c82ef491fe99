#include "kernels/cpu/random_mask.h"

#include <array>

#include "base/numeric/random.h"

namespace foretrain {

// One Philox block serves four neighbouring columns, so a new block is drawn only at multiples of
// four. The threshold is compared as an integer, exactly as on other devices.
void KeepFactors(const FtRandomMask& mask, int64_t sample, int64_t head, int64_t position,
                 int64_t first_column, int64_t columns, float* factors) {
  constexpr double kWords = 4294967296.0;
  constexpr int64_t kBlock = 4;
  const auto word = [](int64_t value) { return static_cast<std::uint32_t>(value); };
  const auto dropped = static_cast<std::uint32_t>(static_cast<double>(mask.probability) * kWords);
  const float kept = 1.0F / (1.0F - mask.probability);
  const std::array<std::uint32_t, 2> key = {static_cast<std::uint32_t>(mask.key),
                                            static_cast<std::uint32_t>(mask.key >> 32)};
  std::array<std::uint32_t, 4> words{};
  for (int64_t i = 0; i < columns; ++i) {
    const int64_t column = first_column + i;
    if (i == 0 || column % kBlock == 0) {
      words = Philox({word(column / kBlock), word(position), word(mask.first_sample + sample),
                      word(mask.first_head + head)},
                     key);
    }
    factors[i] = words[static_cast<std::size_t>(column % kBlock)] >= dropped ? kept : 0.0F;
  }
}

}  // namespace foretrain
