// Entries of a shell script: the options of the command that starts the trainer, or its variables.
#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.h"
#include "sim/config/launch/syntax/launch_text.h"
#include "sim/config/launch/syntax/shell_script.h"

namespace foretrain {
namespace {

// Programs that start ranks. Options before the trainer's script are theirs.
constexpr std::array<std::string_view, 11> kLaunchers = {"torchrun",
                                                         "torch.distributed.launch",
                                                         "torch.distributed.run",
                                                         "deepspeed",
                                                         "accelerate",
                                                         "srun",
                                                         "mpirun",
                                                         "mpiexec",
                                                         "sbatch",
                                                         "salloc",
                                                         "launch"};

std::string Underscored(std::string_view key) {
  std::string out(key);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

// The first line that has `option` as a word; `otherwise` if none has.
int LineOf(std::string_view text, std::string_view option, int otherwise) {
  int line = 1;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view one = text.substr(at, end - at);
    const std::size_t found = one.find(option);
    const auto is_word = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
    };
    if (found != std::string_view::npos && !Trim(one).starts_with('#') &&
        (found + option.size() == one.size() || !is_word(one[found + option.size()]))) {
      return line;
    }
    at = end + 1;
    ++line;
  }
  return otherwise;
}

// Options of `#SBATCH` lines, which count as the launcher's.
void ReadBatchLines(std::string_view text, std::vector<LaunchItem>& entries) {
  int line = 0;
  for (const std::string_view one : Split(text, '\n')) {
    ++line;
    if (!one.starts_with("#SBATCH")) continue;
    std::string_view rest = Trim(one.substr(7));
    if (!rest.starts_with("--")) continue;
    rest.remove_prefix(2);
    const std::size_t end = rest.find_first_of("= \t");
    if (end == std::string_view::npos) continue;
    std::string_view value = Trim(rest.substr(end + 1));
    value = value.substr(0, value.find_first_of(" \t#"));
    entries.push_back({"sbatch." + Underscored(rest.substr(0, end)), std::string(value), line, ""});
  }
}

// Splits a command into the launcher's and the trainer's options.
void ReadOptions(const FoundCommand& command, std::string_view text, const ShellValues& values,
                 std::vector<LaunchItem>& entries) {
  const auto& words = command.words;
  // The trainer's options follow its script; without one, a launcher's name, or nothing.
  std::size_t script = 0;
  bool has_launcher = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view base = std::string_view(words[i]).substr(words[i].rfind('/') + 1);
    if (std::find(kLaunchers.begin(), kLaunchers.end(), base) != kLaunchers.end()) {
      has_launcher = true;
    }
    if (script == 0 && IsScript(words[i]) && !IsOption(words[i])) script = i + 1;
  }
  // "python -m module" names the trainer's program too.
  for (std::size_t i = 0; script == 0 && i + 1 < words.size(); ++i) {
    const bool is_launcher = words[i + 1].starts_with("torch.distributed");
    if (words[i] == "-m" && !is_launcher) script = i + 2;
  }
  if (script == 0 && has_launcher) script = words.size();
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    LaunchItem entry;
    if (IsOption(word)) {
      const std::size_t equals = word.find('=');
      entry.key = word.substr(2, equals == std::string::npos ? equals : equals - 2);
      if (equals != std::string::npos) {
        entry.value = word.substr(equals + 1);
      } else {
        std::vector<std::string> parts;
        const std::size_t end = i < script ? std::min(script - 1, words.size()) : words.size();
        while (i + 1 < end && !IsOption(words[i + 1]) &&
               !(parts.size() == 1 && IsOverride(words[i + 1]))) {
          parts.push_back(words[++i]);
          if (i < script) break;
        }
        entry.value = parts.empty() ? "true" : Join(parts, " ");
      }
    } else if (i + 1 < script && (word == "-N" || word == "-n" || word == "-np")) {
      entry.key = word == "-N" ? "launcher.nodes" : "launcher.num_processes";
      entry.value = words[++i];
      entry.line = command.line;
      entry.unknown = values.WhyUnknown(entry.value);
      entries.push_back(std::move(entry));
      continue;
    } else if (IsOverride(word) && i >= script) {
      const std::size_t equals = word.find('=');
      entry.key = word.substr(0, equals);
      while (entry.key.starts_with('+')) entry.key.erase(0, 1);
      entry.value = word.substr(equals + 1);
    } else {
      continue;
    }
    entry.line = LineOf(text, IsOption(word) ? "--" + entry.key : entry.key, command.line);
    entry.unknown = values.WhyUnknown(entry.value);
    if (i < script) entry.key = "launcher." + Underscored(entry.key);
    entries.push_back(std::move(entry));
  }
}

// Without carriage returns and the bytes that mark unknown values.
std::string Cleaned(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != '\r' && c != '\x01' && c != '\x02') out += c;
  }
  return out;
}

}  // namespace

Result<LaunchText> ReadShell(std::string_view raw, std::string_view file) {
  const std::string text = Cleaned(raw);
  FT_ASSIGN(FollowedScript script, FollowScript(text, file));
  LaunchText out;
  out.notes = std::move(script.notes);
  ReadBatchLines(text, out.entries);
  ReadOptions(script.best, text, script.values, out.entries);
  return out;
}

Result<LaunchText> ReadShellVariables(std::string_view raw, std::string_view file) {
  const std::string text = Cleaned(raw);
  FT_ASSIGN(FollowedScript script, FollowScript(text, file));
  LaunchText out;
  out.notes = std::move(script.notes);
  for (const auto& [name, values] : script.values.variables()) {
    const std::string value = Join(values, " ");
    out.entries.push_back({name, value, LineOf(text, name, 1), script.values.WhyUnknown(value)});
  }
  return out;
}

}  // namespace foretrain
