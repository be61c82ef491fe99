#include "sim/config/launch/syntax/launch_text.h"

#include "base/text.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {

LaunchSyntax SyntaxOf(std::string_view file) {
  const std::string name = ToLower(file);
  if (name.ends_with(".json")) return LaunchSyntax::kJson;
  if (name.ends_with(".toml")) return LaunchSyntax::kToml;
  if (name.ends_with(".yaml") || name.ends_with(".yml")) return LaunchSyntax::kYaml;
  if (name.ends_with(".py")) return LaunchSyntax::kPython;
  return LaunchSyntax::kShell;
}

Result<LaunchText> ReadLaunchText(std::string_view text, LaunchSyntax syntax,
                                  std::string_view file) {
  if (text.size() > kMaxLaunchBytes) {
    return Refuse(
        "{}: has {} bytes, and launch files have at most {}; give the file that starts "
        "the trainer",
        file, text.size(), kMaxLaunchBytes);
  }
  if (text.find('\0') != std::string_view::npos) {
    return Fail(ErrorCode::kCorruptInput,
                fmt::format("{}: is no text; give the file that starts the trainer", file));
  }
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  Result<LaunchText> read = syntax == LaunchSyntax::kShell       ? ReadShell(text, file)
                            : syntax == LaunchSyntax::kVariables ? ReadShellVariables(text, file)
                            : syntax == LaunchSyntax::kJson      ? ReadJsonTree(text, file)
                            : syntax == LaunchSyntax::kToml      ? ReadTomlTree(text, file)
                            : syntax == LaunchSyntax::kPython    ? ReadPython(text, file)
                                                                 : ReadYamlTree(text, file);
  if (read && read->entries.size() > kMaxLaunchEntries) {
    return Refuse("{}: has more than {} entries; give the file that starts the trainer", file,
                  kMaxLaunchEntries);
  }
  return read;
}

}  // namespace foretrain
