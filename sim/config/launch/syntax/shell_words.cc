#include "sim/config/launch/syntax/shell_words.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace foretrain {
namespace {

bool IsName(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

constexpr int kMaxNesting = 32;  // of quotes and expansions

std::size_t ExpansionEnd(std::string_view text, std::size_t at, int depth);

// One past the quoted text that starts at text[at]; npos if it does not end.
std::size_t EndOfQuote(std::string_view text, std::size_t at, int depth = 0) {
  const char quote = text[at];
  for (std::size_t i = at + 1; i < text.size();) {
    if (text[i] == quote) return i + 1;
    if (quote == '"' && text[i] == '\\') {
      i += 2;
    } else if (quote == '"' && (text[i] == '$' || text[i] == '`')) {
      i = ExpansionEnd(text, i, depth + 1);
      if (i == std::string_view::npos) return i;
    } else {
      ++i;
    }
  }
  return std::string_view::npos;
}

// One past the closer of the bracket at text[at], outside quotes.
std::size_t EndOfBracket(std::string_view text, std::size_t at, char open, char close,
                         int nesting = 0) {
  int depth = 0;
  for (std::size_t i = at; i < text.size();) {
    const char c = text[i];
    if (c == '\\') {
      i += 2;
    } else if (c == '\'' || c == '"') {
      i = EndOfQuote(text, i, nesting + 1);
      if (i == std::string_view::npos) return i;
    } else if (c == '#' && i > 0 && std::isspace(static_cast<unsigned char>(text[i - 1])) != 0) {
      while (i < text.size() && text[i] != '\n') ++i;
    } else {
      if (c == open) ++depth;
      if (c == close && --depth == 0) return i + 1;
      ++i;
    }
  }
  return std::string_view::npos;
}

std::size_t ExpansionEnd(std::string_view text, std::size_t at, int depth) {
  if (depth > kMaxNesting) return std::string_view::npos;
  if (text[at] == '`') {
    const std::size_t end = text.find('`', at + 1);
    return end == std::string_view::npos ? end : end + 1;
  }
  if (at + 1 >= text.size()) return at + 1;
  const char next = text[at + 1];
  if (next == '{') return EndOfBracket(text, at + 1, '{', '}', depth + 1);
  if (next == '(') return EndOfBracket(text, at + 1, '(', ')', depth + 1);
  if (!IsName(next))
    return std::string_view("@*#?$!-").find(next) == std::string_view::npos ? at + 1 : at + 2;
  std::size_t end = at + 2;
  if (std::isdigit(static_cast<unsigned char>(next)) != 0) return end;
  while (end < text.size() && IsName(text[end])) ++end;
  return end;
}

class Splitter {
 public:
  Splitter(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  Result<std::vector<ShellCommand>> Split() {
    while (at_ < text_.size()) FT_TRY(Step());
    EndCommand();
    return std::move(commands_);
  }

 private:
  Result<void> Step() {
    const char c = text_[at_];
    if (c == '\n') {
      EndCommand();
      Advance(1);
      SkipHereDocument();
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      EndWord();
      Advance(1);
    } else if (c == '#' && word_.empty()) {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == '\\') {
      const bool joins_lines = at_ + 1 < text_.size() && text_[at_ + 1] == '\n';
      if (joins_lines) {
        EndWord();
        Advance(2);
      } else {
        FT_TRY(Take(at_ + 2));
      }
    } else if (c == '\'' || c == '"') {
      FT_TRY(Take(EndOfQuote(text_, at_)));
    } else if (c == '$' || c == '`') {
      FT_TRY(Take(EndOfExpansion(text_, at_)));
    } else if (c == '(' && word_.ends_with('=')) {
      FT_TRY(Take(EndOfBracket(text_, at_, '(', ')')));
      is_array_ = true;
      EndWord();
    } else if (c == '<' || c == '>') {
      FT_TRY(Redirect());
    } else if (c == ';' || c == '|' || c == '&' || c == '(' || c == ')') {
      const bool pair = at_ + 1 < text_.size() && text_[at_ + 1] == c && c != '(' && c != ')';
      // A pattern of `case` keeps its ")".
      const auto& words = command_.words;
      if (c == ')' && (words.empty() || (words.size() == 3 && words[2].raw == "in"))) word_ += ')';
      EndCommand();
      if (!commands_.empty() && pair) {
        commands_.back().ends_case |= c == ';';
        if (c != ';') commands_.back().joiner = c;
      }
      Advance(pair ? 2 : 1);
    } else {
      FT_TRY(Take(at_ + 1));
    }
    return {};
  }

  // "2>&1", "> log", "<<EOF": dropped, with the word after it.
  Result<void> Redirect() {
    const bool is_document =
        text_.substr(at_).starts_with("<<") && !text_.substr(at_).starts_with("<<<");
    if (!word_.empty() && word_.find_first_not_of("0123456789") == std::string::npos) {
      word_.clear();
    }
    EndWord();
    while (at_ < text_.size() &&
           (text_[at_] == '<' || text_[at_] == '>' || text_[at_] == '&' || text_[at_] == '-')) {
      Advance(1);
    }
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) Advance(1);
    const std::size_t from = at_;
    while (at_ < text_.size() &&
           std::string_view(" \t\n;|&<>()").find(text_[at_]) == std::string_view::npos) {
      const char c = text_[at_];
      std::size_t end = at_ + 1;
      if (c == '"' || c == '\'') end = EndOfQuote(text_, at_);
      if (c == '$' || c == '`') end = EndOfExpansion(text_, at_);
      if (end == std::string_view::npos) return NotEnded();
      Advance(end - at_);
    }
    if (is_document) {
      for (const char c : text_.substr(from, at_ - from)) {
        if (c != '"' && c != '\'' && c != '\\') document_ += c;
      }
    }
    return {};
  }

  void SkipHereDocument() {
    if (document_.empty()) return;
    while (at_ < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      const std::string_view line = Trim(text_.substr(at_, end - at_));
      Advance(std::min(end + 1, text_.size()) - at_);
      if (line == document_) break;
    }
    document_.clear();
  }

  // Adds the text up to `end` to the word.
  Result<void> Take(std::size_t end) {
    if (end == std::string_view::npos) return NotEnded();
    end = std::min(end, text_.size());
    if (command_.words.empty() && word_.empty()) command_.line = line_;
    word_ += text_.substr(at_, end - at_);
    Advance(end - at_);
    return {};
  }

  tl::unexpected<Error> NotEnded() const {
    return Fail(ErrorCode::kCorruptInput,
                std::string(file_) + " line " + std::to_string(line_) +
                    ": a quote, bracket or expansion that begins here does not end; close it");
  }

  void Advance(std::size_t count) {
    for (const char c : text_.substr(at_, count)) line_ += c == '\n' ? 1 : 0;
    at_ += count;
  }

  void EndWord() {
    if (!word_.empty()) command_.words.push_back({std::move(word_), is_array_});
    word_.clear();
    is_array_ = false;
  }

  void EndCommand() {
    EndWord();
    if (!command_.words.empty()) commands_.push_back(std::move(command_));
    command_ = {};
    command_.line = line_;
  }

  std::string_view text_, file_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::string word_;
  bool is_array_ = false;
  std::string document_;  // end mark of the here-document that follows this line; empty: none
  ShellCommand command_;
  std::vector<ShellCommand> commands_;
};

}  // namespace

std::size_t EndOfExpansion(std::string_view text, std::size_t at) {
  return ExpansionEnd(text, at, 0);
}

Result<std::vector<ShellCommand>> SplitShell(std::string_view text, std::string_view file) {
  return Splitter(text, file).Split();
}

}  // namespace foretrain
