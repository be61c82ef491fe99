// Text of a model's tokens: by a tokenizer, or a byte for each token as `train` reads a text
// without one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"
#include "runtime/tokenizer/tokenizer.h"

namespace foretrain {

class TokenText {
 public:
  // `path`: tokenizer.json, or the folder with it; empty: a token is a byte. Errors: those of
  // Tokenizer::Open.
  static Result<TokenText> Open(FileSystem& files, const std::string& path);

  // With the tokens that the tokenizer puts around a text.
  std::vector<std::int32_t> Encode(std::string_view text) const;
  // Without special tokens. An id that is no byte becomes U+FFFD.
  std::string Decode(std::span<const std::int32_t> ids) const;
  // Token of that text, or of the usual end of a text if `token` is empty; -1: there is none.
  std::int32_t EndToken(const std::string& token) const;
  bool HasTokenizer() const { return tokenizer_ != nullptr; }

 private:
  std::unique_ptr<const Tokenizer> tokenizer_;
};

// Bytes of `text` before a UTF-8 character that is not complete yet at its end.
std::size_t CompleteBytes(std::string_view text);

}  // namespace foretrain
