// Follows a shell script without running it: assignments, conditions that the file alone decides,
// and the command that starts the trainer. Leaves out the options of that command: shell_reader.cc.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/config/launch/syntax/shell_values.h"

namespace foretrain {

// A command, expanded.
struct FoundCommand {
  std::vector<std::string> words;
  int line = 0;
  std::size_t options = 0;  // words that are options or overrides
};

struct FollowedScript {
  FoundCommand best;  // the command with the most options; a trainer's script counts as one
  ShellValues values;
  std::vector<std::string> notes;  // parts that were not read, a sentence each
};

// Errors: kInvalidArgument and kCorruptInput, naming file and line. `text` has neither carriage
// returns nor the bytes that mark unknown values.
Result<FollowedScript> FollowScript(std::string_view text, std::string_view file);

// Kinds of words in a command: "--key"; "tp=2" or "training.seq_len=4096", as Hydra and others
// write overrides; the trainer's program.
bool IsOption(std::string_view word);
bool IsOverride(std::string_view word);
bool IsScript(std::string_view word);

}  // namespace foretrain
