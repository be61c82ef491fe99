#include "base/numeric/random.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/hash.h"

namespace foretrain {
namespace {

using Words = std::array<std::uint32_t, 4>;

struct Product {
  std::uint32_t high;
  std::uint32_t low;
};

Product Multiply(std::uint32_t a, std::uint32_t b) {
  const std::uint64_t product = std::uint64_t{a} * b;
  return {static_cast<std::uint32_t>(product >> 32), static_cast<std::uint32_t>(product)};
}

std::uint32_t High(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }
std::uint32_t Low(std::uint64_t word) { return static_cast<std::uint32_t>(word); }

// c[0] + c[1] x + c[2] x^2 + ..., by Horner's rule.
template <std::size_t N>
double Polynomial(const std::array<double, N>& c, double x) {
  double sum = c[N - 1];
  for (std::size_t i = N - 1; i-- > 0;) sum = sum * x + c[i];
  return sum;
}

// artanh(z) / z in z^2: 1, 1/3, 1/5, ...
constexpr std::array<double, 10> kArtanh = [] {
  std::array<double, 10> c{};
  for (std::size_t i = 0; i < c.size(); ++i) c[i] = 1.0 / static_cast<double>(2 * i + 1);
  return c;
}();

// The Taylor series in x^2 of sin(x) / x (odd = 1) or cos(x) (odd = 0).
constexpr std::array<double, 9> Taylor(int odd) {
  std::array<double, 9> c{};
  double factorial = 1;  // exact up to 18!, so every coefficient is rounded once
  for (int i = 0; i < 9; ++i) {
    const int n = 2 * i + odd;
    if (n > 1) factorial *= n * (n - 1);
    c[static_cast<std::size_t>(i)] = (i % 2 == 0 ? 1 : -1) / factorial;
  }
  return c;
}
constexpr std::array<double, 9> kSine = Taylor(1);
constexpr std::array<double, 9> kCosine = Taylor(0);

// ln(x) for x in (0, 1]: x = m * 2^e with m in [1/sqrt2, sqrt2), ln m = 2 artanh((m-1)/(m+1)). The
// series has an argument of at most 0.1716, so the first omitted term is below 3e-17.
double Ln(double x) {
  constexpr double kSqrt2 = 1.41421356237309504880;
  constexpr double kLn2 = 0.69314718055994530942;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  double m = std::bit_cast<double>((bits & 0x000fffffffffffffU) | 0x3ff0000000000000U);
  double exponent = static_cast<double>(static_cast<int>(bits >> 52) - 1023);
  const bool large = m > kSqrt2;
  m = large ? m * 0.5 : m;
  exponent = large ? exponent + 1 : exponent;
  const double z = (m - 1) / (m + 1);
  return 2 * z * Polynomial(kArtanh, z * z) + exponent * kLn2;
}

struct SineCosine {
  double sine;
  double cosine;
};

// sin and cos of 2 pi `turn` for turn in [0, 1). Subtracting the nearest quarter turn leaves at
// most pi/4; the first omitted terms of the two series are below 3e-18.
SineCosine OfTurn(double turn) {
  constexpr double kTwoPi = 6.28318530717958647692;
  // NOLINTNEXTLINE(bugprone-incorrect-roundings): either quarter will do at a tie
  const int quarter = static_cast<int>(turn * 4 + 0.5);
  const double x = (turn - 0.25 * quarter) * kTwoPi;
  const double sine = x * Polynomial(kSine, x * x);
  const double cosine = Polynomial(kCosine, x * x);
  switch (quarter & 3) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

// Two independent normal values. The first word maps to (0, 1], where the logarithm is finite.
void BoxMuller(std::uint32_t first, std::uint32_t second, double* out) {
  constexpr double kScale = 1.0 / 4294967296.0;
  const double radius = std::sqrt(-2 * Ln((first + 1.0) * kScale));  // IEEE: correctly rounded
  const SineCosine angle = OfTurn(second * kScale);
  out[0] = radius * angle.cosine;
  out[1] = radius * angle.sine;
}

// Counter = (block, stream), key = seed: streams with different names never share a block.
Words Block(std::uint64_t seed, std::uint64_t stream, std::uint64_t block) {
  return Philox({Low(block), High(block), Low(stream), High(stream)}, {Low(seed), High(seed)});
}

}  // namespace

// Ten rounds with the multipliers and key increments of the paper; counter and key are words of 32
// bits.
std::array<std::uint32_t, 4> Philox(const std::array<std::uint32_t, 4>& counter,
                                    const std::array<std::uint32_t, 2>& key) {
  Words c = counter;
  std::array<std::uint32_t, 2> k = key;
  for (int round = 0; round < 10; ++round) {
    const Product a = Multiply(0xd2511f53U, c[0]);
    const Product b = Multiply(0xcd9e8d57U, c[2]);
    c = {b.high ^ c[1] ^ k[0], b.low, a.high ^ c[3] ^ k[1], a.low};
    k[0] += 0x9e3779b9U;
    k[1] += 0xbb67ae85U;
  }
  return c;
}

CounterRandom::CounterRandom(std::uint64_t seed, std::string_view name)
    : CounterRandom(seed, HashText(name)) {}

// One Philox block holds two 64-bit values, the even index in its first half.
std::uint64_t CounterRandom::Bits(std::uint64_t index) const {
  const Words words = Block(seed_, stream_, index / 2);
  const std::size_t half = 2 * (index % 2);
  return std::uint64_t{words[half + 1]} << 32 | words[half];
}

// Multiply-and-shift maps 64 random bits to [0, n) without a loop: each index takes one draw, so
// values stay a function of the index alone.
std::uint64_t CounterRandom::Below(std::uint64_t index, std::uint64_t n) const {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(Bits(index)) * n) >> 64);
}

// One Philox block gives four normal values. A range that starts or ends inside a block computes
// the whole block and keeps its part, so the split into ranges does not change a value.
void CounterRandom::FillNormal(std::uint64_t first_index, float mean, float stddev,
                               std::span<float> out) const {
  const double m = mean, s = stddev;
  std::uint64_t index = first_index;
  for (std::size_t done = 0; done < out.size();) {
    const Words words = Block(seed_, stream_, index / 4);
    double values[4];
    BoxMuller(words[0], words[1], values);
    BoxMuller(words[2], words[3], values + 2);
    const std::size_t skip = index % 4;
    const std::size_t take = std::min(4 - skip, out.size() - done);
    for (std::size_t i = 0; i < take; ++i) {
      out[done + i] = static_cast<float>(m + s * values[skip + i]);
    }
    done += take;
    index += take;
  }
}

}  // namespace foretrain
