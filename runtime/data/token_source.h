// Files of tokens that are read as one stream, one after another.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/data/token_files.h"

namespace foretrain {

class TokenSource {
 public:
  // Errors: those of CheckTokens for each file.
  static Result<TokenSource> Make(std::vector<TokenFile> files, std::int64_t vocab);

  std::int64_t tokens() const { return starts_.back(); }
  // Samples of `sequence` tokens and the token after each. A rest that fills no sample is not read.
  std::int64_t Samples(std::int64_t sequence) const { return (tokens() - 1) / sequence; }

  // Reads out.size() tokens from number `first` on, across files. Errors: those of TokenFile::Read.
  // Safe from any thread.
  Result<void> Read(std::int64_t first, std::span<std::int32_t> out) const;

  // Hashes the lengths of the files and the bytes of their tokens: all of a small file, 64 pieces
  // of a large one. The files' names do not count. Errors: those of reading.
  Result<std::uint64_t> Digest() const;

 private:
  TokenSource(std::vector<TokenFile> files, std::int64_t vocab);

  std::vector<TokenFile> files_;
  std::vector<std::int64_t> starts_;  // first token of each file, and the end
  std::int64_t vocab_;
};

}  // namespace foretrain
