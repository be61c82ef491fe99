// Files of tokens that are read as one stream, one after another, or a part of it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/data/token_files.h"

namespace foretrain {

// A part of a stream, by shares of its tokens. Parts that end and begin at the same share have no
// token in common and none between them.
struct TokenShare {
  double begin = 0;  // 0 <= begin <= end <= 1
  double end = 1;

  bool IsWhole() const { return begin == 0 && end == 1; }
};

class TokenSource {
 public:
  // `share` of the files' tokens together: all below are of this part alone. Errors: those of
  // CheckTokens for each file.
  static Result<TokenSource> Make(std::vector<TokenFile> files, std::int64_t vocab,
                                  TokenShare share = {});

  std::int64_t tokens() const { return end_ - begin_; }
  // Samples of `sequence` tokens and the token after each. A rest that fills no sample is not read.
  std::int64_t Samples(std::int64_t sequence) const {
    return tokens() > 0 ? (tokens() - 1) / sequence : 0;
  }

  // Reads out.size() tokens from number `first` on, across files. Errors: those of TokenFile::Read.
  // Safe from any thread.
  Result<void> Read(std::int64_t first, std::span<std::int32_t> out) const;

  // True if each file says where its documents begin (TokenFile::documents).
  bool KnowsDocuments() const;
  // Fills starts[i] with the place in the range at which the document of token first + i begins, 0
  // if it began before. Every file must know its documents. Safe from any thread; O(log documents)
  // for each document in the range.
  void DocumentStarts(std::int64_t first, std::span<std::int32_t> starts) const;

  // Hashes where the part begins and ends, the lengths of the files and the bytes of their tokens:
  // all of a small file, 64 pieces of a large one; and the documents that files know. The files'
  // names do not count. Errors: those of reading.
  Result<std::uint64_t> Digest() const;

 private:
  TokenSource(std::vector<TokenFile> files, std::int64_t vocab, TokenShare share);

  std::vector<TokenFile> files_;
  std::vector<std::int64_t> starts_;  // first token of each file, and the end
  std::int64_t begin_ = 0, end_ = 0;  // tokens of the part
  std::int64_t vocab_;
};

}  // namespace foretrain
