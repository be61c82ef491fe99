// Recipes in Python as flat lists of keys. Assignments of literals and calls with named arguments
// are read; nothing is executed, and no imported module is read. Values that only a run would tell
// are marked unknown: arithmetic, other functions' results, statements under a condition.
#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>

#include "base/text.h"
#include "sim/config/launch/syntax/launch_text.h"
#include "sim/config/launch/syntax/python_tokens.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

constexpr std::size_t kMaxDepth = 64;

// A literal, or what a call or a dict names. `call`: the function, as written.
struct Value {
  std::string text = {};
  std::string unknown = {};  // why the file alone does not give it; empty if it does
  std::string call = {};
  std::vector<std::pair<std::string, Value>> members = {};
  bool is_text = false, is_none = false;
  int line = 0;

  bool IsTree() const { return !call.empty() || !members.empty(); }
  Value& At(const std::string& name) {
    for (auto& [of, value] : members) {
      if (of == name) return value;
    }
    return members.emplace_back(name, Value{}).second;
  }
};

std::string LastName(const std::string& dotted) { return dotted.substr(dotted.rfind('.') + 1); }

// Entries of a tree, in order. A call without named arguments is its name.
void Flatten(const Value& value, const std::string& path, LaunchText& out) {
  if (value.is_none || out.entries.size() > kMaxLaunchEntries) return;
  for (const auto& [name, member] : value.members) {
    Flatten(member, path.empty() ? name : fmt::format("{}.{}", path, name), out);
  }
  if (!value.members.empty() || path.empty()) return;
  LaunchItem item{path, value.call.empty() ? value.text : LastName(value.call), value.line,
                  value.unknown};
  item.is_text = value.is_text;
  out.entries.push_back(std::move(item));
}

// Values in a tree, itself included.
std::size_t SizeOf(const Value& value) {
  std::size_t count = 1;
  for (const auto& [name, member] : value.members) count += SizeOf(member);
  return count;
}

class PythonReader {
 public:
  PythonReader(std::vector<PythonToken> tokens, std::string_view file)
      : tokens_(std::move(tokens)), file_(file) {}

  Result<LaunchText> Read() {
    while (!Is(PythonToken::Kind::kEnd)) FT_TRY(Statement());
    for (auto& [name, value] : variables_) Offer(std::move(value));
    if (!root_ || root_->members.empty()) {
      return Refuse("{}: sets no option of a configuration; give the recipe, or its dump as YAML",
                    file_);
    }
    LaunchText out;
    if (!root_->call.empty()) {
      LaunchItem recipe{"recipe", LastName(root_->call), root_->line, ""};
      out.entries.push_back(std::move(recipe));
      if (!root_->call.ends_with("ConfigContainer")) {
        out.notes.push_back(
            fmt::format("{} line {}: {} is not read; what it sets counts as not set", file_,
                        root_->line, Printable(root_->call)));
      }
    }
    Flatten(*root_, "", out);
    return out;
  }

 private:
  using Kind = PythonToken::Kind;

  const PythonToken& Now() const { return tokens_[at_]; }
  bool Is(Kind kind) const { return Now().kind == kind; }
  bool Is(std::string_view text) const {
    return (Is(Kind::kName) || Is(Kind::kSign)) && Now().text == text;
  }
  bool Take(std::string_view text) {
    if (!Is(text)) return false;
    ++at_;
    return true;
  }
  tl::unexpected<Error> NoPython(std::string_view what) const {
    return Fail(ErrorCode::kCorruptInput,
                fmt::format("{} line {}: {}; mend the recipe, or give its dump as YAML", file_,
                            Now().line, what));
  }

  void SkipLine() {
    while (!Is(Kind::kLine) && !Is(Kind::kEnd)) ++at_;
    if (Is(Kind::kLine)) ++at_;
  }
  // Keeps the largest configuration.
  void Offer(Value value) {
    if (!value.IsTree()) return;
    if (!root_ || SizeOf(value) > SizeOf(*root_)) root_ = std::move(value);
  }

  // One logical line. Deeper lines than that of an `if` or a loop stand under its condition.
  Result<void> Statement() {
    if (Is(Kind::kLine)) {
      ++at_;
      return {};
    }
    const int indent = Now().column;
    while (!conditions_.empty() && indent <= conditions_.back()) conditions_.pop_back();
    for (const char* word : {"if", "elif", "else", "for", "while", "try", "except", "with"}) {
      if (!Is(word)) continue;
      conditions_.push_back(indent);
      SkipLine();
      return {};
    }
    if (Is("def")) return Parameters();
    if (Take("return")) {
      if (Is(Kind::kLine) || Is(Kind::kEnd)) return {};
      FT_ASSIGN(Value value, Expression(0));
      Offer(std::move(value));
      SkipLine();
      return {};
    }
    if (!Is(Kind::kName)) {
      SkipLine();
      return {};
    }
    return Assignment();
  }

  // Defaults of a function's parameters count as its variables.
  Result<void> Parameters() {
    at_ += 2;
    if (!Take("(")) return NoPython("a function has no parameters");
    while (!Is(Kind::kLine) && !Is(Kind::kEnd) && !Is(")")) {
      const std::string name = Is(Kind::kName) ? Now().text : "";
      ++at_;
      int depth = 0;
      while (!Is(Kind::kLine) && !Is(Kind::kEnd)) {
        if (depth == 0 && (Is("=") || Is(",") || Is(")"))) break;
        if (Is("(") || Is("[")) ++depth;
        if (Is(")") || Is("]")) --depth;
        ++at_;
      }
      if (Take("=")) {
        FT_ASSIGN(Value value, Expression(0));
        if (!name.empty()) variables_[name] = std::move(value);
      }
      Take(",");
    }
    SkipLine();
    return {};
  }

  // "cfg.model.tp = 4", "cfg: Config = ...", or an expression alone.
  Result<void> Assignment() {
    const std::size_t start = at_;
    std::vector<std::string> path;
    while (Is(Kind::kName)) {
      path.push_back(Now().text);
      ++at_;
      while (Is("[") && tokens_[at_ + 1].kind == Kind::kText && tokens_[at_ + 2].text == "]") {
        path.push_back(tokens_[at_ + 1].text);
        at_ += 3;
      }
      if (!Take(".")) break;
    }
    if (path.size() > kMaxDepth) return NoPython("is nested too deeply");
    if (Take(":")) {
      while (!Is("=") && !Is(Kind::kLine) && !Is(Kind::kEnd)) ++at_;
    }
    if (!Take("=")) {
      at_ = start;
      const bool is_config = path.back().ends_with("ConfigContainer");
      if (is_config) {
        FT_ASSIGN(Value value, Expression(0));
        Offer(std::move(value));
      }
      SkipLine();
      return {};
    }
    FT_ASSIGN(Value value, Expression(0));
    if (!conditions_.empty()) value = Value{.unknown = "set under a condition", .line = Now().line};
    Value* target = &variables_[path.front()];
    for (std::size_t i = 1; i < path.size(); ++i) target = &target->At(path[i]);
    if (target->line == 0 || value.line > 0) *target = std::move(value);
    SkipLine();
    return {};
  }

  // Skips what follows a value up to the end of the expression. Whether there was anything.
  bool SkipRest() {
    int depth = 0;
    const std::size_t start = at_;
    while (!Is(Kind::kLine) && !Is(Kind::kEnd)) {
      if (depth == 0 && (Is(",") || Is(")") || Is("]") || Is("}") || Is(":"))) break;
      if (Is("(") || Is("[") || Is("{")) ++depth;
      if (Is(")") || Is("]") || Is("}")) --depth;
      ++at_;
    }
    return at_ > start;
  }

  Result<Value> Expression(std::size_t depth) {
    if (depth > kMaxDepth) return NoPython("is nested too deeply");
    const int line = Now().line;
    FT_ASSIGN(Value value, Primary(depth));
    if (SkipRest()) value = Value{.unknown = "computed in the recipe"};
    value.line = line;
    return value;
  }

  Result<Value> Primary(std::size_t depth) {
    const PythonToken token = Now();
    if (token.kind == Kind::kNumber) {
      ++at_;
      return Value{.text = token.text};
    }
    if (token.kind == Kind::kText) {
      Value value{.is_text = true};
      while (Is(Kind::kText)) value.text += tokens_[at_++].text;
      return value;
    }
    if (Is("-") && tokens_[at_ + 1].kind == Kind::kNumber) {
      at_ += 2;
      return Value{.text = "-" + tokens_[at_ - 1].text};
    }
    if (Is("[") || Is("(")) return List(depth);
    if (Is("{")) return Dictionary(depth);
    if (token.kind != Kind::kName) return Value{.unknown = "computed in the recipe"};
    return Named(depth);
  }

  // True, False, None, a variable, a constant of a module, or a call.
  Result<Value> Named(std::size_t depth) {
    std::string name = Now().text;
    ++at_;
    if (name == "True") return Value{.text = "true"};
    if (name == "False") return Value{.text = "false"};
    if (name == "None") return Value{.is_none = true};
    const auto variable = variables_.find(name);
    while (Take(".")) {
      if (!Is(Kind::kName)) return NoPython("a dot is followed by no name");
      name += "." + Now().text;
      ++at_;
    }
    if (Take("(")) return Call(name, depth);
    if (variable != variables_.end() && name.find('.') == std::string::npos) {
      const std::size_t size = SizeOf(variable->second);
      if (size > copies_) return NoPython("is too large");
      copies_ -= size;
      return variable->second;
    }
    if (name.find('.') != std::string::npos) return Value{.text = LastName(name)};
    return Value{.unknown = "the variable " + name + ", which the file does not set"};
  }

  Result<Value> Call(const std::string& name, std::size_t depth) {
    Value value;
    if (name != "dict") value.call = name;
    while (!Take(")")) {
      if (Is(Kind::kLine) || Is(Kind::kEnd)) return NoPython("a bracket is not closed");
      const bool is_named =
          Is(Kind::kName) && tokens_[at_ + 1].text == "=" && tokens_[at_ + 1].kind == Kind::kSign;
      const std::string member = is_named ? Now().text : "";
      if (is_named) at_ += 2;
      const std::size_t before = at_;
      FT_ASSIGN(Value argument, Expression(depth + 1));
      if (is_named) value.At(member) = std::move(argument);
      if (!Take(",") && !Is(")") && at_ == before) ++at_;
    }
    return value;
  }

  // Items separated by spaces; nested ones are numbered.
  Result<Value> List(std::size_t depth) {
    const std::string end = Is("[") ? "]" : ")";
    ++at_;
    Value value;
    std::vector<std::string> texts;
    while (!Take(end)) {
      if (Is(Kind::kLine) || Is(Kind::kEnd)) return NoPython("a bracket is not closed");
      const std::size_t before = at_;
      FT_ASSIGN(Value item, Expression(depth + 1));
      if (!item.unknown.empty()) value.unknown = item.unknown;
      if (item.IsTree()) {
        value.At(std::to_string(texts.size())) = std::move(item);
      } else {
        texts.push_back(std::move(item.text));
      }
      if (!Take(",") && !Is(end) && at_ == before) ++at_;
    }
    if (value.members.empty()) value.text = Join(texts, " ");
    return value;
  }

  Result<Value> Dictionary(std::size_t depth) {
    ++at_;
    Value value;
    while (!Take("}")) {
      if (Is(Kind::kLine) || Is(Kind::kEnd)) return NoPython("a bracket is not closed");
      const std::size_t before = at_;
      FT_ASSIGN(const Value name, Expression(depth + 1));
      if (Take(":")) {
        FT_ASSIGN(Value member, Expression(depth + 1));
        if (!name.text.empty()) value.At(name.text) = std::move(member);
      }
      if (!Take(",") && !Is("}") && at_ == before) ++at_;
    }
    return value;
  }

  std::vector<PythonToken> tokens_;  // ends in three of kEnd
  std::string_view file_;
  std::size_t at_ = 0;
  std::size_t copies_ = kMaxLaunchEntries;  // values of variables that may still be copied
  std::vector<int> conditions_;             // columns of open ifs and loops
  std::map<std::string, Value> variables_;
  std::optional<Value> root_;
};

}  // namespace

Result<LaunchText> ReadPython(std::string_view text, std::string_view file) {
  FT_ASSIGN(std::vector<PythonToken> tokens, PythonTokensOf(text, file));
  return PythonReader(std::move(tokens), file).Read();
}

}  // namespace foretrain
