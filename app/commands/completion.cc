#include <cstdio>
#include <string>
#include <vector>

#include "app/cli/shell/command_descriptions.h"
#include "app/commands/commands.h"
#include "base/json/json.h"
#include "base/text.h"

namespace foretrain {
namespace {

// Prints a script for a shell, or the man page. Both are made from the table of commands.
class Completion final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    arguments.Positional("form", form_, "bash, zsh or fish: a completion script; man: the man page",
                         /*required=*/true);
    DeclareJson(arguments);
    arguments.Footer(
        "  source <(foretrain completion bash)\n"
        "  foretrain completion fish | source\n"
        "  foretrain completion man > foretrain.1");
  }

  Result<Exit> Run() override {
    const std::vector<CommandDescription> commands = DescribeCommands();
    std::string text;
    if (form_ == "bash") {
      text = BashCompletion(commands);
    } else if (form_ == "zsh") {
      text = ZshCompletion(commands);
    } else if (form_ == "fish") {
      text = FishCompletion(commands);
    } else if (form_ == "man") {
      text = ManPage(commands);
    } else {
      return Fail(ErrorCode::kInvalidArgument,
                  "completion: \"" + Printable(form_) + "\" is none of bash, zsh, fish, man");
    }
    if (json_) {
      JsonWriter json;
      json.BeginObject().Field("schema", 1).Field("form", form_).Field("text", text);
      text = json.EndObject().Take() + "\n";
    }
    std::fputs(text.c_str(), stdout);
    return Exit::kDone;
  }

 private:
  std::string form_;
};

}  // namespace

std::unique_ptr<Command> MakeCompletion() { return std::make_unique<Completion>(); }

}  // namespace foretrain
