// Finds added tokens in text.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "runtime/tokenizer/tokenizer.h"

namespace foretrain {

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // Cuts the text at its added tokens, from left to right, at each place the longest. Calls `emit`
  // for the text between them, unless it is empty, with a null token, and for each token.
  using Emit = std::function<void(std::string_view text, const AddedToken* token)>;
  void Cut(std::string_view text, const Emit& emit) const;

  const std::vector<AddedToken>& all() const { return tokens_; }

 private:
  const AddedToken* LongestAt(std::string_view text, std::size_t at) const;

  std::vector<AddedToken> tokens_;            // by first byte, the longest first
  std::vector<std::pair<int, int>> of_byte_;  // range of tokens_, by first byte
};

}  // namespace foretrain
