#include "sim/config/launch/syntax/shell_script.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <utility>

#include "base/text.h"
#include "sim/config/launch/syntax/launch_text.h"
#include "sim/config/launch/syntax/shell_words.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

constexpr int kMaxCommands = 1 << 15;
constexpr int kMaxEvals = 4;  // scripts within strings

// The blocks of a script are one state.
class Script {
 public:
  explicit Script(std::string_view file) : file_(file) {}

  Result<void> Run(std::string_view text, int depth) {
    FT_ASSIGN(const auto commands, SplitShell(text, file_));
    for (std::size_t i = 0; i < commands.size(); ++i) {
      if (++run_ > kMaxCommands) {
        return Refuse(
            "{}: has more than {} commands; give the command that starts the trainer "
            "alone",
            file_, kMaxCommands);
      }
      line_ = commands[i].line;
      const auto ran = RunOne(commands[i], depth);
      if (!ran) {
        return Fail(ran.error().code,
                    fmt::format("{} line {}: {}", file_, commands[i].line, ran.error().message));
      }
    }
    return {};
  }

  FollowedScript Take() { return {std::move(best_), std::move(values_), std::move(notes)}; }

  std::vector<std::string> notes;

 private:
  // A branch of `if`, `case` or a loop runs, is skipped, or may run.
  enum class Mode { kRun, kSkip, kMaybe };
  struct Block {
    Mode mode = Mode::kRun;  // of the branch that is read now
    bool decided = false;    // an earlier branch ran
    bool maybe = false;      // an earlier branch may have run
    bool in_condition = false;
    std::string subject;  // of `case`
    bool is_case = false, in_pattern = false;
    std::optional<bool> condition = std::nullopt;
  };

  Mode mode() const {
    Mode now = Mode::kRun;
    for (const Block& block : blocks_) {
      if (block.mode == Mode::kSkip) return Mode::kSkip;
      if (block.mode == Mode::kMaybe) now = Mode::kMaybe;
    }
    return now;
  }

  void EnterBranch(Block& block, std::optional<bool> condition) {
    if (block.decided || condition == false) {
      block.mode = Mode::kSkip;
    } else if (!condition || block.maybe) {
      block.mode = Mode::kMaybe;
      block.maybe = true;
    } else {
      block.mode = Mode::kRun;
    }
    block.decided = block.decided || condition == true;
  }

  Result<void> RunOne(const ShellCommand& command, int depth) {
    std::vector<ShellWord> words = command.words;
    const bool ends_case = command.ends_case;
    while (!words.empty()) {
      const std::string first = words.front().raw;
      if (first == "if" || first == "while" || first == "until" || first == "for") {
        Block block;
        block.in_condition = first != "for";
        // Commands of a condition are no part of the block: it runs until "then".
        blocks_.push_back(block);
        if (first == "for") {
          if (words.size() > 1) loop_variable_ = words[1].raw;
          words.clear();
          break;
        }
      } else if (first == "then" || first == "do") {
        if (blocks_.empty()) return {};
        Block& block = blocks_.back();
        if (first == "then") {
          EnterBranch(block, block.condition);
        } else {
          block.mode = Mode::kMaybe;
          if (!loop_variable_.empty()) {
            values_.Forget(loop_variable_, "is the variable of a loop");
            loop_variable_.clear();
          }
        }
        block.in_condition = false;
        block.condition.reset();
      } else if (first == "elif") {
        if (blocks_.empty()) return {};
        blocks_.back().in_condition = true;
        blocks_.back().mode = Mode::kRun;
      } else if (first == "else") {
        if (blocks_.empty()) return {};
        EnterBranch(blocks_.back(), true);
      } else if (first == "fi" || first == "done" || first == "esac") {
        if (!blocks_.empty()) blocks_.pop_back();
      } else if (first == "case" && words.size() >= 3) {
        FT_ASSIGN(const auto subject, values_.Expand(words[1].raw));
        Block block;
        block.is_case = block.in_pattern = true;
        block.mode = Mode::kSkip;
        block.subject = Join(subject, " ");
        blocks_.push_back(block);
        words.erase(words.begin(), words.begin() + 3);
        continue;
      } else if (!blocks_.empty() && blocks_.back().in_pattern) {
        FT_TRY(EnterPattern(blocks_.back(), words));
        if (words.empty()) break;
        continue;
      } else if (first == "{" || first == "}" || first == "!" || first == "function" ||
                 first == ")") {
        // A group or a function runs where it stands.
      } else {
        break;
      }
      words.erase(words.begin());
    }
    if (!words.empty()) FT_TRY(RunSimple(words, command, depth));
    if (ends_case && !blocks_.empty() && blocks_.back().is_case) {
      blocks_.back().in_pattern = true;
      blocks_.back().mode = Mode::kSkip;
      patterns_.clear();
    }
    return {};
  }

  // "7b)" or one of several "7b | 8b)", which come as commands of their own.
  Result<void> EnterPattern(Block& block, std::vector<ShellWord>& words) {
    std::string pattern = words.front().raw;
    words.erase(words.begin());
    const bool ends = pattern.ends_with(')');
    if (ends) pattern.pop_back();
    FT_ASSIGN(const auto expanded, values_.Expand(pattern));
    patterns_.push_back(Join(expanded, " "));
    if (!ends) return {};
    std::string subject = block.subject;
    std::optional<bool> condition = false;
    const bool known = values_.KnownText(subject);
    for (const std::string& one : patterns_) {
      if (one == "*" || (known && one == subject)) condition = true;
    }
    if (!known && condition == false) condition = std::nullopt;
    patterns_.clear();
    block.in_pattern = false;
    EnterBranch(block, condition);
    return {};
  }

  Result<void> RunSimple(std::vector<ShellWord>& words, const ShellCommand& command, int depth) {
    const std::string& first = words.front().raw;
    const bool is_test = first == "[" || first == "[[" || first == "test";
    const bool in_condition = !blocks_.empty() && blocks_.back().in_condition;
    const char joined = joiner_;
    const std::optional<bool> before = last_;
    joiner_ = command.joiner;
    if (is_test || in_condition) {
      std::optional<bool> result;
      if (is_test) {
        FT_ASSIGN(result, Test(words));
      }
      last_ = result;
      if (joined != 0) {
        const bool is_and = joined == '&';
        const bool short_cut = before.has_value() && *before != is_and;
        last_ = short_cut ? before : before.has_value() ? result : std::nullopt;
      }
      if (in_condition) blocks_.back().condition = last_;
      return {};
    }
    // A command after "&&" or "||" runs as the test before it says.
    Block block;
    if (joined != 0) {
      block.mode = !before ? Mode::kMaybe : *before == (joined == '&') ? Mode::kRun : Mode::kSkip;
    }
    blocks_.push_back(block);
    const auto ran = RunPlain(words, command.line, depth);
    blocks_.pop_back();
    last_ = std::nullopt;
    return ran;
  }

  Result<void> RunPlain(std::vector<ShellWord>& words, int line, int depth) {
    if (mode() == Mode::kSkip) return {};
    static const std::set<std::string_view> prefixes{"export",  "declare", "local", "readonly",
                                                     "typeset", "exec",    "time",  "nohup",
                                                     "eval",    "command", "sudo",  "env"};
    bool is_eval = false;
    while (!words.empty()) {
      const std::string& word = words.front().raw;
      if (prefixes.contains(word)) {
        is_eval = is_eval || word == "eval";
      } else if (word.size() > 1 && word[0] == '-' && !IsOption(word)) {
        // An option of the word before, such as "declare -x".
      } else {
        FT_ASSIGN(const bool assigned, AssignWord(words.front()));
        if (!assigned) break;
      }
      words.erase(words.begin());
    }
    if (words.empty()) return {};
    std::vector<std::string> expanded;
    for (const ShellWord& word : words) {
      FT_ASSIGN(const auto fields, values_.Expand(word.raw));
      expanded.insert(expanded.end(), fields.begin(), fields.end());
      if (expanded.size() > kMaxLaunchEntries) {
        return Refuse("a command has more than {} words", kMaxLaunchEntries);
      }
    }
    if (expanded.empty()) return {};
    const std::string& name = expanded.front();
    if (name == "source" || name == ".") {
      const std::string target = expanded.size() > 1 ? expanded[1] : "";
      notes.push_back(fmt::format("{} line {}: a sourced file is not read", file_, line));
      return {};
    }
    if (name == "unset") {
      for (std::size_t i = 1; i < expanded.size(); ++i) values_.Unset(expanded[i]);
      return {};
    }
    static const std::set<std::string_view> quiet{"echo", "printf", "mkdir", "cat",  "cd",
                                                  "set",  "module", "pip",   "exit", ":"};
    if (quiet.contains(name)) return {};
    // Scripts within strings: eval, bash -c "...".
    if (depth < kMaxEvals) {
      if (is_eval) return Run(Join(expanded, " "), depth + 1);
      for (std::size_t i = 1; i + 1 < expanded.size(); ++i) {
        const bool is_shell = expanded[i - 1].ends_with("bash") || expanded[i - 1].ends_with("sh");
        if (is_shell && expanded[i].starts_with('-') && expanded[i].ends_with('c')) {
          for (std::size_t k = 0; k < i; ++k) outer_.push_back(expanded[k]);
          return Run(expanded[i + 1], depth + 1);
        }
      }
    }
    Consider(expanded, line);
    return {};
  }

  Result<bool> AssignWord(const ShellWord& word) {
    FT_ASSIGN(const bool assigned, values_.Assign(word.raw, word.is_array));
    if (assigned && mode() == Mode::kMaybe) {
      const std::string name = word.raw.substr(0, word.raw.find_first_of("+="));
      values_.Forget(name, fmt::format("depends on a condition at line {}", line_));
    }
    return assigned;
  }

  // Keeps the command if it looks more like a trainer's than those before.
  void Consider(const std::vector<std::string>& words, int line) {
    std::size_t options = 0;
    for (const std::string& word : words) {
      options += (IsOption(word) || IsOverride(word)) ? 1 : 0;
      if (IsScript(word)) options += 1;
    }
    // Lines of options alone belong together.
    if (IsOption(words.front()) && !best_.words.empty() && IsOption(best_.words.front())) {
      best_.words.insert(best_.words.end(), words.begin(), words.end());
      best_.options += options;
      return;
    }
    if (options < best_.options || options == 0) return;
    best_ = {outer_, line, options};
    best_.words.insert(best_.words.end(), words.begin(), words.end());
    outer_.clear();
  }

  // [ A = B ], [ A -gt B ], [ -z A ], [ -n A ] and their negation, over known values.
  Result<std::optional<bool>> Test(const std::vector<ShellWord>& words) {
    std::vector<std::string> parts;
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::string& raw = words[i].raw;
      if (raw == "]" || raw == "]]") continue;
      FT_ASSIGN(const auto fields, values_.Expand(raw));
      std::string text = Join(fields, " ");
      if (!values_.KnownText(text)) return std::optional<bool>();
      parts.push_back(text);
    }
    bool negated = false;
    if (!parts.empty() && parts.front() == "!") {
      negated = true;
      parts.erase(parts.begin());
    }
    const std::optional<bool> result = Decide(parts);
    return result ? std::optional<bool>(*result != negated) : std::nullopt;
  }

  static std::optional<bool> Decide(const std::vector<std::string>& parts) {
    if (parts.size() == 1) return !parts[0].empty();
    if (parts.size() == 2 && parts[0] == "-z") return parts[1].empty();
    if (parts.size() == 2 && parts[0] == "-n") return !parts[1].empty();
    if (parts.size() != 3) return std::nullopt;
    const std::string& op = parts[1];
    if (op == "=" || op == "==") return parts[0] == parts[2];
    if (op == "!=") return parts[0] != parts[2];
    const auto left = ParseInt("", parts[0], INT64_MIN, INT64_MAX);
    const auto right = ParseInt("", parts[2], INT64_MIN, INT64_MAX);
    if (!left || !right) return std::nullopt;
    if (op == "-eq") return *left == *right;
    if (op == "-ne") return *left != *right;
    if (op == "-gt") return *left > *right;
    if (op == "-ge") return *left >= *right;
    if (op == "-lt") return *left < *right;
    if (op == "-le") return *left <= *right;
    return std::nullopt;
  }

  std::string file_;
  ShellValues values_;
  std::vector<Block> blocks_;
  std::vector<std::string> patterns_;  // of the branch of `case` that is read now
  std::vector<std::string> outer_;     // words before "bash -c"
  std::string loop_variable_;
  std::optional<bool> last_;  // the result of the last test
  char joiner_ = 0;           // that follows the last command
  FoundCommand best_;
  int line_ = 0;
  int run_ = 0;
};

}  // namespace

Result<FollowedScript> FollowScript(std::string_view text, std::string_view file) {
  Script script(file);
  FT_TRY(script.Run(text, 0));
  return script.Take();
}

bool IsOption(std::string_view word) {
  return word.size() > 2 && word.starts_with("--") &&
         std::isalpha(static_cast<unsigned char>(word[2])) != 0;
}

bool IsOverride(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos || equals == 0) return false;
  const std::string_view key = word.substr(0, equals);
  return std::all_of(key.begin(), key.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '+';
  });
}

bool IsScript(std::string_view word) { return word.ends_with(".py"); }

}  // namespace foretrain
