// A 64-bit hash that is the same on every machine, in every build and on every day. It identifies
// programs, plans and names. It does not resist attacks, and it does not detect damage
// (base/io/crc32c.h does).
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace foretrain {

// Hashes values in order. Each value is framed (numbers by width, text by length), so that ("ab",
// "c") and ("a", "bc") differ. FNV-1a [1] over 8-byte words with an avalanche step after each word,
// about 1 ns a word. Two of n different inputs collide with probability n^2 / 2^65.
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
  // Hashes the bits of `value`; -0.0 hashes as 0.0.
  StableHash& Add(double value) {
    return AddWord(std::bit_cast<std::uint64_t>(value == 0 ? 0.0 : value));
  }
  StableHash& Add(std::string_view text);
  StableHash& Add(const char* text) { return Add(std::string_view(text)); }

  std::uint64_t Value() const { return state_; }

 private:
  StableHash& AddWord(std::uint64_t word) {
    state_ = (state_ ^ word) * 0x00000100000001b3U;
    // Multiplication carries bits upwards only. This step, the last of splitmix64, mixes the high
    // bits back down.
    state_ = (state_ ^ (state_ >> 30)) * 0xbf58476d1ce4e5b9U;
    state_ = (state_ ^ (state_ >> 27)) * 0x94d049bb133111ebU;
    state_ ^= state_ >> 31;
    return *this;
  }

  std::uint64_t state_ = 0xcbf29ce484222325U;
};

// The hash of one text.
std::uint64_t HashText(std::string_view text);

// `value` as 16 lower-case hexadecimal digits: the form in which hashes are stored and shown.
std::string HexText(std::uint64_t value);

}  // namespace foretrain
