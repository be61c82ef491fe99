// Writes flat lists of keys and values as a script or as a nested file.
#include <algorithm>
#include <memory>

#include "base/json/json.h"
#include "base/text.h"
#include "sim/config/launch/syntax/launch_text.h"

namespace foretrain {
namespace {

// A level of a nested file, in the order in which its members came.
struct Tree {
  std::vector<std::pair<std::string, std::unique_ptr<Tree>>> members;
  const LaunchItem* leaf = nullptr;

  Tree& Member(std::string_view name) {
    for (auto& [known, tree] : members) {
      if (known == name) return *tree;
    }
    members.emplace_back(name, std::make_unique<Tree>());
    return *members.back().second;
  }
};

Tree TreeOf(const std::vector<LaunchItem>& entries) {
  Tree root;
  for (const LaunchItem& entry : entries) {
    Tree* at = &root;
    for (const std::string_view part : Split(entry.key, '.')) at = &at->Member(part);
    at->leaf = &entry;
  }
  return root;
}

bool IsNumber(const std::string& text) { return ParseNumber("", text, -1e300, 1e300).has_value(); }

// A number or a switch stands for itself; anything else is a text.
bool IsBare(const LaunchItem& entry) {
  return !entry.is_text &&
         (IsNumber(entry.value) || entry.value == "true" || entry.value == "false");
}

std::string Quoted(const std::string& text) {
  JsonWriter writer;
  writer.String(text);
  return writer.Take();
}

std::string ValueText(const LaunchItem& entry) {
  return IsBare(entry) ? entry.value : Quoted(entry.value);
}

// Leaves of a table come before its sub-tables.
void WriteToml(const Tree& tree, const std::string& path, std::string& out) {
  const bool has_leaves = std::any_of(tree.members.begin(), tree.members.end(),
                                      [](const auto& m) { return m.second->leaf != nullptr; });
  if (!path.empty() && has_leaves) out += "\n[" + path + "]\n";
  for (const auto& [name, member] : tree.members) {
    if (member->leaf != nullptr) out += name + " = " + ValueText(*member->leaf) + "\n";
  }
  for (const auto& [name, member] : tree.members) {
    if (member->leaf == nullptr) WriteToml(*member, path.empty() ? name : path + "." + name, out);
  }
}

void WriteYaml(const Tree& tree, int indent, std::string& out) {
  for (const auto& [name, member] : tree.members) {
    out += std::string(static_cast<std::size_t>(indent), ' ') + name + ":";
    if (member->leaf != nullptr) {
      out += " " + ValueText(*member->leaf) + "\n";
    } else {
      out += "\n";
      WriteYaml(*member, indent + 2, out);
    }
  }
}

void WriteJsonTree(const Tree& tree, int indent, std::string& out) {
  const std::string space(static_cast<std::size_t>(indent), ' ');
  out += "{\n";
  for (std::size_t i = 0; i < tree.members.size(); ++i) {
    const auto& [name, member] = tree.members[i];
    out += space + "  " + Quoted(name) + ": ";
    if (member->leaf != nullptr) {
      out += ValueText(*member->leaf);
    } else {
      WriteJsonTree(*member, indent + 2, out);
    }
    out += i + 1 < tree.members.size() ? ",\n" : "\n";
  }
  out += space + "}";
}

std::string ShellWordOf(const std::string& value) {
  const bool plain = !value.empty() && value.find_first_not_of(
                                           "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                           "0123456789_-./:+,=@%") == std::string::npos;
  if (plain) return value;
  std::string out = "'";
  for (const char c : value) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// The launcher's options come before the trainer's script.
std::string WriteScript(const std::vector<LaunchItem>& entries, const LaunchHead& head) {
  constexpr std::string_view kLauncher = "launcher.";
  std::string out = "#!/bin/bash\n# " + head.comment + "\n" + head.launcher;
  for (const LaunchItem& entry : entries) {
    if (!entry.key.starts_with(kLauncher)) continue;
    out += " --" + entry.key.substr(kLauncher.size()) + " " + ShellWordOf(entry.value);
  }
  out += " " + head.script;
  for (const LaunchItem& entry : entries) {
    if (entry.key.starts_with(kLauncher)) continue;
    out += " \\\n  --" + entry.key;
    if (entry.value == "true") continue;
    // Several values of one option are words of their own.
    for (const std::string_view part : Split(entry.value, ' ')) {
      out += " " + ShellWordOf(std::string(part));
    }
  }
  return out + "\n";
}

std::string WriteVariables(const std::vector<LaunchItem>& entries, const LaunchHead& head) {
  std::string out = "#!/bin/bash\n# " + head.comment + "\n";
  for (const LaunchItem& entry : entries) {
    out += "export " + entry.key + "=" + ShellWordOf(entry.value) + "\n";
  }
  return out;
}

}  // namespace

std::string WriteLaunchText(const std::vector<LaunchItem>& entries, LaunchSyntax syntax,
                            const LaunchHead& head) {
  if (syntax == LaunchSyntax::kShell) return WriteScript(entries, head);
  if (syntax == LaunchSyntax::kVariables) return WriteVariables(entries, head);
  const Tree tree = TreeOf(entries);
  std::string out;
  if (syntax == LaunchSyntax::kJson) {
    WriteJsonTree(tree, 0, out);
    return out + "\n";
  }
  out = "# " + head.comment + "\n";
  if (syntax == LaunchSyntax::kToml) {
    WriteToml(tree, "", out);
  } else {
    WriteYaml(tree, 0, out);
  }
  return out;
}

}  // namespace foretrain
