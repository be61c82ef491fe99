#include "base/io/crc32c.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace foretrain {
namespace {

// Test values of RFC 3720, appendix B.4, and the check value of the CRC catalogue for "123456789".
TEST(Crc32c, GivesTheValuesOfRfc3720) {
  std::string up, down;
  for (int i = 0; i < 32; ++i) {
    up.push_back(static_cast<char>(i));
    down.push_back(static_cast<char>(31 - i));
  }
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(Crc32c(up), 0x46dd794eU);
  EXPECT_EQ(Crc32c(down), 0x113fdb5cU);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(Crc32c(""), 0U);
}

TEST(Crc32c, AgreesWithTheTablesAtEveryLengthAndOffset) {
  std::vector<std::byte> bytes(200);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  for (std::size_t offset = 0; offset < 9; ++offset) {
    for (std::size_t size = 0; size + offset <= 80; ++size) {
      const auto part = std::span(bytes).subspan(offset, size);
      EXPECT_EQ(Crc32c(part), Crc32cByTables(part)) << offset << " " << size;
    }
  }
  EXPECT_EQ(Crc32cByTables(std::as_bytes(std::span(std::string_view("123456789")))), 0xe3069283U);
}

TEST(Crc32c, GoesOnFromAnEarlierPiece) {
  const std::string text = "the quick brown fox jumps over the lazy dog";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(Crc32c(text.substr(cut), Crc32c(text.substr(0, cut))), Crc32c(text));
  }
}

// Seven bytes lie behind the last whole word.
TEST(Crc32c, ChangesWithAnySingleBit) {
  std::string text(71, 'x');
  const std::uint32_t whole = Crc32c(text);
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_NE(Crc32c(text), whole);
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
  }
}

}  // namespace
}  // namespace foretrain
