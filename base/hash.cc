#include "base/hash.h"

namespace foretrain {

// The length comes first, then the bytes in little-endian words of eight, so that the hash does not
// depend on the machine's byte order.
StableHash& StableHash::Add(std::string_view text) {
  AddWord(text.size());
  while (!text.empty()) {
    const std::string_view part = text.substr(0, 8);
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < part.size(); ++i) {
      word |= std::uint64_t{static_cast<unsigned char>(part[i])} << (8 * i);
    }
    AddWord(word);
    text.remove_prefix(part.size());
  }
  return *this;
}

std::uint64_t HashText(std::string_view text) { return StableHash().Add(text).Value(); }

std::string HexText(std::uint64_t value) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t i = 16; i-- > 0; value >>= 4) text[i] = kHex[value & 15];
  return text;
}

}  // namespace foretrain
