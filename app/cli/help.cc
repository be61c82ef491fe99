#include "app/cli/help.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "app/cli/command.h"

namespace foretrain {
namespace {

// Commands with more options show the main ones alone.
constexpr std::size_t kFew = 40;

// Main options of any command.
constexpr std::string_view kMain[] = {
    "help",     "model",        "cluster",     "ranks",     "max-memory", "preset", "from",
    "dp",       "tp",           "pp",          "cp",        "ep",         "zero",   "schedule",
    "sequence", "global-batch", "micro-batch", "recompute", "precision",  "vary",   "for",
    "top",      "emit",         "out",         "data",      "steps",      "lr",     "save",
    "resume",   "device",       "store",       "run",       "log",        "trace",  "json"};

bool IsMain(const CLI::Option& option) {
  const std::vector<std::string>& names = option.get_lnames();
  return names.empty() || std::any_of(names.begin(), names.end(), [](const std::string& name) {
           return std::find(std::begin(kMain), std::end(kMain), name) != std::end(kMain);
         });
}

bool IsCommand(const std::string& name) {
  const std::span<const CommandEntry> table = CommandTable();
  return std::any_of(table.begin(), table.end(),
                     [&name](const CommandEntry& entry) { return name == entry.name; });
}

}  // namespace

HelpRequest RequestOf(std::vector<std::string> arguments) {
  HelpRequest request;
  if (!arguments.empty() && arguments.front() == "help") {
    arguments.erase(arguments.begin());
    request.all = arguments.size() > 1 && arguments[1] == "all";
    arguments.resize(std::min<std::size_t>(arguments.size(), 1));
    if (arguments.empty() || IsCommand(arguments.front())) arguments.emplace_back("--help");
  }
  for (std::size_t i = 0; i + 1 < arguments.size(); ++i) {
    if ((arguments[i] != "--help" && arguments[i] != "-h") || arguments[i + 1] != "all") continue;
    request.all = true;
    arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
  request.arguments = std::move(arguments);
  return request;
}

std::string HelpText(CLI::App& app, bool all) {
  std::string more;
  if (!all && !app.get_subcommands().empty()) {
    CLI::App& command = *app.get_subcommands().front();
    const std::vector<CLI::Option*> options = command.get_options();
    std::size_t hidden = 0;
    for (CLI::Option* option : options) {
      if (options.size() <= kFew || IsMain(*option)) continue;
      option->group("");
      ++hidden;
    }
    if (hidden > 0) {
      more = std::to_string(hidden) + " more options: foretrain " + command.get_name() +
             " --help all\n";
    }
  }
  std::string text = app.help("", CLI::AppFormatMode::Normal);
  // One empty line for two of the library's.
  for (std::size_t at; (at = text.find("\n\n\n")) != std::string::npos;) text.erase(at, 1);
  return text + more;
}

}  // namespace foretrain
