#include "base/io/sha256.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstring>

namespace foretrain {
namespace {

// FIPS 180-4, section 4.2.2: the fractional parts of the cube roots of the first 64 primes.
alignas(16) constexpr std::array<std::uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t LoadBigEndian(const unsigned char* from) {
  return std::uint32_t{from[0]} << 24 | std::uint32_t{from[1]} << 16 | std::uint32_t{from[2]} << 8 |
         std::uint32_t{from[3]};
}

// The key as one block: a longer key is replaced by its digest (RFC 2104, section 2).
std::string BlockOfKey(std::string_view key, unsigned char pad) {
  std::string block(key.size() > 64 ? Sha256().Add(key).Finish() : std::string(key));
  block.resize(64, '\0');
  for (char& byte : block) byte = static_cast<char>(static_cast<unsigned char>(byte) ^ pad);
  return block;
}

// FIPS 180-4, section 6.2.2.
void BlockByWords(std::array<std::uint32_t, 8>& state, const unsigned char* block) {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t t = 0; t < 16; ++t) w[t] = LoadBigEndian(block + 4 * t);
  for (std::size_t t = 16; t < 64; ++t) {
    const std::uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
    const std::uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t t = 0; t < 64; ++t) {
    const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[t] + w[t];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const std::array<std::uint32_t, 8> change = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state[i] += change[i];
}

#if defined(__x86_64__)
// The same by the SHA extensions [Intel SDM, SHA256RNDS2]: an instruction does two rounds on the
// state in two registers, {A, B, E, F} and {C, D, G, H}. Seven times as fast: `--check-transfers
// hmac` hashes all tensors.
__attribute__((target("sha,sse4.1,ssse3"))) void BlockByInstruction(
    std::array<std::uint32_t, 8>& state, const unsigned char* block) {
  const auto in = [&](std::size_t i) { return static_cast<int>(state[i]); };
  const __m128i abef_before = _mm_set_epi32(in(0), in(1), in(4), in(5));
  const __m128i cdgh_before = _mm_set_epi32(in(2), in(3), in(6), in(7));
  const __m128i big_endian = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
  __m128i abef = abef_before, cdgh = cdgh_before;
  __m128i w[4];  // the newest 16 words
  for (std::size_t i = 0; i < 16; ++i) {
    const std::size_t now = i % 4, next = (i + 1) % 4, last = (i + 3) % 4;
    if (i < 4) {
      const auto* const from = reinterpret_cast<const __m128i*>(block + 16 * i);
      w[now] = _mm_shuffle_epi8(_mm_loadu_si128(from), big_endian);
    } else {
      const __m128i w_t_7 = _mm_alignr_epi8(w[last], w[(i + 2) % 4], 4);
      const __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w[now], w[next]), w_t_7);
      w[now] = _mm_sha256msg2_epu32(sum, w[last]);
    }
    const auto* const round = reinterpret_cast<const __m128i*>(kRound.data() + 4 * i);
    const __m128i k = _mm_add_epi32(w[now], _mm_load_si128(round));
    // After two rounds the old {A, B, E, F} are the new {C, D, G, H}.
    const __m128i abef_half = _mm_sha256rnds2_epu32(cdgh, abef, k);
    abef = _mm_sha256rnds2_epu32(abef, abef_half, _mm_shuffle_epi32(k, 0x0e));
    cdgh = abef_half;
  }
  abef = _mm_add_epi32(abef, abef_before);
  cdgh = _mm_add_epi32(cdgh, cdgh_before);
  const auto out = [](int value) { return static_cast<std::uint32_t>(value); };
  state = {out(_mm_extract_epi32(abef, 3)), out(_mm_extract_epi32(abef, 2)),
           out(_mm_extract_epi32(cdgh, 3)), out(_mm_extract_epi32(cdgh, 2)),
           out(_mm_extract_epi32(abef, 1)), out(_mm_extract_epi32(abef, 0)),
           out(_mm_extract_epi32(cdgh, 1)), out(_mm_extract_epi32(cdgh, 0))};
}

// CPUID leaf 7: bit 29 of EBX. CPUs that have it also have SSE 4.1.
bool HasInstruction() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1) != 0;
}
#endif

}  // namespace

Sha256::Sha256([[maybe_unused]] bool portable) : block_of_(&BlockByWords) {
#if defined(__x86_64__)
  static const bool has = HasInstruction();
  if (has && !portable) block_of_ = &BlockByInstruction;
#endif
}

Sha256& Sha256::Add(std::string_view bytes) {
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    // Whole blocks are hashed where they lie.
    if (filled_ == 0 && bytes.size() >= block_.size()) {
      Block(reinterpret_cast<const unsigned char*>(bytes.data()));
      bytes.remove_prefix(block_.size());
      continue;
    }
    const std::size_t part = std::min(bytes.size(), block_.size() - filled_);
    std::memcpy(block_.data() + filled_, bytes.data(), part);
    bytes.remove_prefix(part);
    filled_ += part;
    if (filled_ < block_.size()) continue;
    Block(block_.data());
    filled_ = 0;
  }
  return *this;
}

// Padding of FIPS 180-4, section 5.1.1: a one bit, zeros, and the number of bits in 8 bytes.
std::string Sha256::Finish() {
  const std::uint64_t bits = 8 * bytes_;
  std::string padding(1, '\x80');
  padding.resize(1 + (119 - bytes_ % 64) % 64, '\0');
  for (int byte = 7; byte >= 0; --byte) padding += static_cast<char>(bits >> (8 * byte) & 0xff);
  Add(padding);
  std::string digest;
  for (const std::uint32_t word : state_) {
    for (int byte = 3; byte >= 0; --byte) digest += static_cast<char>(word >> (8 * byte) & 0xff);
  }
  return digest;
}

HmacSha256::HmacSha256(std::string_view key) {
  inner_.Add(BlockOfKey(key, 0x36));
  outer_.Add(BlockOfKey(key, 0x5c));
}

// The differences are collected without a branch.
bool EqualInConstantTime(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char differences = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    differences = static_cast<unsigned char>(
        differences | (static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i])));
  }
  return differences == 0;
}

}  // namespace foretrain
