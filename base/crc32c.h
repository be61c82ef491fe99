// CRC-32C (Castagnoli), the checksum of stored batches, checkpoint shards and manifests: finds any
// burst of up to 32 bits and any other damage but 1 in 2^32. Not a protection against an attacker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace foretrain {

// The CRC-32C of `bytes`, as in RFC 3720 (reflected polynomial 0x82f63b78, start and final value
// inverted). For data in pieces give the value so far: Crc32c(b, Crc32c(a)) is that of a then b.
// Uses the CPU's instruction where there is one (about 0.15 ns a byte), tables elsewhere. Safe from
// any thread.
std::uint32_t Crc32c(std::span<const std::byte> bytes, std::uint32_t so_far = 0);
std::uint32_t Crc32c(std::string_view text, std::uint32_t so_far = 0);

// The same by tables alone, on any machine. For tests and for comparison.
std::uint32_t Crc32cByTables(std::span<const std::byte> bytes, std::uint32_t so_far = 0);

}  // namespace foretrain
