// Files of tokens: the bytes of any text; shards with a header, as llm.c's data scripts write them;
// and Megatron's pairs of a .bin and an .idx file.
//
//   shard   256 little-endian int32: magic, version, number of tokens, zeros; then the tokens
//           magic 20240520, version 1: 16 bits a token; magic 20240801, version 7: 32 bits
//   .idx    "MMIDIDX\0\0", version 1 (u64), type of a token (u8), numbers of sequences and
//           documents (u64 each), lengths of sequences (i32), their offsets in .bin and the
//           documents' first sequences (i64). The .bin file has the tokens alone.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/io/file_system.h"
#include "base/result.h"

namespace foretrain {

// The tokens of a file, in memory.
struct TokenFile {
  std::string content{};
  std::int64_t offset = 0;  // of the first token
  int width = 1;            // bytes of a token: 1, 2 or 4

  std::string_view Bytes() const {
    return std::string_view(content).substr(static_cast<std::size_t>(offset));
  }
  std::int64_t tokens() const {
    return (static_cast<std::int64_t>(content.size()) - offset) / width;
  }
  std::uint32_t At(std::int64_t token) const {
    std::uint32_t value = 0;  // little-endian, as the file
    std::memcpy(&value, content.data() + offset + token * width, static_cast<std::size_t>(width));
    return value;
  }
};

// `path`: any of the files above; of a pair either one. Errors: of reading, at most 8 GiB;
// kInvalidArgument, an empty file; kCorruptInput, a length that contradicts the header, another
// version, or a type of token that is not of 1, 2 or 4 bytes.
Result<TokenFile> ReadTokenFile(FileSystem& files, const std::string& path);
// As above for the content of a text or shard; `name` is for messages.
Result<TokenFile> TokenFileOf(std::string content, std::string_view name);

// The same tokens, 32 bits each.
TokenFile TokenFileOf(std::span<const std::int32_t> tokens);

// kInvalidArgument if tokens are bytes and the vocabulary is below 256; kCorruptInput if a token
// lies outside the vocabulary (the first is named).
Result<void> CheckTokens(const TokenFile& file, std::string_view name, std::int64_t vocab);

// Writes a shard: 16 bits a token if the vocabulary has at most 65,536, else 32. Errors:
// kInvalidArgument, 2^31 tokens or more; those of writing.
Result<void> WriteShard(FileSystem& files, const std::string& path,
                        std::span<const std::int32_t> tokens, std::int64_t vocab);

}  // namespace foretrain
