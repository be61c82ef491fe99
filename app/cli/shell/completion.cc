// Completion scripts for bash, zsh and fish.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/cli/shell/command_descriptions.h"
#include "base/text.h"

namespace foretrain {
namespace {

// Options whose value a command of the program lists.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kListed = {
    {{"--model", "models"}, {"--preset", "presets"}, {"--cluster", "clusters"}}};

std::string NamesOf(const std::vector<CommandDescription>& commands) {
  std::vector<std::string> names;
  for (const CommandDescription& command : commands) names.push_back(command.name);
  return Join(names, " ");
}

// `text` for a string in single quotes of a shell.
std::string Quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    c == '\'' ? out += "'\\''" : out += c;
  }
  return out + "'";
}

// Text of a description in zsh's _arguments: colons and brackets end it there.
std::string ForZsh(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == ':' || c == '[' || c == ']' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

bool IsListed(const OptionDescription& option) {
  return std::any_of(kListed.begin(), kListed.end(), [&](const auto& listed) {
    return std::find(option.names.begin(), option.names.end(), listed.first) != option.names.end();
  });
}

// Shell code that prints the names in the first column of `foretrain LIST`.
std::string Listing(std::string_view list) {
  return fmt::format("foretrain {} --csv 2>/dev/null | sed -e 1d -e 's/[ ,].*//'", list);
}

}  // namespace

// One case for each option that takes known words; every other value is completed as a file.
std::string BashCompletion(const std::vector<CommandDescription>& commands) {
  std::string text =
      "# bash completion of foretrain; load it by: source <(foretrain completion bash)\n"
      "_foretrain() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n";
  text += fmt::format("    COMPREPLY=($(compgen -W '{} help --help --version' -- \"$word\"))\n",
                      NamesOf(commands));
  text += "    return\n  fi\n  case $last in\n";
  for (const auto& [option, list] : kListed) {
    text += fmt::format(
        "    {})\n      COMPREPLY=($(compgen -f -W \"$({})\" -- \"$word\"))\n      return ;;\n",
        option, Listing(list));
  }
  text += "  esac\n  case ${COMP_WORDS[1]} in\n";
  text += fmt::format("    help)\n      COMPREPLY=($(compgen -W '{}' -- \"$word\"))\n      ;;\n",
                      NamesOf(commands));
  for (const CommandDescription& command : commands) {
    std::vector<std::string> names;
    std::string cases;
    for (const OptionDescription& option : command.options) {
      names.insert(names.end(), option.names.begin(), option.names.end());
      const std::vector<std::string> words = option.Words();
      if (words.empty() && !option.TakesFile()) continue;
      if (IsListed(option)) continue;
      cases += fmt::format(
          "        {})\n          COMPREPLY=($(compgen {} -- \"$word\"))\n"
          "          return ;;\n",
          Join(option.names, "|"), words.empty() ? "-f" : "-W '" + Join(words, " ") + "'");
    }
    text += fmt::format("    {})\n", command.name);
    if (!cases.empty()) text += "      case $last in\n" + cases + "      esac\n";
    text += fmt::format(
        "      if [[ $word == -* ]]; then\n"
        "        COMPREPLY=($(compgen -W '{}' -- \"$word\"))\n"
        "      else\n        COMPREPLY=($(compgen -f -- \"$word\"))\n      fi\n      ;;\n",
        Join(names, " "));
  }
  return text + "  esac\n}\ncomplete -o filenames -F _foretrain foretrain\n";
}

// One function with _arguments for each command.
std::string ZshCompletion(const std::vector<CommandDescription>& commands) {
  std::string text =
      "#compdef foretrain\n"
      "# zsh completion of foretrain; load it by: source <(foretrain completion zsh)\n"
      "_foretrain() {\n  local -a commands\n  commands=(\n";
  for (const CommandDescription& command : commands) {
    text += "    " + Quoted(command.name + ":" + ForZsh(command.summary)) + "\n";
  }
  text +=
      "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n"
      "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n";
  for (const CommandDescription& command : commands) {
    text += "    " + command.name + ")\n      _arguments";
    for (const OptionDescription& option : command.options) {
      std::string action;
      if (!option.value.empty()) {
        const std::vector<std::string> words = option.Words();
        action = ":" + ForZsh(option.value) + ":";
        if (!words.empty()) {
          action += "(" + Join(words, " ") + ")";
        } else if (option.TakesFile()) {
          action += "_files";
        }
        for (const auto& [name, list] : kListed) {
          if (option.names.front() == name) {
            action = fmt::format(":{}:($({}))", ForZsh(option.value), Listing(list));
          }
        }
      }
      for (const std::string& name : option.names) {
        text += " \\\n        ";
        text += Quoted(fmt::format("{}[{}]{}", name, ForZsh(option.help), action));
      }
    }
    text += " \\\n        '*:file:_files'\n      ;;\n";
  }
  return text + "  esac\n}\ncompdef _foretrain foretrain\n";
}

// One line for each command and each option.
std::string FishCompletion(const std::vector<CommandDescription>& commands) {
  std::string text =
      "# fish completion of foretrain; load it by: foretrain completion fish | source\n"
      "complete -c foretrain -n __fish_use_subcommand -f\n";
  for (const CommandDescription& command : commands) {
    text += fmt::format("complete -c foretrain -n __fish_use_subcommand -a {} -d {}\n",
                        command.name, Quoted(command.summary));
  }
  for (const CommandDescription& command : commands) {
    for (const OptionDescription& option : command.options) {
      text +=
          fmt::format("complete -c foretrain -n '__fish_seen_subcommand_from {}'", command.name);
      for (const std::string& name : option.names) {
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      const std::vector<std::string> words = option.Words();
      if (!words.empty()) {
        text += " -x -a " + Quoted(Join(words, " "));
      } else if (!option.value.empty()) {
        text += option.TakesFile() ? " -r" : " -x";
      }
      for (const auto& [name, list] : kListed) {
        if (option.names.front() == name) text += " -a " + Quoted("(" + Listing(list) + ")");
      }
      text += " -d " + Quoted(option.help) + "\n";
    }
  }
  return text;
}

}  // namespace foretrain
