// Nested files as flat lists: JSON, and TOML and YAML by their libraries.
#include <cctype>

#include "base/json/json.h"
#include "base/text.h"
#include "sim/config/launch/syntax/launch_text.h"
#include "sim/config/rules/refuse.h"
#if FORETRAIN_HAVE_TOML
#include <stdexcept>
namespace foretrain {
// Some broken texts reach checks that the library makes of itself, which would end the process.
static constexpr void CheckToml(bool holds) {
  if (!holds) throw std::logic_error("no TOML");
}
}  // namespace foretrain
#define TOML_ASSERT(expr) ::foretrain::CheckToml(static_cast<bool>(expr))
#include <toml++/toml.h>
#endif
#if FORETRAIN_HAVE_YAML
#include <yaml-cpp/yaml.h>
#endif

namespace foretrain {
namespace {

constexpr int kMaxDepth = 64;

std::string Under(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}

#if FORETRAIN_HAVE_TOML || FORETRAIN_HAVE_YAML
tl::unexpected<Error> TooMany(std::string_view file) {
  return Refuse("{}: has more than {} entries or {} levels; give the file that starts the trainer",
                file, kMaxLaunchEntries, kMaxDepth);
}
#endif

std::string TextOf(const JsonValue& value) {
  switch (value.kind()) {
    case JsonValue::Kind::kBool:
      return value.AsBool() ? "true" : "false";
    case JsonValue::Kind::kInteger:
      return std::to_string(value.AsInteger());
    case JsonValue::Kind::kNumber:
      return NumberText(value.AsNumber());
    case JsonValue::Kind::kString:
      return value.AsString();
    default:
      return "";
  }
}

bool IsNested(const JsonValue& value) {
  return value.kind() == JsonValue::Kind::kObject || value.kind() == JsonValue::Kind::kArray;
}

void Flatten(const JsonValue& value, const std::string& path, std::vector<LaunchItem>& entries) {
  if (value.kind() == JsonValue::Kind::kObject) {
    for (std::size_t i = 0; i < value.items().size(); ++i) {
      Flatten(value.items()[i], Under(path, value.names()[i]), entries);
    }
    return;
  }
  if (value.kind() == JsonValue::Kind::kArray) {
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < value.items().size(); ++i) {
      const JsonValue& item = value.items()[i];
      if (IsNested(item)) {
        Flatten(item, Under(path, std::to_string(i)), entries);
      } else {
        texts.push_back(TextOf(item));
      }
    }
    if (!texts.empty()) entries.push_back({path, Join(texts, " "), 0, ""});
    return;
  }
  if (!value.is_null()) entries.push_back({path, TextOf(value), 0, ""});
}

// The line of each member of a JSON text that has been parsed, in the order of the text.
std::vector<std::pair<std::string, int>> LinesOfMembers(std::string_view text) {
  struct Level {
    std::string path;
    bool is_object = false;
    bool wants_name = false;
    int index = 0;
  };
  std::vector<Level> levels;
  std::vector<std::pair<std::string, int>> lines;
  std::string name;
  int line = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (c == '{' || c == '[') {
      std::string path;
      if (!levels.empty()) {
        const Level& outer = levels.back();
        path = Under(outer.path, outer.is_object ? name : std::to_string(outer.index));
      }
      levels.push_back({path, c == '{', c == '{', 0});
    } else if (c == '}' || c == ']') {
      if (!levels.empty()) levels.pop_back();
    } else if (c == ',' && !levels.empty()) {
      levels.back().wants_name = levels.back().is_object;
      ++levels.back().index;
    } else if (c == '"') {
      std::size_t end = i + 1;
      while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
      if (!levels.empty() && levels.back().wants_name) {
        name = text.substr(i + 1, end - i - 1);
        lines.emplace_back(Under(levels.back().path, name), line);
        levels.back().wants_name = false;
      }
      i = end;
    }
  }
  return lines;
}

#if FORETRAIN_HAVE_TOML
std::string TomlText(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* value = node.as_boolean()) return value->get() ? "true" : "false";
  if (const auto* value = node.as_integer()) return std::to_string(value->get());
  if (const auto* value = node.as_floating_point()) return NumberText(value->get());
  return "";
}

Result<void> FlattenToml(const toml::node& node, const std::string& path, std::string_view file,
                         int depth, std::vector<LaunchItem>& entries) {
  if (depth > kMaxDepth || entries.size() > kMaxLaunchEntries) return TooMany(file);
  const int line = static_cast<int>(node.source().begin.line);
  if (const toml::table* table = node.as_table()) {
    for (const auto& [key, value] : *table) {
      FT_TRY(FlattenToml(value, Under(path, key.str()), file, depth + 1, entries));
    }
    return {};
  }
  if (const toml::array* array = node.as_array()) {
    std::vector<std::string> texts;
    std::size_t index = 0;
    for (const toml::node& item : *array) {
      if (item.is_table() || item.is_array()) {
        FT_TRY(FlattenToml(item, Under(path, std::to_string(index)), file, depth + 1, entries));
      } else {
        texts.push_back(TomlText(item));
      }
      ++index;
    }
    if (!texts.empty()) entries.push_back({path, Join(texts, " "), line, ""});
    return {};
  }
  entries.push_back({path, TomlText(node), line, ""});
  return {};
}
#endif

#if FORETRAIN_HAVE_YAML
// YAML 1.1 writes switches in several ways; a quoted scalar is a text.
std::string YamlText(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;
  const std::string lower = ToLower(text);
  if (lower == "true" || lower == "yes" || lower == "on") return "true";
  if (lower == "false" || lower == "no" || lower == "off") return "false";
  return text;
}

Result<void> FlattenYaml(const YAML::Node& node, const std::string& path, std::string_view file,
                         int depth, std::vector<LaunchItem>& entries) {
  if (depth > kMaxDepth || entries.size() > kMaxLaunchEntries) return TooMany(file);
  const int line = node.Mark().line + 1;
  if (node.IsMap()) {
    for (const auto& member : node) {
      if (!member.first.IsScalar()) continue;
      FT_TRY(
          FlattenYaml(member.second, Under(path, member.first.Scalar()), file, depth + 1, entries));
    }
  } else if (node.IsSequence()) {
    std::vector<std::string> texts;
    std::size_t index = 0;
    for (const auto& item : node) {
      if (item.IsScalar()) {
        texts.push_back(YamlText(item));
      } else {
        FT_TRY(FlattenYaml(item, Under(path, std::to_string(index)), file, depth + 1, entries));
      }
      ++index;
    }
    if (!texts.empty()) entries.push_back({path, Join(texts, " "), line, ""});
  } else if (node.IsScalar()) {
    entries.push_back({path, YamlText(node), line, ""});
  }
  return {};
}
#endif

#if !FORETRAIN_HAVE_TOML || !FORETRAIN_HAVE_YAML
tl::unexpected<Error> NotInBuild(std::string_view file, std::string_view what,
                                 std::string_view package) {
  return Fail(
      ErrorCode::kUnsupported,
      fmt::format("{}: this build reads no {}; install {} and build again", file, what, package));
}
#endif

}  // namespace

Result<LaunchText> ReadJsonTree(std::string_view text, std::string_view file) {
  FT_ASSIGN(const JsonValue value, ParseJson(text, file));
  if (value.kind() != JsonValue::Kind::kObject) {
    return Fail(ErrorCode::kCorruptInput,
                fmt::format("{}: is no JSON object; give the trainer's configuration", file));
  }
  LaunchText out;
  Flatten(value, "", out.entries);
  const auto lines = LinesOfMembers(text);
  for (LaunchItem& entry : out.entries) {
    for (const auto& [path, line] : lines) {
      if (path == entry.key) entry.line = line;
    }
  }
  return out;
}

Result<LaunchText> ReadTomlTree(std::string_view text, std::string_view file) {
#if FORETRAIN_HAVE_TOML
  try {
    const toml::table table = toml::parse(text);
    LaunchText out;
    FT_TRY(FlattenToml(table, "", file, 0, out.entries));
    return out;
  } catch (const toml::parse_error& error) {
    return Fail(ErrorCode::kCorruptInput,
                fmt::format("{} line {}: is no TOML: {}", file, error.source().begin.line,
                            Printable(error.description())));
  } catch (const std::logic_error&) {
    return Fail(ErrorCode::kCorruptInput,
                fmt::format("{}: is no TOML: the library gives up; mend its keys", file));
  }
#else
  static_cast<void>(text);
  return NotInBuild(file, "TOML", "libtomlplusplus-dev");
#endif
}

Result<LaunchText> ReadYamlTree(std::string_view text, std::string_view file) {
#if FORETRAIN_HAVE_YAML
  try {
    const YAML::Node root = YAML::Load(std::string(text));
    if (!root.IsMap()) {
      return Fail(ErrorCode::kCorruptInput,
                  fmt::format("{}: is no YAML mapping; give the trainer's configuration", file));
    }
    LaunchText out;
    FT_TRY(FlattenYaml(root, "", file, 0, out.entries));
    return out;
  } catch (const YAML::Exception& error) {
    return Fail(ErrorCode::kCorruptInput, fmt::format("{} line {}: is no YAML: {}", file,
                                                      error.mark.line + 1, Printable(error.msg)));
  }
#else
  static_cast<void>(text);
  return NotInBuild(file, "YAML", "libyaml-cpp-dev");
#endif
}

}  // namespace foretrain
