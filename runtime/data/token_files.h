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
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"

namespace foretrain {

// An open file of tokens. Tokens are read when they are asked for, with positioned reads: a file
// may be larger than memory, and if it shrinks the next read fails, where a mapping would raise
// SIGBUS.
struct TokenFile {
  std::unique_ptr<ReadableFile> file;
  std::string name;         // for messages
  std::int64_t offset = 0;  // of the first token, in bytes
  int width = 1;            // bytes of a token: 1, 2 or 4
  std::int64_t tokens = 0;
  // First token of each document, ascending; nullopt if the file does not say.
  std::optional<std::vector<std::int64_t>> documents{};

  // Reads out.size() tokens from number `first` on, all within the file. Errors: those of reading;
  // kCorruptInput, the file was changed since it was opened, or a token lies outside `vocab`:
  // kernels index tables by it without a check. Safe from any thread.
  Result<void> Read(std::int64_t first, std::span<std::int32_t> out, std::int64_t vocab) const;
};

// `path`: any of the files above; of a pair either one. Errors: of reading; kInvalidArgument, an
// empty file; kCorruptInput, a length that contradicts the header, another version, or a type of
// token that is not of 1, 2 or 4 bytes. With `documents` the documents of an index are kept, 8
// bytes each; kCorruptInput then also if they are not in order.
Result<TokenFile> OpenTokenFile(FileSystem& files, const std::string& path, bool documents = false);
// As above for the content of a text or shard.
Result<TokenFile> TokenFileOf(std::string content, std::string_view name);

// The same tokens, 32 bits each, in memory.
TokenFile TokenFileOf(std::span<const std::int32_t> tokens, std::string_view name);

// Looks for a vocabulary that the data was not made for, before a run begins: kInvalidArgument if
// tokens are bytes and the vocabulary is below 256; kCorruptInput if one of the first million
// tokens lies outside (the first is named).
Result<void> CheckTokens(const TokenFile& file, std::int64_t vocab);

}  // namespace foretrain
