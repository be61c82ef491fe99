#include "runtime/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "runtime/tokenizer/pattern.h"

namespace foretrain {
namespace {

// The character that ends before `at`, or begins there; empty at an end of the text.
std::string_view Before(std::string_view text, std::size_t at) {
  std::size_t begin = at;
  while (begin > 0 && (static_cast<unsigned char>(text[--begin]) & 0xc0U) == 0x80U) {
  }
  return text.substr(begin, at - begin);
}
std::string_view Behind(std::string_view text, std::size_t at) {
  return at < text.size() ? text.substr(at, Utf8Bytes(text.substr(at))) : std::string_view{};
}

// A build without patterns reads no tokenizer, so that there they may say no.
bool Matches(const Result<Pattern>& pattern, std::string_view character) {
  return pattern.has_value() && !character.empty() && pattern->Find(character, 0).has_value();
}
bool IsWord(std::string_view character) {
  static const Result<Pattern> pattern = Pattern::Make(R"(\w)", "a letter or digit");
  return Matches(pattern, character);
}
bool IsSpace(std::string_view character) {
  static const Result<Pattern> pattern = Pattern::Make(R"(\s)", "white space");
  return Matches(pattern, character);
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), of_byte_(256, {0, 0}) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.text.empty(); });
  const auto byte = [](const AddedToken& token) {
    return static_cast<unsigned char>(token.text.front());
  };
  std::stable_sort(tokens_.begin(), tokens_.end(), [&](const AddedToken& a, const AddedToken& b) {
    return byte(a) != byte(b) ? byte(a) < byte(b) : a.text.size() > b.text.size();
  });
  for (int i = 0; i < static_cast<int>(tokens_.size()); ++i) {
    auto& [begin, end] = of_byte_[byte(tokens_[static_cast<std::size_t>(i)])];
    if (begin == end) begin = i;
    end = i + 1;
  }
}

const AddedToken* AddedTokens::LongestAt(std::string_view text, std::size_t at) const {
  const auto& [begin, end] = of_byte_[static_cast<unsigned char>(text[at])];
  for (int i = begin; i < end; ++i) {
    const AddedToken& token = tokens_[static_cast<std::size_t>(i)];
    if (!text.substr(at).starts_with(token.text)) continue;
    const std::size_t behind = at + token.text.size();
    if (!token.single_word) return &token;
    if (!IsWord(Before(text, at)) && !IsWord(Behind(text, behind))) return &token;
  }
  return nullptr;
}

void AddedTokens::Cut(std::string_view text, const Emit& emit) const {
  std::size_t done = 0;
  for (std::size_t at = 0; !tokens_.empty() && at < text.size();) {
    const AddedToken* const token = LongestAt(text, at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + token->text.size();
    while (token->takes_left && begin > done && IsSpace(Before(text, begin))) {
      begin -= Before(text, begin).size();
    }
    while (token->takes_right && IsSpace(Behind(text, end))) end += Behind(text, end).size();
    if (begin > done) emit(text.substr(done, begin - done), nullptr);
    emit(text.substr(begin, end - begin), token);
    at = done = end;
  }
  if (done < text.size()) emit(text.substr(done), nullptr);
}

}  // namespace foretrain
