#include "base/io/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

namespace foretrain {
namespace {

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

// Slicing by eight (Kounavis, Berry 2005): table k holds the CRC of a byte followed by k zero
// bytes. Eight lookups then process eight bytes at once.
constexpr Tables MakeTables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0U);
    tables[0][byte] = crc;
  }
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    for (std::size_t k = 1; k < 8; ++k) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 255];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

// One byte by table 0: for the tail of less than eight bytes.
std::uint32_t ByByte(std::uint32_t crc, std::byte byte) {
  return (crc >> 8) ^ kTables[0][(crc ^ static_cast<std::uint32_t>(byte)) & 255];
}

std::uint64_t LoadLittleEndian(const std::byte* from) {
  std::uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return std::endian::native == std::endian::little ? word : __builtin_bswap64(word);
}

#if defined(__x86_64__)
// SSE 4.2 has an instruction for this polynomial: eight bytes a step, then the tail byte by byte.
__attribute__((target("sse4.2"))) std::uint32_t ByInstruction(std::span<const std::byte> bytes,
                                                              std::uint32_t so_far) {
  std::uint64_t crc = ~so_far;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    crc = __builtin_ia32_crc32di(crc, LoadLittleEndian(bytes.data()));
  }
  auto tail = static_cast<std::uint32_t>(crc);
  for (const std::byte byte : bytes) {
    tail = __builtin_ia32_crc32qi(tail, static_cast<unsigned char>(byte));
  }
  return ~tail;
}
#endif

}  // namespace

// CRC is linear over GF(2): each of the eight bytes contributes its own table's entry, and the
// eight entries are independent loads. The bytewise loop would wait for each lookup before the
// next.
std::uint32_t Crc32cByTables(std::span<const std::byte> bytes, std::uint32_t so_far) {
  std::uint32_t crc = ~so_far;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    const std::uint64_t word = LoadLittleEndian(bytes.data()) ^ crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][(word >> (8 * k)) & 255];
  }
  for (const std::byte byte : bytes) crc = ByByte(crc, byte);
  return ~crc;
}

std::uint32_t Crc32c(std::span<const std::byte> bytes, std::uint32_t so_far) {
#if defined(__x86_64__)
  // The processor is asked once, by the first call of any thread.
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return ByInstruction(bytes, so_far);
#endif
  return Crc32cByTables(bytes, so_far);
}

std::uint32_t Crc32c(std::string_view text, std::uint32_t so_far) {
  return Crc32c(std::as_bytes(std::span(text)), so_far);
}

}  // namespace foretrain
