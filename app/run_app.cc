#include "app/run_app.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>

#include "app/command.h"
#include "app/version.h"
#include "base/text.h"

namespace foretrain {
namespace {

constexpr const char* kDescription =
    "foretrain: forecast a training run, run it, and see where the forecast was wrong.\n"
    "Start with `foretrain demo`, or `foretrain plan --model gpt2-124m --cluster local`.";

int Fail(const Error& error, bool json) {
  std::fprintf(stderr, "foretrain: %s\n", error.message.c_str());
  const int code = static_cast<int>(ExitOf(error.code));
  if (json) {
    const nlohmann::json text = {{"schema", 1}, {"error", error.message}, {"exit_code", code}};
    std::puts(text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  }
  return code;
}

// What the command line library says, with the nearest command where the name is unknown.
int Usage(CLI::App& app, const CLI::ParseError& error, int argc, char** argv,
          const CommandList& commands) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help
  std::string message = error.what();
  if (argc > 1 && argv[1][0] != '-' && app.get_subcommands().empty()) {
    std::vector<std::string_view> names;
    for (const auto& command : commands) names.push_back(command->Name());
    message = "no command \"" + Printable(argv[1]) + "\"" + DidYouMean(argv[1], names);
  }
  std::fprintf(stderr, "foretrain: %s. `foretrain %s--help` lists what there is.\n",
               message.c_str(),
               app.get_subcommands().empty() ? "" : (std::string(argv[1]) + " ").c_str());
  return static_cast<int>(Exit::kBadInput);
}

int Run(int argc, char** argv) {
  CommandList commands = AllCommands();
  CLI::App app(kDescription, "foretrain");
  app.set_version_flag("--version", VersionText());
  app.require_subcommand(1);
  app.get_formatter()->column_width(38);
  Command* chosen = nullptr;
  for (const auto& command : commands) {
    CLI::App* sub =
        app.add_subcommand(std::string(command->Name()), std::string(command->Summary()));
    sub->get_formatter()->column_width(38);
    Arguments arguments(*sub);
    command->Declare(arguments);
    sub->callback([&chosen, raw = command.get()] { chosen = raw; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return Usage(app, error, argc, argv, commands);
  }
  const Result<Exit> result = chosen->Run();
  std::fflush(stdout);
  if (!result.has_value()) return Fail(result.error(), chosen->json());
  return static_cast<int>(*result);
}

}  // namespace

int RunApp(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "foretrain: a fault inside: %s\n", error.what());
    return static_cast<int>(Exit::kFault);
  }
}

}  // namespace foretrain
