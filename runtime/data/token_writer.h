// Writes files of tokens, document by document. The formats: token_files.h.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"

namespace foretrain {

enum class TokenFormat {
  kShard,    // one file with llm.c's header; fewer than 2^31 tokens; forgets where documents end
  kMegatron  // NAME.bin and NAME.idx, with the documents
};

class TokenWriter {
 public:
  // Appends one document, which may be empty. Errors: kInvalidArgument, a shard or a document
  // reaches 2^31 tokens; those of writing.
  Result<void> AddDocument(std::span<const std::int32_t> tokens);

  std::int64_t tokens() const { return tokens_; }
  std::int64_t documents() const { return static_cast<std::int64_t>(lengths_.size()); }

 private:
  friend Result<void> WriteTokens(FileSystem& files, const std::string& path, TokenFormat format,
                                  std::int64_t vocab,
                                  const std::function<Result<void>(TokenWriter&)>& write);
  TokenWriter(WritableFile& file, const std::string& path, TokenFormat format, int width)
      : file_(file), path_(path), format_(format), width_(width) {}
  Result<void> Begin();
  Result<void> Flush();
  Result<void> End();
  std::string Index() const;

  WritableFile& file_;
  const std::string& path_;
  TokenFormat format_;
  int width_;
  std::string buffer_;  // not written yet
  std::int64_t tokens_ = 0;
  std::vector<std::int32_t> lengths_;  // of documents
};

// Writes `path` with the documents that `write` adds; an old file stays if that fails. Memory: 4
// bytes a document and some MiB. With kMegatron, `path` ends in .bin, and the .idx beside it is
// written too. A token has 16 bits if the vocabulary has at most 65,536, else 32.
//
// Errors: kInvalidArgument, another ending with kMegatron; those of `write` and of writing.
Result<void> WriteTokens(FileSystem& files, const std::string& path, TokenFormat format,
                         std::int64_t vocab,
                         const std::function<Result<void>(TokenWriter&)>& write);

}  // namespace foretrain
