// CRC-32C (Castagnoli), the checksum of stored batches, checkpoint shards and manifests. It detects
// every burst of up to 32 damaged bits, and misses other damage with probability 2^-32. It does not
// protect against an attacker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace foretrain {

// The CRC-32C of `bytes` as in RFC 3720: reflected polynomial 0x82f63b78, initial and final value
// inverted. For data in pieces, pass the value so far: Crc32c(b, Crc32c(a)) is the CRC of a
// followed by b. Uses the CPU's instruction if it has one (about 0.15 ns a byte), else tables. Safe
// from any thread.
std::uint32_t Crc32c(std::span<const std::byte> bytes, std::uint32_t so_far = 0);
std::uint32_t Crc32c(std::string_view text, std::uint32_t so_far = 0);

// The same value computed by tables alone, on any machine. For tests and comparison.
std::uint32_t Crc32cByTables(std::span<const std::byte> bytes, std::uint32_t so_far = 0);

}  // namespace foretrain
