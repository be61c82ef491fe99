// A launch file as a flat list of keys and values, whatever its syntax. Leaves out what a key
// means: sim/config/launch/dialect.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace foretrain {

// "tensor-model-parallel-size" of a command line, "training.seq_len" of nested files, and
// "launcher.nproc_per_node" of the program that starts the ranks.
struct LaunchItem {
  std::string key;
  std::string value;     // "true" for an option without a value; lists are separated by spaces
  int line = 0;          // from 1; 0: not known
  std::string unknown;   // why the file alone does not give the value; empty if it does
  bool is_text = false;  // written in quotes although it looks like a number
};

struct LaunchText {
  std::vector<LaunchItem> entries;  // in order; of equal keys the last one counts
  std::vector<std::string> notes;   // parts of the file that were not read, a sentence each
};

enum class LaunchSyntax : std::uint8_t { kShell, kVariables, kJson, kToml, kYaml, kPython };

// The syntax of a file, by the end of its name; kShell if it has no other known one.
LaunchSyntax SyntaxOf(std::string_view file);

inline constexpr std::size_t kMaxLaunchBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxLaunchEntries = std::size_t{1} << 14;

// Reads a launch file. Nothing is executed, and no environment is read.
//
//   file  source of `text`, for messages
//
// kShell is a shell script that starts a trainer, or a command line alone: the options of the
// command with the most options. kVariables is a script of assignments: each variable is an entry.
// kPython is a recipe: assignments of literals and calls with named arguments; "recipe" is the
// function that makes the configuration.
//
// Errors name file, line and remedy: a text that is not of its syntax, above kMaxLaunchBytes or
// with more than kMaxLaunchEntries entries; kUnsupported for TOML and YAML in a build without their
// library.
Result<LaunchText> ReadLaunchText(std::string_view text, LaunchSyntax syntax,
                                  std::string_view file);

// The start of a written file.
struct LaunchHead {
  std::string comment;   // one line
  std::string launcher;  // of a script: the program before the launcher's options
  std::string script;    // of a script: the trainer's program
};

// Writes entries in a syntax. Keys with dots are nested, except in scripts.
std::string WriteLaunchText(const std::vector<LaunchItem>& entries, LaunchSyntax syntax,
                            const LaunchHead& head);

// The readers of one syntax each; ReadLaunchText has checked the size.
Result<LaunchText> ReadShell(std::string_view text, std::string_view file);
Result<LaunchText> ReadShellVariables(std::string_view text, std::string_view file);
Result<LaunchText> ReadJsonTree(std::string_view text, std::string_view file);
Result<LaunchText> ReadTomlTree(std::string_view text, std::string_view file);
Result<LaunchText> ReadYamlTree(std::string_view text, std::string_view file);
Result<LaunchText> ReadPython(std::string_view text, std::string_view file);

}  // namespace foretrain
