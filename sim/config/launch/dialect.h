// The option names of another trainer, as a table that is read in both directions: from its launch
// files to plan and model, and back. One file a dialect in sim/config/launch/dialects/. Leaves out
// syntax (syntax/launch_text.h) and quantities that follow from several options (launch_facts.h).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sim/config/launch/syntax/launch_text.h"

namespace foretrain {

using NamePairs = std::vector<std::pair<std::string, std::string>>;

// A key that gives one target. A target is a field of a plan ("tp"), a member of a model file
// ("model.layers") or a quantity of launch_facts.h ("run.nodes").
struct DialectRow {
  std::string key;
  std::vector<std::string> also;  // other spellings, which are read but not written
  std::string to;
  bool has_standard = false;
  std::string standard;  // value of a missing key, as the trainer spells it
  std::string same_as;   // target whose value a missing key has; empty: none
  NamePairs values;      // the trainer's value and ours; ours may be empty: not given
  bool is_open = false;  // values beyond `values` are taken as they are
  double scale = 1;      // ours = theirs * scale
  std::string needs;     // condition without which the row has no effect; see Meets
  std::string with;      // switch that must be on as well
  bool is_list = false;  // `values` translates each word
  bool is_part = false;  // a value of `values` is a part of the key's value, such as of a path
  bool is_text = false;  // written in quotes
  bool is_weak = false;  // read only, and only if no other key gives the target
};

// Keys that decide together: the first case whose `when` has the values of all of them gives `set`.
struct DialectCase {
  NamePairs when;  // keys that are not at their standard; "*" is any value
  NamePairs set;
  std::string needs;
};
struct DialectCases {
  NamePairs keys;  // each with its standard
  std::vector<DialectCase> cases;
};

// A key that a forecast leaves out although it counts.
struct DialectGap {
  std::string key;
  std::vector<std::string> off;  // values without effect
  std::string why;
};

// A plan field that the trainer fixes.
struct DialectImplied {
  std::string to;
  std::string value;
  std::string needs;
  bool is_assumed = false;  // a guess that the account names
};

// Gradient buckets of a trainer that counts them in elements.
struct DialectBuckets {
  std::int64_t without_overlap_bytes = 0;  // 0: the dialect has no such rule
  std::int64_t elements = 0;
  std::int64_t elements_per_dp = 0;
  std::int64_t element_bytes = 4;
};

struct Dialect {
  std::string name;   // "megatron"
  std::string title;  // "Megatron-LM"
  std::vector<std::string> aliases;
  std::string framework;  // of sim/search/space/frameworks.json; empty: any
  std::string preset;     // whose software the trainer has; empty: foretrain's own
  LaunchSyntax syntax = LaunchSyntax::kShell;  // of files that are written
  bool reads_variables = false;                // scripts are read as variables
  LaunchHead head;
  std::string add;  // what a user adds to a written file
  std::vector<DialectRow> rows;
  std::vector<DialectCases> cases;
  std::vector<DialectImplied> implied;
  std::vector<DialectGap> gaps;
  std::vector<std::string> without_effect;  // keys; "wandb*" and "*_path" stand for several
  // Other spellings of keys that decide together, and the key; "!key" has the opposite value.
  NamePairs other_names;
  NamePairs files;  // keys whose value is another launch file, with its dialect
  DialectBuckets buckets;
  // Keys of a run's length and of its peak learning rate, which no forecast needs.
  std::vector<std::string> steps_keys, learning_rate_keys;
  std::string source;
};

// Parses a dialect. Errors name file, row and field. O(bytes).
Result<Dialect> DialectFromJson(std::string_view text, std::string_view file);

// The built-in dialects, by name.
Result<std::vector<Dialect>> BuiltInDialects();

// Finds a dialect by name or alias. Errors: kInvalidArgument, naming `option`, with all names.
Result<Dialect> FindDialect(const std::vector<Dialect>& dialects, std::string_view name,
                            std::string_view option);

// Keys are compared without the difference between '-' and '_'.
std::string PlainKey(std::string_view key);

// True if `pattern`, which may begin or end with '*', stands for the plain key.
bool MatchesKey(std::string_view pattern, std::string_view plain);

// The syntax of a file under this dialect.
LaunchSyntax SyntaxFor(const Dialect& dialect, std::string_view file);

}  // namespace foretrain
