// Counter-based random numbers: each value is a function of (seed, stream, index) only. A tensor
// gets the same weights whatever the plan, the shard or the order in which it is filled. Not for
// secrets.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace foretrain {

// One block of Philox4x32-10 [1]: four words from a 128-bit counter and a 64-bit key. Passes
// BigCrush; about 10 ns.
//
// [1] Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"
std::array<std::uint32_t, 4> Philox(const std::array<std::uint32_t, 4>& counter,
                                    const std::array<std::uint32_t, 2>& key);

// The values of one stream, by index. It uses only integer and IEEE double arithmetic and no math
// library, so the bits are the same on every machine. Safe from any thread.
class CounterRandom {
 public:
  // `seed` is the run's; `stream` separates its uses, e.g. a tensor or the order of an epoch.
  CounterRandom(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}
  // The stream is HashText(name).
  CounterRandom(std::uint64_t seed, std::string_view name);

  // 64 uniform random bits.
  std::uint64_t Bits(std::uint64_t index) const;

  // Uniform in [0, n), n > 0; the bias is at most n / 2^64.
  std::uint64_t Below(std::uint64_t index, std::uint64_t n) const;

  // out[i] = mean + stddev * (normal value number first_index + i). Box-Muller [2] on 32-bit
  // uniforms, so no value lies beyond 6.7 standard deviations; rounded once, from double. A range
  // may be filled in any pieces: each element depends on its index alone. `first_index` is below
  // 2^62. About 15 ns an element.
  //
  // [2] Box, Muller 1958
  void FillNormal(std::uint64_t first_index, float mean, float stddev, std::span<float> out) const;

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
};

}  // namespace foretrain
