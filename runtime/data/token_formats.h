// Constants of the files of tokens, for reading and writing them. The formats: token_files.h.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace foretrain {

inline constexpr std::int64_t kShardHeaderWords = 256;
inline constexpr std::int64_t kShardHeaderBytes = kShardHeaderWords * 4;

struct ShardKind {
  std::int32_t magic, version;
  int width;  // bytes of a token
};
inline constexpr std::array kShardKinds = {ShardKind{20240520, 1, 2}, ShardKind{20240801, 7, 4}};

inline constexpr std::string_view kIndexMagic("MMIDIDX\0\0", 9);
inline constexpr std::int64_t kIndexHeaderBytes = 9 + 8 + 1 + 8 + 8;
inline constexpr std::uint64_t kIndexVersion = 1;
inline constexpr std::uint8_t kIndexI32 = 4, kIndexU16 = 8;  // types of a token

}  // namespace foretrain
