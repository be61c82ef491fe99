#include "runtime/data/permutation.h"

#include "base/numeric/random.h"
#include "base/result.h"

namespace foretrain {
namespace {

// With fewer bits a half, the network reaches too few of the permutations of a small set.
constexpr int kMinHalfBits = 3;

// The finalizer of splitmix64 (Steele, Lea, Flood 2014): each bit depends on all.
std::uint64_t Mix(std::uint64_t word) {
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9U;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebU;
  return word ^ (word >> 31);
}

}  // namespace

Permutation::Permutation(std::int64_t n, std::uint64_t seed, std::uint64_t stream)
    : n_(static_cast<std::uint64_t>(n)), half_bits_(kMinHalfBits) {
  FT_CHECK(n >= 1 && n <= std::int64_t{1} << 60);
  while (std::uint64_t{1} << (2 * half_bits_) < n_) ++half_bits_;
  const CounterRandom random(seed, stream);
  for (std::size_t round = 0; round < keys_.size(); ++round) keys_[round] = random.Bits(round);
}

// Each round can be undone whatever Mix gives, so that a pass is one to one.
std::uint64_t Permutation::Pass(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_, right = value & mask;
  for (const std::uint64_t key : keys_) {
    const std::uint64_t next = left ^ (Mix(right + key) >> (64 - half_bits_));
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

// Ends because a pass permutes: the cycle of `i` returns to `i`, which is below n.
std::int64_t Permutation::At(std::int64_t i) const {
  auto value = static_cast<std::uint64_t>(i);
  do value = Pass(value);
  while (value >= n_);
  return static_cast<std::int64_t>(value);
}

}  // namespace foretrain
