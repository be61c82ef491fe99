// A 64-bit hash that is the same on every machine, build and day: identity of programs, plans and
// names. Not for hash tables under attack and not for detecting damage (base/crc32c.h).
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace foretrain {

// Feeds values in order; each is framed (numbers by width, text by length), so that ("ab", "c") and
// ("a", "bc") differ. FNV-1a [1] over 8-byte words with an avalanche after each, about 1 ns a word.
// Two of n different inputs collide with probability n^2 / 2^65.
//
// [1] Fowler, Noll, Vo; offset basis and prime of the 64-bit variant
class StableHash {
 public:
  template <std::integral T>
  StableHash& Add(T value) {
    return AddWord(static_cast<std::uint64_t>(value));
  }
  template <class T>
  requires std::is_enum_v<T> StableHash& Add(T value) {
    return AddWord(static_cast<std::uint64_t>(value));
  }
  // By its bits, but -0.0 as 0.0.
  StableHash& Add(double value) {
    return AddWord(std::bit_cast<std::uint64_t>(value == 0 ? 0.0 : value));
  }
  StableHash& Add(std::string_view text);
  StableHash& Add(const char* text) { return Add(std::string_view(text)); }

  std::uint64_t Value() const { return state_; }

 private:
  StableHash& AddWord(std::uint64_t word) {
    state_ = (state_ ^ word) * 0x00000100000001b3U;
    // Multiplication moves bits up alone; this brings the high ones down (splitmix64's last step).
    state_ = (state_ ^ (state_ >> 30)) * 0xbf58476d1ce4e5b9U;
    state_ = (state_ ^ (state_ >> 27)) * 0x94d049bb133111ebU;
    state_ ^= state_ >> 31;
    return *this;
  }

  std::uint64_t state_ = 0xcbf29ce484222325U;
};

// The hash of one text.
std::uint64_t HashText(std::string_view text);

// 16 lower-case hexadecimal digits, the form a hash is stored and shown in.
std::string HexText(std::uint64_t value);

}  // namespace foretrain
