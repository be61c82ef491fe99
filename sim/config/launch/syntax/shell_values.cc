#include "sim/config/launch/syntax/shell_values.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <limits>

#include "base/text.h"
#include "sim/config/launch/syntax/shell_words.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

// An unknown part of a text is "\x01N\x02", where N counts unknown parts.
constexpr char kMarkOpen = '\x01', kMarkClose = '\x02';
constexpr std::size_t kMaxValueBytes = std::size_t{1} << 17;
constexpr std::size_t kMaxUnknown = std::size_t{1} << 14;
constexpr int kMaxDepth = 16;  // nested defaults

bool IsNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsName(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::size_t NameLength(std::string_view text) {
  if (text.empty() || !IsNameStart(text[0])) return 0;
  std::size_t length = 1;
  while (length < text.size() && IsName(text[length])) ++length;
  return length;
}

// Recursive descent over integers; a result outside int64 is an error.
class Arithmetic {
 public:
  explicit Arithmetic(std::string_view text) : text_(text) {}

  Result<std::int64_t> Evaluate() {
    FT_ASSIGN(const std::int64_t value, Sum(0));
    if (Peek() != 0) return Wrong();
    return value;
  }

 private:
  using Wide = __int128;

  Result<std::int64_t> Sum(int depth) {
    FT_ASSIGN(std::int64_t value, Product(depth));
    while (Peek() == '+' || Peek() == '-') {
      const char op = text_[at_++];
      FT_ASSIGN(const std::int64_t right, Product(depth));
      FT_ASSIGN(value, Checked(op == '+' ? Wide{value} + right : Wide{value} - right));
    }
    return value;
  }

  Result<std::int64_t> Product(int depth) {
    FT_ASSIGN(std::int64_t value, Factor(depth));
    while (Peek() == '*' || Peek() == '/' || Peek() == '%') {
      const char op = text_[at_++];
      FT_ASSIGN(const std::int64_t right, Factor(depth));
      if (op != '*' && right == 0) return Wrong();
      const Wide wide = value;
      FT_ASSIGN(value, Checked(op == '*' ? wide * right : op == '/' ? wide / right : wide % right));
    }
    return value;
  }

  Result<std::int64_t> Factor(int depth) {
    if (depth > kMaxDepth) return Wrong();
    if (Peek() == '-') {
      ++at_;
      FT_ASSIGN(const std::int64_t value, Factor(depth + 1));
      return Checked(-Wide{value});
    }
    if (Peek() == '(') {
      ++at_;
      FT_ASSIGN(const std::int64_t value, Sum(depth + 1));
      if (Peek() != ')') return Wrong();
      ++at_;
      return value;
    }
    const std::size_t from = at_;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    return ParseInt("", text_.substr(from, at_ - from), 0,
                    std::numeric_limits<std::int64_t>::max());
  }

  char Peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  static Result<std::int64_t> Checked(Wide value) {
    if (value > std::numeric_limits<std::int64_t>::max() ||
        value < std::numeric_limits<std::int64_t>::min()) {
      return Wrong();
    }
    return static_cast<std::int64_t>(value);
  }

  static tl::unexpected<Error> Wrong() {
    return Fail(ErrorCode::kInvalidArgument, "is no integer expression");
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Result<std::int64_t> EvaluateArithmetic(std::string_view text) {
  return Arithmetic(text).Evaluate();
}

// Fields that are complete, and the one that grows.
struct ShellValues::Fields {
  std::vector<std::string> done;
  std::string open;
  bool has_open = false;  // also for an empty quoted field

  void Add(std::string_view text) {
    open += text;
    has_open = true;
  }
  void Break() {
    if (has_open) done.push_back(std::move(open));
    open.clear();
    has_open = false;
  }
  // An unquoted value ends fields at its white space.
  void AddSplit(std::string_view text) {
    for (const char c : text) {
      if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        Break();
      } else {
        Add(std::string_view(&c, 1));
      }
    }
  }
  std::size_t Bytes() const {
    std::size_t bytes = open.size();
    for (const std::string& field : done) bytes += field.size() + 1;
    return bytes;
  }
};

std::string ShellValues::Mark(const std::string& why, bool is_unset) {
  if (unknown_.size() < kMaxUnknown) unknown_.push_back({why, is_unset});
  return kMarkOpen + std::to_string(unknown_.size() - 1) + kMarkClose;
}

std::string ShellValues::WhyUnknown(std::string_view text) const {
  const std::size_t open = text.find(kMarkOpen);
  if (open == std::string_view::npos) return "";
  const std::size_t close = text.find(kMarkClose, open);
  const auto index = ParseInt("", text.substr(open + 1, close - open - 1), 0,
                              static_cast<std::int64_t>(unknown_.size()) - 1);
  return index ? unknown_[static_cast<std::size_t>(*index)].why : "is not known";
}

bool ShellValues::KnownText(std::string& text) const {
  for (std::size_t open = text.find(kMarkOpen); open != std::string::npos;
       open = text.find(kMarkOpen)) {
    const std::size_t close = text.find(kMarkClose, open);
    const auto index = ParseInt("", std::string_view(text).substr(open + 1, close - open - 1), 0,
                                static_cast<std::int64_t>(unknown_.size()) - 1);
    if (!index || !unknown_[static_cast<std::size_t>(*index)].is_unset) return false;
    text.erase(open, close - open + 1);
  }
  return true;
}

void ShellValues::Forget(const std::string& name, const std::string& why) {
  variables_[name] = {Mark(why)};
}

Result<std::vector<std::string>> ShellValues::Expand(std::string_view raw, bool quoted) {
  Fields fields;
  FT_TRY(ExpandInto(raw, quoted, fields));
  fields.Break();
  return std::move(fields.done);
}

Result<bool> ShellValues::Assign(std::string_view raw, bool is_array) {
  const std::size_t length = NameLength(raw);
  if (length == 0) return false;
  const std::string name(raw.substr(0, length));
  std::string_view rest = raw.substr(length);
  const bool adds = rest.starts_with("+=");
  if (!adds && !rest.starts_with('=')) return false;
  rest.remove_prefix(adds ? 2 : 1);
  std::vector<std::string> values;
  if (is_array) {
    FT_ASSIGN(const auto commands, SplitShell(rest.substr(1, rest.size() - 2), name));
    for (const ShellCommand& command : commands) {
      for (const ShellWord& word : command.words) {
        FT_ASSIGN(const auto fields, Expand(word.raw));
        values.insert(values.end(), fields.begin(), fields.end());
      }
    }
  } else {
    FT_ASSIGN(const auto fields, Expand(rest));
    values.push_back(Join(fields, " "));
  }
  std::vector<std::string>& variable = variables_[name];
  if (!adds) {
    variable = std::move(values);
  } else if (is_array || variable.empty()) {
    variable.insert(variable.end(), values.begin(), values.end());
  } else {
    variable.front() += values.front();
  }
  std::size_t bytes = 0;
  for (const std::string& value : variable) bytes += value.size() + 1;
  if (bytes > kMaxValueBytes) {
    return Refuse("variable {} grows above {} bytes; no launch file needs that", name,
                  kMaxValueBytes);
  }
  return true;
}

Result<void> ShellValues::ExpandInto(std::string_view raw, bool quoted, Fields& fields) {
  for (std::size_t i = 0; i < raw.size();) {
    if (fields.Bytes() > kMaxValueBytes) {
      return Refuse("a word grows above {} bytes; no launch file needs that", kMaxValueBytes);
    }
    const char c = raw[i];
    if (c == '\'' && !quoted) {
      const std::size_t end = std::min(raw.find('\'', i + 1), raw.size());
      fields.Add(raw.substr(i + 1, end - i - 1));
      i = end + 1;
    } else if (c == '\\' && i + 1 < raw.size()) {
      if (raw[i + 1] != '\n') fields.Add(raw.substr(i + 1, 1));
      i += 2;
    } else if (c == '"') {
      // Finds the end of the quote; what lies within is expanded without splitting.
      std::size_t end = i + 1;
      while (end < raw.size() && raw[end] != '"') {
        end = raw[end] == '\\'                     ? end + 2
              : raw[end] == '$' || raw[end] == '`' ? EndOfExpansion(raw, end)
                                                   : end + 1;
        if (end == std::string_view::npos) end = raw.size();
      }
      end = std::min(end, raw.size());
      const bool is_list = raw.substr(i + 1, end - i - 1).ends_with("[@]}");
      if (!is_list) fields.Add("");
      FT_TRY(ExpandInto(raw.substr(i + 1, end - i - 1), true, fields));
      i = end + 1;
    } else if (c == '$' || c == '`') {
      const std::size_t end = std::min(EndOfExpansion(raw, i), raw.size());
      if (end == i + 1) {
        fields.Add("$");
      } else {
        FT_TRY(ExpandDollar(raw.substr(i, end - i), quoted, fields));
      }
      i = end;
    } else {
      // Marks of unknown parts stay as they are.
      fields.Add(raw.substr(i, 1));
      ++i;
    }
  }
  return {};
}

// `body` is "$NAME", "${...}", "$(...)", "$((...))" or "`...`".
Result<void> ShellValues::ExpandDollar(std::string_view body, bool quoted, Fields& fields) {
  if (body.starts_with("$((") && body.ends_with("))")) {
    // Names stand for their values here, with or without "$".
    std::string text;
    const std::string_view inner = body.substr(3, body.size() - 5);
    for (std::size_t i = 0; i < inner.size();) {
      const std::size_t length = NameLength(inner.substr(i));
      if (length > 0) {
        text.append("${").append(inner.substr(i, length)).append("}");
        i += length;
      } else if (inner[i] == '$' || inner[i] == '`') {
        const std::size_t end = std::min(EndOfExpansion(inner, i), inner.size());
        text += inner.substr(i, end - i);
        i = end;
      } else {
        text += inner[i++];
      }
    }
    FT_ASSIGN(const auto expanded, Expand(text, /*quoted=*/true));
    const std::string expression = Join(expanded, " ");
    if (const std::string why = WhyUnknown(expression); !why.empty()) {
      fields.Add(Mark(why));
      return {};
    }
    const auto value = EvaluateArithmetic(expression);
    fields.Add(value ? std::to_string(*value)
                     : Mark("is the arithmetic " + Printable(body) + ", which is not evaluated"));
    return {};
  }
  if (body.starts_with("$(") || body.starts_with('`')) {
    fields.Add(Mark("is the output of " + Printable(body) + ", which is not run"));
    return {};
  }
  return ExpandBraces(body.starts_with("${") ? body.substr(2, body.size() - 3) : body.substr(1),
                      quoted, fields);
}

// `body` is what stands between the braces.
Result<void> ShellValues::ExpandBraces(std::string_view body, bool quoted, Fields& fields) {
  if (body == "@" || body == "*") return {};  // the script's own arguments: none
  std::size_t length = NameLength(body);
  if (length == 0) {
    while (length < body.size() && std::isdigit(static_cast<unsigned char>(body[length])) != 0) {
      ++length;
    }
  }
  const std::string name(body.substr(0, length));
  std::string_view rest = body.substr(length);
  const bool is_list = rest.starts_with("[@]") || rest.starts_with("[*]");
  if (is_list) rest.remove_prefix(3);
  const auto variable = variables_.find(name);
  const bool is_set = variable != variables_.end();
  const bool has_colon = rest.starts_with(':');
  const char op = rest.size() > (has_colon ? 1U : 0U) ? rest[has_colon ? 1 : 0] : '\0';
  if (name.empty() || (!rest.empty() && std::string_view("-=+").find(op) == std::string::npos)) {
    fields.Add(Mark("is the expansion ${" + Printable(body) + "}, which is not evaluated"));
    return {};
  }
  if (!rest.empty()) {
    const bool is_empty =
        !is_set || (has_colon && (variable->second.empty() || variable->second.front().empty()));
    const std::string_view other = rest.substr(has_colon ? 2 : 1);
    if (op == '+' && is_empty) return {};
    if ((op == '+') != is_empty) {
      if (++depth_ > kMaxDepth) return Refuse("defaults nest deeper than {}", kMaxDepth);
      Fields inner;
      const auto expanded = ExpandInto(other, quoted, inner);
      --depth_;
      FT_TRY(expanded);
      inner.Break();
      const std::string text = Join(inner.done, " ");
      if (op == '=') variables_[name] = {text};
      quoted ? fields.Add(text) : fields.AddSplit(text);
      return {};
    }
  }
  if (!is_set) {
    fields.Add(Mark("is ${" + name + "}, which the file does not set", /*is_unset=*/true));
    return {};
  }
  const std::vector<std::string>& values = variable->second;
  for (std::size_t i = 0; i < (is_list ? values.size() : std::min<std::size_t>(1, values.size()));
       ++i) {
    if (i > 0) fields.Break();
    quoted ? fields.Add(values[i]) : fields.AddSplit(values[i]);
  }
  return {};
}

}  // namespace foretrain
