#include "app/run_app.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>

#include "app/build_info.h"
#include "app/cli/command.h"
#include "app/cli/help.h"
#include "app/training/checkpoints.h"
#include "base/text.h"

namespace foretrain {
namespace {

constexpr const char* kDescription =
    "foretrain: forecast a training run, run it, and see where the forecast was wrong.\n"
    "Start with `foretrain demo`, or `foretrain plan --model gpt2-124m --cluster local`.";

// Version, commit, compiler and the parts left out of this build, one a line.
std::string VersionText() {
  std::string text = "foretrain ";
  text.append(kBuildInfo.version).append("\ncommit ").append(kBuildInfo.commit);
  text.append("\ncompiler ").append(kBuildInfo.compiler);
  text.append(" (").append(kBuildInfo.build_type).append(")\nleft out: ");
  text.append(kBuildInfo.left_out.empty() ? "nothing" : kBuildInfo.left_out).append("\n");
  return text;
}

int Fail(const Error& error, bool json) {
  std::fprintf(stderr, "foretrain: %s\n", error.message.c_str());
  const int code = static_cast<int>(ExitOf(error.code));
  if (json) {
    const nlohmann::json text = {{"schema", 1}, {"error", error.message}, {"exit_code", code}};
    std::puts(text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  }
  return code;
}

// The first of the arguments that the command does not know, with the nearest option that it has.
std::string UnknownArgument(const CLI::App& command, const std::vector<std::string>& left) {
  // The library hands them back last first, and with an unknown option what was meant as its value.
  auto unknown = std::find_if(left.rbegin(), left.rend(),
                              [](const std::string& text) { return text.starts_with("-"); });
  if (unknown == left.rend()) {
    return "`foretrain " + command.get_name() + "` takes no argument \"" + Printable(left.back()) +
           "\"";
  }
  const std::string name = unknown->substr(0, unknown->find('='));
  std::vector<std::string> options;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& known : option->get_lnames()) options.push_back("--" + known);
  }
  const std::vector<std::string_view> known(options.begin(), options.end());
  return "`foretrain " + command.get_name() + "` has no option " + Printable(name) +
         DidYouMean(name, known);
}

// One sentence for what the command line library found wrong.
std::string UsageError(const CLI::App& app, const CLI::ParseError& error,
                       const std::vector<std::string>& given) {
  if (app.get_subcommands().empty()) {
    if (given.empty()) return "give a command, such as `foretrain demo`";
    std::vector<std::string_view> names;
    for (const CommandEntry& entry : CommandTable()) names.emplace_back(entry.name);
    const std::string& first = given.front();
    return (first.starts_with('-') ? "no option " + Printable(first)
                                   : "no command \"" + Printable(first) + "\"") +
           DidYouMean(first, names);
  }
  const CLI::App& command = *app.get_subcommands().front();
  const std::vector<std::string> left = command.remaining();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !left.empty())
    return UnknownArgument(command, left);
  const std::string text = error.what();
  // "Could not convert: --steps = x"
  const auto option = text.find("--"), value = text.find(" = ");
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr && option != std::string::npos &&
      value != std::string::npos && option < value) {
    return text.substr(option, value - option) + ": \"" + Printable(text.substr(value + 3)) +
           "\" is not a number that it takes";
  }
  // "--layers: At Most 1 required but received 2"
  const std::string_view mark = ": At Most 1 required but received ";
  if (const auto at = text.find(mark); at != std::string::npos) {
    return text.substr(0, at) + " is given " + text.substr(at + mark.size()) +
           " times: give it once";
  }
  // "--data: 1 required FILE missing"
  const std::string_view one = ": 1 required ", missing = " missing";
  if (const auto at = text.find(one); at != std::string::npos && text.ends_with(missing)) {
    const auto from = at + one.size();
    return text.substr(0, at) + ": " + text.substr(from, text.size() - from - missing.size()) +
           " is missing";
  }
  return text;
}

// Help and version go to stdout with code 0. Anything else is a usage error: one line on stderr and
// code 2.
int Usage(CLI::App& app, const CLI::ParseError& error, const HelpRequest& request) {
  if (dynamic_cast<const CLI::CallForHelp*>(&error) != nullptr) {
    std::fputs(HelpText(app, request.all).c_str(), stdout);
    return static_cast<int>(Exit::kDone);
  }
  if (error.get_exit_code() == 0) return app.exit(error);  // --version
  const std::string message = UsageError(app, error, request.arguments);
  const bool ends = message.ends_with('?') || message.ends_with('.');
  const std::string command =
      app.get_subcommands().empty() ? "" : app.get_subcommands().front()->get_name() + " ";
  std::fprintf(stderr, "foretrain: %s%s `foretrain %s--help%s` lists what there is.\n",
               message.c_str(), ends ? "" : ".", command.c_str(), command.empty() ? "" : " all");
  return static_cast<int>(Exit::kBadInput);
}

// Parses the arguments. An option that `repeats` may be given again, and the last one counts.
void Parse(CLI::App& app, std::vector<std::string> arguments, bool repeats) {
  if (repeats) {
    for (CLI::Option* option : app.get_subcommand(arguments.front())->get_options()) {
      if (option->get_items_expected_max() <= 1) {
        option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
      }
    }
  }
  std::reverse(arguments.begin(), arguments.end());  // as the library wants them
  app.parse(std::move(arguments));
}

// Parses twice: the parser splits the command line, then each option's own reader checks its text.
// The command runs only if both succeed. Returns the exit code.
int Run(int argc, char** argv) {
  const HelpRequest request = RequestOf({argv + std::min(argc, 1), argv + argc});
  const Result<std::vector<std::string>> arguments = WithSavedArguments(request.arguments);
  if (!arguments.has_value()) return Fail(arguments.error(), /*json=*/false);
  CLI::App app(kDescription, "foretrain");
  app.set_version_flag("-V,--version", VersionText());
  app.require_subcommand(1);
  app.get_formatter()->column_width(38);
  Command* chosen = nullptr;
  std::vector<std::unique_ptr<Command>> commands;
  std::map<const Command*, Arguments> arguments_of;
  for (const CommandEntry& entry : CommandTable()) {
    Command* const command = commands.emplace_back(entry.make()).get();
    CLI::App* sub = app.add_subcommand(entry.name, entry.summary);
    sub->get_formatter()->column_width(38);
    command->Declare(arguments_of.try_emplace(command, *sub).first->second);
    sub->callback([&chosen, command] { chosen = command; });
  }
  try {
    Parse(app, *arguments, /*repeats=*/*arguments != request.arguments);
  } catch (const CLI::ParseError& error) {
    return Usage(app, error, request);
  }
  chosen->set_arguments({arguments->begin() + 1, arguments->end()});
  const Result<void> read = arguments_of.at(chosen).Read();
  const Result<Exit> result =
      read.has_value() ? chosen->Run() : Result<Exit>(tl::unexpected<Error>(read.error()));
  const int end =
      result.has_value() ? static_cast<int>(*result) : Fail(result.error(), chosen->json());
  // The exit code tells a reader that the output is not complete.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::fputs("foretrain: what is printed was cut short: standard output cannot be written\n",
               stderr);
    return end == 0 ? static_cast<int>(Exit::kFault) : end;
  }
  return end;
}

}  // namespace

// The outermost frame: an exception of a library ends as a message and a code, never as a crash.
int RunApp(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const std::system_error& error) {
    const bool no_thread = error.code() == std::errc::resource_unavailable_try_again;
    std::fprintf(stderr, "foretrain: %s\n",
                 no_thread
                     ? "no more threads can be started: raise the limit (ulimit -u, or pids of "
                       "the container)"
                     : error.what());
    return static_cast<int>(Exit::kFault);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "foretrain: a fault inside: %s\n", error.what());
    return static_cast<int>(Exit::kFault);
  }
}

}  // namespace foretrain
