// Values as bytes of a message and back: numbers little-endian, texts and lists with their length.
// A Reader checks all that comes: lengths before memory is allocated, and that truth values and
// enumerators are ones.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/text.h"
#include "traces/kinds.h"

namespace foretrain {

// Number of enumerators that a message may hold, from 0 on.
template <class E>
inline constexpr int kCountOf = 0;
template <>
inline constexpr int kCountOf<Queue> = kQueueCount;
template <>
inline constexpr int kCountOf<OpClass> = kOpClassCount;
template <>
inline constexpr int kCountOf<Category> = kCategoryCount;
template <>
inline constexpr int kCountOf<Space> = kSpaceCount;
template <>
inline constexpr int kCountOf<ErrorCode> = static_cast<int>(ErrorCode::kUnsupported) + 1;

// Appends values. A struct needs a function `bool Members(bytes, struct)` that passes its members
// to `bytes`, which is a Packer or a Reader.
class Packer {
 public:
  template <class... T>
  bool operator()(const T&... values) {
    (Put(values), ...);
    return true;
  }
  std::string Take() { return std::move(packed_); }

 private:
  template <class T>
  void Put(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      Put(static_cast<std::underlying_type_t<T>>(value));
    } else if constexpr (std::is_same_v<T, double>) {
      Put(std::bit_cast<std::uint64_t>(value));
    } else if constexpr (std::is_same_v<T, float>) {
      Put(std::bit_cast<std::uint32_t>(value));
    } else if constexpr (std::is_integral_v<T>) {
      std::array<char, sizeof(T)> bytes{};
      for (std::size_t i = 0; i < sizeof(T); ++i) {
        bytes[i] = static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xff);
      }
      packed_.append(bytes.data(), bytes.size());
    } else {
      T copy = value;  // Members serves reading too
      Members(*this, copy);
    }
  }
  void Put(const std::string& text) {
    Put(std::uint64_t{text.size()});
    packed_ += text;
  }
  template <class T>
  void Put(const std::optional<T>& value) {
    Put(value.has_value());
    if (value) Put(*value);
  }
  template <class T, std::size_t kCount>
  void Put(const std::array<T, kCount>& values) {
    for (const T& value : values) Put(value);
  }
  template <class T>
  void Put(const std::vector<T>& values) {
    Put(std::uint64_t{values.size()});
    for (const T& value : values) Put(value);
  }
  template <class T>
  void Put(const std::map<std::string, T>& values) {
    Put(std::uint64_t{values.size()});
    for (const auto& [name, value] : values) Put(name), Put(value);
  }
  std::string packed_;
};

// Takes back what a Packer appended; false if too little is left or a value is not one of its type.
class Reader {
 public:
  explicit Reader(std::string_view rest) : rest_(rest) {}
  bool AtEnd() const { return rest_.empty(); }
  // All that is left, as it is.
  std::string_view Rest() { return std::exchange(rest_, {}); }
  template <class... T>
  bool operator()(T&... values) {
    return (... && Get(values));
  }

 private:
  template <class T>
  bool Get(T& value) {
    if constexpr (std::is_enum_v<T>) {
      static_assert(kCountOf<T> > 0);
      std::underlying_type_t<T> number{};
      if (!Get(number) || number < 0 || static_cast<int>(number) >= kCountOf<T>) return false;
      value = static_cast<T>(number);
      return true;
    } else if constexpr (std::is_same_v<T, bool>) {
      std::uint8_t number = 0;
      if (!Get(number) || number > 1) return false;
      value = number == 1;
      return true;
    } else if constexpr (std::is_same_v<T, double>) {
      std::uint64_t bits = 0;
      if (!Get(bits)) return false;
      value = std::bit_cast<double>(bits);
      return true;
    } else if constexpr (std::is_same_v<T, float>) {
      std::uint32_t bits = 0;
      if (!Get(bits)) return false;
      value = std::bit_cast<float>(bits);
      return true;
    } else if constexpr (std::is_integral_v<T>) {
      if (rest_.size() < sizeof(T)) return false;
      std::uint64_t number = 0;
      for (std::size_t i = 0; i < sizeof(T); ++i) {
        number |= std::uint64_t{static_cast<unsigned char>(rest_[i])} << (8 * i);
      }
      value = static_cast<T>(number);
      rest_.remove_prefix(sizeof(T));
      return true;
    } else {
      return Members(*this, value);
    }
  }
  // A text is shown somewhere: control bytes, which a terminal would obey, become \xNN.
  bool Get(std::string& value) {
    std::uint64_t bytes = 0;
    if (!Get(bytes) || bytes > rest_.size()) return false;
    value = Printable(rest_.substr(0, bytes), kMaxText);
    rest_.remove_prefix(bytes);
    return true;
  }
  template <class T>
  bool Get(std::optional<T>& value) {
    bool has = false;
    if (!Get(has)) return false;
    value.reset();
    return !has || Get(value.emplace());
  }
  template <class T, std::size_t kCount>
  bool Get(std::array<T, kCount>& values) {
    for (T& value : values) {
      if (!Get(value)) return false;
    }
    return true;
  }
  // Each value has a byte at least, so memory is bounded by that of the message.
  template <class T>
  bool Get(std::vector<T>& values) {
    std::uint64_t count = 0;
    if (!Get(count) || count > rest_.size()) return false;
    values.clear();
    for (; count > 0; --count) {
      if (!Get(values.emplace_back())) return false;
    }
    return true;
  }
  template <class T>
  bool Get(std::map<std::string, T>& values) {
    std::uint64_t count = 0;
    if (!Get(count) || count > rest_.size()) return false;
    for (; count > 0; --count) {
      std::string name;
      T value{};
      if (!Get(name) || !Get(value)) return false;
      values.insert_or_assign(std::move(name), std::move(value));
    }
    return true;
  }

  static constexpr std::size_t kMaxText = std::size_t{1} << 20;
  std::string_view rest_;
};

template <class... T>
std::string Pack(const T&... values) {
  Packer packer;
  packer(values...);
  return packer.Take();
}

// True if `text` holds these values and nothing else.
template <class... T>
bool Unpack(std::string_view text, T&... values) {
  Reader reader(text);
  return reader(values...) && reader.AtEnd();
}

}  // namespace foretrain
