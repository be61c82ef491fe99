// Philox4x32-10 (Salmon et al. 2011) in kernels, and the dropout factors drawn from it:
// FtRandomMask.
#pragma once

#include "kernels/cuda/own/kernel.cuh"

namespace foretrain {

struct PhiloxBlock {
  std::uint32_t word[4];
};

// Ten rounds of multiply, swap and xor with a key that grows by fixed constants.
FT_DEVICE PhiloxBlock PhiloxOf(PhiloxBlock counter, std::uint64_t key) {
  std::uint32_t key0 = static_cast<std::uint32_t>(key),
                key1 = static_cast<std::uint32_t>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * counter.word[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * counter.word[2];
    counter = {{static_cast<std::uint32_t>(b >> 32) ^ counter.word[1] ^ key0,
                static_cast<std::uint32_t>(b),
                static_cast<std::uint32_t>(a >> 32) ^ counter.word[3] ^ key1,
                static_cast<std::uint32_t>(a)}};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return counter;
}

// A mask, with the values that the host can compute in advance.
struct KeepRule {
  std::uint64_t key;
  std::uint32_t first_sample, first_head;
  std::uint32_t dropped;  // words below it are dropped
  float kept;             // 1 / (1 - probability)

  // Factors of columns [column, column + 4); column must be a multiple of 4.
  FT_DEVICE void Factors(std::int64_t sample, std::int64_t head, std::int64_t position,
                         std::int64_t column, float (&factors)[4]) const {
    const PhiloxBlock words =
        PhiloxOf({{static_cast<std::uint32_t>(column / 4), static_cast<std::uint32_t>(position),
                   first_sample + static_cast<std::uint32_t>(sample),
                   first_head + static_cast<std::uint32_t>(head)}},
                 key);
#pragma unroll
    for (int i = 0; i < 4; ++i) factors[i] = words.word[i] >= dropped ? kept : 0.0F;
  }
  // Factor of one column. Costs a whole Philox block.
  FT_DEVICE float Factor(std::int64_t sample, std::int64_t head, std::int64_t position,
                         std::int64_t column) const {
    float factors[4];
    Factors(sample, head, position, column, factors);
    const int i = static_cast<int>(column & 3);
    return i == 0 ? factors[0] : i == 1 ? factors[1] : i == 2 ? factors[2] : factors[3];
  }
};

inline KeepRule KeepRuleOf(const FtRandomMask& mask) {
  constexpr double kWords = 4294967296.0;
  return {mask.key, static_cast<std::uint32_t>(mask.first_sample),
          static_cast<std::uint32_t>(mask.first_head),
          static_cast<std::uint32_t>(static_cast<double>(mask.probability) * kWords),
          1.0F / (1.0F - mask.probability)};
}

}  // namespace foretrain
