#include "app/weights/token_text.h"

#include <algorithm>

namespace foretrain {
namespace {

constexpr std::string_view kNoCharacter = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::size_t kMaxCharacterBytes = 4;

// Bytes of the character that starts with `first`; 1 for a byte that starts none.
std::size_t BytesOfCharacter(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
}

}  // namespace

Result<TokenText> TokenText::Open(FileSystem& files, const std::string& path) {
  TokenText text;
  if (!path.empty()) {
    FT_ASSIGN(text.tokenizer_, Tokenizer::Open(files, path));
  }
  return text;
}

std::vector<std::int32_t> TokenText::Encode(std::string_view text) const {
  if (tokenizer_ != nullptr) return tokenizer_->Encode(text, /*adds_special=*/true);
  std::vector<std::int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

std::string TokenText::Decode(std::span<const std::int32_t> ids) const {
  if (tokenizer_ != nullptr) return tokenizer_->Decode(ids, /*skips_special=*/true);
  std::string text;
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < 256) {
      text += static_cast<char>(id);
    } else {
      text += kNoCharacter;
    }
  }
  return text;
}

std::int32_t TokenText::EndToken(const std::string& token) const {
  if (tokenizer_ == nullptr) return -1;
  return token.empty() ? tokenizer_->EndOfText() : tokenizer_->IdOf(token);
}

// Looks at the last character alone: one of several bytes of which some are still to come. A
// tokenizer decodes such bytes to U+FFFD, which a later token may replace.
std::size_t CompleteBytes(std::string_view text) {
  while (text.ends_with(kNoCharacter)) text.remove_suffix(kNoCharacter.size());
  for (std::size_t back = 1; back <= std::min(text.size(), kMaxCharacterBytes); ++back) {
    const std::size_t bytes = BytesOfCharacter(text[text.size() - back]);
    if (bytes > back) return text.size() - back;
    if ((static_cast<unsigned char>(text[text.size() - back]) & 0xC0U) != 0x80U) break;
  }
  return text.size();
}

}  // namespace foretrain
