#include "app/cli/shell/command_descriptions.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <memory>

#include "app/cli/command.h"
#include "base/text.h"

namespace foretrain {
namespace {

OptionDescription Describe(const CLI::Option& option) {
  OptionDescription out;
  for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
  if (option.get_items_expected_max() > 0) out.value = option.get_type_name();
  out.help = option.get_description();
  return out;
}

}  // namespace

std::vector<std::string> OptionDescription::Words() const {
  std::vector<std::string> words;
  for (const std::string_view word : Split(value, '|')) words.emplace_back(word);
  const auto is_lower = [](unsigned char c) {
    return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '-';
  };
  const bool all =
      words.size() > 1 && std::all_of(words.begin(), words.end(), [&](const auto& word) {
        return !word.empty() && std::all_of(word.begin(), word.end(), is_lower);
      });
  return all ? words : std::vector<std::string>{};
}

bool OptionDescription::TakesFile() const {
  for (const char* word : {"FILE", "PATH", "DIR", "FOLDER", "STORE"}) {
    if (value.find(word) != std::string::npos) return true;
  }
  return false;
}

// Options without a name are arguments, which no shell completes.
std::vector<CommandDescription> DescribeCommands() {
  std::vector<CommandDescription> out;
  for (const CommandEntry& entry : CommandTable()) {
    CLI::App app;
    const std::unique_ptr<Command> command = entry.make();
    Arguments arguments(app);
    command->Declare(arguments);
    CommandDescription description{entry.name, entry.summary, app.get_footer(), {}};
    for (const CLI::Option* option : app.get_options()) {
      OptionDescription one = Describe(*option);
      if (!one.names.empty()) description.options.push_back(std::move(one));
    }
    out.push_back(std::move(description));
  }
  return out;
}

}  // namespace foretrain
