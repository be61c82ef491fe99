// From another trainer's launch file to a plan and a model, with an account of every key.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sim/config/launch/dialect.h"
#include "sim/config/launch/launch_facts.h"

namespace foretrain {

// A key of the file, for the account.
struct LaunchKey {
  std::string key, value;
  std::string file;
  int line = 0;
  std::string note;  // the option that it gives, or why it is not modelled
};

// Every key is used, a default, without effect, or counts and is not modelled.
struct LaunchAccount {
  std::vector<LaunchKey> used;
  std::vector<LaunchKey> defaults;  // missing keys whose standard differs from foretrain's
  std::vector<LaunchKey> without_effect;
  std::vector<LaunchKey> not_modelled;
  std::vector<std::string> notes;  // parts of the file that were not read
};

struct Launch {
  std::string dialect, title, file;
  std::int64_t ranks = 0;                                    // that the file gives; 0: it does not
  std::vector<std::pair<std::string, std::string>> options;  // of the plan: field and text
  std::string model;         // the model as JSON (model_json.h); empty: the file describes none
  std::string model_name;    // name or folder of the model; empty: none is named
  std::int64_t steps = 0;    // of the run; 0: the file does not say
  double learning_rate = 0;  // its peak; 0: the file does not say
  LaunchAccount account;
};

// A file that a launch file names, and its dialect.
struct LaunchFileName {
  std::string path, dialect;
  std::string key, file;  // that name it
  int line = 0;
};

// The files that `text` names, such as the DeepSpeed configuration of a Trainer's script.
std::vector<LaunchFileName> FilesNamedIn(const Dialect& dialect, const LaunchText& text,
                                         std::string_view file);

// A launch file's text, with its dialect. Of two values that files give, the first one counts.
struct LaunchPart {
  Dialect dialect;
  LaunchText text;
  std::string file;
};

// Refuses a file of another program, with the dialect that it looks like. Errors: kInvalidArgument.
Result<void> CheckDialect(const LaunchPart& part, std::span<const Dialect> dialects);

struct ReadLaunchOptions {
  // Ranks of the machine, for files that do not give them. Called at most once.
  std::function<Result<std::int64_t>()> devices;
  // Layers of the model, by the name or folder that the file gives (empty: none). Called if the
  // file does not describe the model.
  std::function<Result<std::int64_t>(const std::string&)> layers;
  // True if the user gives this target, so that the file need not.
  std::function<bool(std::string_view)> is_given = [](std::string_view) { return false; };
  bool strict = false;  // refuse keys that count and are not modelled
};

// Reads the parts of a launch; the first one is the file that the user named.
//
// Errors: kInvalidArgument, naming file, line, key and remedy: no key of the dialect (with the
// dialect that it looks like), a value that the dialect does not have, a value that the file alone
// does not give, keys that contradict each other, a model that is described in part, and with
// `strict` a key that is not modelled.
Result<Launch> ReadLaunch(std::span<const LaunchPart> parts, std::span<const Dialect> dialects,
                          const ReadLaunchOptions& options);

// Whether the row's value of the trainer, or ours, has a counterpart; "" if it stands for nothing.
Result<std::string> OursOf(const DialectRow& row, std::string_view theirs);
Result<std::string> TheirsOf(const DialectRow& row, std::string_view ours);

}  // namespace foretrain
