#include "sim/config/launch/syntax/python_tokens.h"

#include <cctype>

#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

bool IsLetter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

class Scanner {
 public:
  Scanner(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  Result<std::vector<PythonToken>> Scan() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        if (depth_ == 0) Add(PythonToken::Kind::kLine, "", at_);
        NextLine();
      } else if (c == '\\' && At(1) == '\n') {
        ++at_;
        NextLine();
      } else if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        ++at_;
      } else if (c == '"' || c == '\'') {
        FT_TRY(Quoted(PythonToken::Kind::kText));
      } else if (IsLetter(c)) {
        FT_TRY(Word());
      } else if (IsDigit(c) || (c == '.' && IsDigit(At(1)))) {
        Number();
      } else {
        if (c == '(' || c == '[' || c == '{') ++depth_;
        if (c == ')' || c == ']' || c == '}') depth_ = depth_ > 0 ? depth_ - 1 : 0;
        Sign();
      }
    }
    for (int i = 0; i < 3; ++i) Add(PythonToken::Kind::kEnd, "", at_);
    return std::move(tokens_);
  }

 private:
  char At(std::size_t ahead) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void NextLine() {
    ++at_;
    ++line_;
    line_start_ = at_;
  }
  void Add(PythonToken::Kind kind, std::string text, std::size_t start) {
    const auto column = static_cast<int>(start < line_start_ ? 0 : start - line_start_);
    tokens_.push_back({kind, std::move(text), line_, column});
  }

  // Signs of two characters that are no assignment stay together.
  void Sign() {
    const std::size_t start = at_;
    const char c = text_[at_++];
    std::string sign(1, c);
    if (At(0) == '=' && std::string_view("=!<>+-*/%|&").find(c) != std::string_view::npos) {
      sign += text_[at_++];
    }
    Add(PythonToken::Kind::kSign, std::move(sign), start);
  }

  void Number() {
    const std::size_t start = at_;
    std::string number;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const bool is_exponent_sign = (c == '-' || c == '+') && !number.empty() &&
                                    (number.back() == 'e' || number.back() == 'E');
      if (!IsDigit(c) && !IsLetter(c) && c != '.' && !is_exponent_sign) break;
      if (c != '_') number += c;
      ++at_;
    }
    Add(PythonToken::Kind::kNumber, std::move(number), start);
  }

  // A name, or the prefix of a text.
  Result<void> Word() {
    const std::size_t start = at_;
    while (IsLetter(At(0)) || IsDigit(At(0))) ++at_;
    std::string word(text_.substr(start, at_ - start));
    const bool is_prefix = word.size() <= 2 && (At(0) == '"' || At(0) == '\'');
    if (!is_prefix) {
      Add(PythonToken::Kind::kName, std::move(word), start);
      return {};
    }
    const bool is_computed = word.find_first_of("fF") != std::string::npos;
    return Quoted(is_computed ? PythonToken::Kind::kSign : PythonToken::Kind::kText);
  }

  Result<void> Quoted(PythonToken::Kind kind) {
    const std::size_t start = at_;
    const int line = line_;
    const char quote = text_[at_];
    const bool is_long = At(1) == quote && At(2) == quote;
    at_ += is_long ? 3 : 1;
    std::string out;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == quote && (!is_long || (At(1) == quote && At(2) == quote))) {
        at_ += is_long ? 3 : 1;
        Add(kind, std::move(out), start);
        return {};
      }
      if (c == '\n') {
        if (!is_long) break;
        NextLine();
      } else {
        at_ += c == '\\' ? 2 : 1;
      }
      out += c;
    }
    return Fail(ErrorCode::kCorruptInput,
                fmt::format("{} line {}: a text has no closing {}; mend the recipe", file_, line,
                            std::string(is_long ? 3 : 1, quote)));
  }

  std::string_view text_, file_;
  std::vector<PythonToken> tokens_;
  std::size_t at_ = 0, line_start_ = 0;
  int line_ = 1, depth_ = 0;
};

}  // namespace

Result<std::vector<PythonToken>> PythonTokensOf(std::string_view text, std::string_view file) {
  return Scanner(text, file).Scan();
}

}  // namespace foretrain
