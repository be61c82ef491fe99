// From a launch text to a draft, and from drafts to a launch. One file above 400 lines, because the
// account of keys is kept while they are read.
#include "sim/config/launch/read_launch.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/json/json.h"
#include "base/text.h"
#include "sim/config/model/model_json.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/config/plan/plan_values.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

std::string Where(const LaunchItem& entry, std::string_view file) {
  return entry.line > 0 ? fmt::format("{} line {}", file, entry.line) : std::string(file);
}

// The last entry of each plain key, in the order of the file.
std::vector<const LaunchItem*> LastEntries(const LaunchText& text) {
  std::map<std::string, const LaunchItem*> last;
  for (const LaunchItem& entry : text.entries) last[PlainKey(entry.key)] = &entry;
  std::vector<const LaunchItem*> entries;
  for (const LaunchItem& entry : text.entries) {
    if (last[PlainKey(entry.key)] == &entry) entries.push_back(&entry);
  }
  return entries;
}

// The name of a target for people: the plan's option, or the model's member.
std::string OptionOf(std::string_view target) {
  const PlanField* const field = FindPlanField(target);
  return field != nullptr ? std::string(FirstOption(*field)) : std::string(target);
}

// Reads one part into a draft.
class PartReader {
 public:
  PartReader(const LaunchPart& part, const ReadLaunchOptions& options, LaunchAccount& account)
      : part_(part), dialect_(part.dialect), options_(options), account_(account) {
    for (const LaunchItem* entry : LastEntries(part.text)) entries_[PlainKey(entry->key)] = entry;
  }

  Result<LaunchDraft> Read() {
    for (const DialectRow& row : dialect_.rows) FT_TRY(ReadRow(row));
    FT_TRY(AddStandards());
    for (const DialectCases& cases : dialect_.cases) FT_TRY(ReadCases(cases));
    // After the cases, which give formats that rows need.
    DropUnmet();
    for (const DialectImplied& implied : dialect_.implied) {
      if (!Meets(draft_, implied.needs) || !TextIn(draft_, implied.to).empty()) continue;
      draft_[implied.to] = {implied.value, "", 0, part_.file};
      if (implied.is_assumed) {
        account_.notes.push_back(fmt::format("{}: gives no {}; {} is assumed", part_.file,
                                             OptionOf(implied.to), implied.value));
      }
    }
    AccountOthers();
    return std::move(draft_);
  }

  // Keys of the file that the dialect knows.
  int known() const { return known_; }

 private:
  const LaunchItem* Find(const DialectRow& row) const {
    const auto found = entries_.find(PlainKey(row.key));
    if (found != entries_.end()) return found->second;
    for (const std::string& other : row.also) {
      const auto also = entries_.find(PlainKey(other));
      if (also != entries_.end()) return also->second;
    }
    return nullptr;
  }

  bool IsOn(const std::string& key) const {
    const auto found = entries_.find(PlainKey(key));
    return found != entries_.end() && ToLower(found->second->value) != "false";
  }

  // True if the key's value is not needed or not known, so that it is passed over.
  Result<bool> PassesOver(const LaunchItem& entry, std::string_view to) {
    if (entry.unknown.empty()) return false;
    if (options_.is_given(to) || to.starts_with("run.")) {
      account_.notes.push_back(
          fmt::format("{}: {} {}", Where(entry, part_.file), entry.key, entry.unknown));
      return true;
    }
    return Refuse("{}: {} {}; set it in the file, or give {}", Where(entry, part_.file), entry.key,
                  entry.unknown, to.starts_with("model.") ? "--model" : OptionOf(to));
  }

  Result<void> ReadRow(const DialectRow& row) {
    const LaunchItem* const entry = Find(row);
    if (entry == nullptr) return {};
    seen_.insert(entry);
    ++known_;
    // Nested files have no such switches.
    const bool is_nested = entry->key.find('.') != std::string::npos;
    if (!row.with.empty() && !is_nested && !IsOn(row.with)) return {};
    if (row.is_weak && !entry->unknown.empty()) {
      if (row.to == "run.nodes" || row.to == "run.ranks_per_node") open_.insert(row.to);
      return {};
    }
    FT_ASSIGN(const bool passes, PassesOver(*entry, row.to));
    if (passes) {
      open_.insert(row.to);
      return {};
    }
    const auto ours = OursOf(row, entry->value);
    if (!ours) {
      // A launcher's value, such as a range of nodes, only leaves the machine to other options.
      if (row.to.starts_with("run.") && row.is_weak) return {};
      return Refuse("{}: {} {}; {} reads no other value of it yet", Where(*entry, part_.file),
                    entry->key, ours.error().message, dialect_.title);
    }
    if (ours->empty()) {
      open_.insert(row.to);
      return {};
    }
    if (row.to.starts_with("run.") && row.key.starts_with("launcher.") &&
        !ParseInt("", *ours, 1, kMaxRanks)) {
      return {};
    }
    const DraftValue& before = draft_[row.to];
    if (!before.text.empty() && !SameValue(before.text, *ours)) {
      if (row.is_weak) return {};
      return Refuse("{}: {} gives {} {}, and {} gives {}; remove one of the two",
                    Where(*entry, part_.file), entry->key, OptionOf(row.to), *ours, before.key,
                    before.text);
    }
    if (before.text.empty()) draft_[row.to] = {*ours, entry->key, entry->line, part_.file};
    Use(*entry, OptionOf(row.to));
    return {};
  }

  void Use(const LaunchItem& entry, const std::string& option) {
    if (!used_.insert(&entry).second) return;
    account_.used.push_back({entry.key, entry.value, part_.file, entry.line, option});
  }

  // The trainer's own values of keys that the file lacks.
  Result<void> AddStandards() {
    for (const DialectRow& row : dialect_.rows) {
      const bool has_value = draft_.contains(row.to) && !draft_[row.to].text.empty();
      if (has_value || !row.has_standard || open_.contains(row.to)) continue;
      FT_ASSIGN(const std::string ours, OursOf(row, row.standard));
      if (ours.empty()) continue;
      draft_[row.to] = {ours, "", 0, part_.file};
      standards_.push_back(&row);
    }
    return {};
  }

  void DropUnmet() {
    for (const DialectRow& row : dialect_.rows) {
      if (!row.needs.empty() && !Meets(draft_, row.needs)) draft_.erase(row.to);
    }
  }

  Result<void> ReadCases(const DialectCases& cases) {
    std::map<std::string, std::string> values;
    std::vector<const LaunchItem*> given;
    for (const auto& [key, standard] : cases.keys) {
      values[key] = standard;
      const auto found = entries_.find(PlainKey(key));
      if (found == entries_.end()) continue;
      const LaunchItem& entry = *found->second;
      if (seen_.insert(&entry).second) ++known_;
      FT_ASSIGN(const bool passes, PassesOver(entry, cases.cases.front().set.front().first));
      if (passes) continue;
      const std::string lower = ToLower(entry.value);
      values[key] = lower == "true" || lower == "false" ? lower : entry.value;
      given.push_back(&entry);
    }
    for (const DialectCase& one : cases.cases) {
      if (!Meets(draft_, one.needs) || !Matches(cases, one, values)) continue;
      for (const auto& [target, value] : one.set) {
        const bool is_open = TextIn(draft_, target).empty();
        if (!is_open && given.empty()) continue;
        draft_[target] = {value, given.empty() ? "" : given.front()->key,
                          given.empty() ? 0 : given.front()->line, part_.file};
      }
      for (const LaunchItem* entry : given) Use(*entry, OptionOf(one.set.front().first));
      return {};
    }
    if (given.empty()) return {};
    std::vector<std::string> texts;
    for (const LaunchItem* entry : given) {
      texts.push_back(fmt::format("{} {}", entry->key, Printable(entry->value)));
    }
    return Refuse("{}: {} has no meaning of {} here; correct or remove one",
                  Where(*given.front(), part_.file), dialect_.title, Join(texts, " with "));
  }

  static bool Matches(const DialectCases& cases, const DialectCase& one,
                      const std::map<std::string, std::string>& values) {
    return std::all_of(cases.keys.begin(), cases.keys.end(), [&](const auto& key) {
      const auto wanted = std::find_if(one.when.begin(), one.when.end(),
                                       [&](const auto& pair) { return pair.first == key.first; });
      const std::string& value = wanted != one.when.end() ? wanted->second : key.second;
      return value == "*" || SameValue(value, values.at(key.first));
    });
  }

  // Standards that the draft kept, and keys that no row uses.
  void AccountOthers() {
    static const Plan plain;
    for (const DialectRow* row : standards_) {
      const auto found = draft_.find(row->to);
      if (found == draft_.end() || !found->second.key.empty()) continue;
      const PlanField* const field = FindPlanField(row->to);
      if (field == nullptr || SameValue(TextOf(*field, plain), found->second.text)) continue;
      account_.defaults.push_back({row->key, row->standard, part_.file, 0, OptionOf(row->to)});
    }
    for (const LaunchItem* entry : LastEntries(part_.text)) {
      if (used_.contains(entry)) continue;
      AccountOther(*entry);
    }
  }

  void AccountOther(const LaunchItem& entry) {
    LaunchKey key{entry.key, entry.value, part_.file, entry.line, ""};
    const std::string plain = PlainKey(entry.key);
    const bool is_file =
        std::any_of(dialect_.files.begin(), dialect_.files.end(),
                    [&](const auto& file) { return PlainKey(file.first) == plain; });
    if (seen_.contains(&entry) || is_file || plain.starts_with("launcher.") ||
        plain.starts_with("sbatch.")) {
      account_.without_effect.push_back(std::move(key));
      return;
    }
    for (const DialectGap& gap : dialect_.gaps) {
      if (!MatchesKey(gap.key, plain)) continue;
      ++known_;
      const bool is_off = std::any_of(gap.off.begin(), gap.off.end(), [&](const auto& off) {
        return SameValue(ToLower(off), ToLower(entry.value));
      });
      key.note = gap.why;
      (is_off ? account_.without_effect : account_.not_modelled).push_back(std::move(key));
      return;
    }
    for (const std::string& pattern : dialect_.without_effect) {
      if (!MatchesKey(pattern, plain)) continue;
      ++known_;
      account_.without_effect.push_back(std::move(key));
      return;
    }
    // Other variables of a script are its own.
    if (part_.dialect.reads_variables &&
        SyntaxFor(dialect_, part_.file) == LaunchSyntax::kVariables) {
      account_.without_effect.push_back(std::move(key));
      return;
    }
    key.note = "is not known";
    account_.not_modelled.push_back(std::move(key));
  }

  const LaunchPart& part_;
  const Dialect& dialect_;
  const ReadLaunchOptions& options_;
  LaunchAccount& account_;
  LaunchDraft draft_;
  std::map<std::string, const LaunchItem*> entries_;  // by plain key
  std::set<const LaunchItem*> seen_;                  // keys of rows and cases
  std::set<const LaunchItem*> used_;
  std::vector<const DialectRow*> standards_;
  std::set<std::string> open_;  // targets that the file leaves to others: "auto"
  int known_ = 0;
};

// Keys of the text that a dialect's rows and cases know.
int KnownKeys(const Dialect& dialect, const LaunchText& text) {
  std::set<std::string> keys;
  for (const DialectRow& row : dialect.rows) {
    if (row.key.starts_with("launcher.") || row.key.starts_with("sbatch.")) continue;
    keys.insert(PlainKey(row.key));
    for (const std::string& other : row.also) keys.insert(PlainKey(other));
  }
  for (const DialectCases& cases : dialect.cases) {
    for (const auto& [key, standard] : cases.keys) keys.insert(PlainKey(key));
  }
  return static_cast<int>(
      std::count_if(text.entries.begin(), text.entries.end(),
                    [&](const LaunchItem& entry) { return keys.contains(PlainKey(entry.key)); }));
}

// Refuses a file of another program.
Result<void> CheckDialect(const LaunchPart& part, std::span<const Dialect> dialects) {
  const int known = KnownKeys(part.dialect, part.text);
  const Dialect* best = nullptr;
  int best_known = known;
  for (const Dialect& dialect : dialects) {
    const int count = KnownKeys(dialect, part.text);
    if (count > best_known) {
      best_known = count;
      best = &dialect;
    }
  }
  if (known > 0 && (best == nullptr || best_known < 3 * known)) return {};
  return Refuse(
      "{}: has {} of {}{}", part.file,
      known == 0 ? "no option" : fmt::format("only {} options", known), part.dialect.title,
      best != nullptr
          ? fmt::format("; it looks like {}: give --from {}:{}", best->title, best->name, part.file)
          : "; give the file that starts the trainer");
}

// The text with the dialect's first names of keys.
LaunchText WithFirstNames(const Dialect& dialect, LaunchText text) {
  for (LaunchItem& item : text.entries) {
    for (const auto& [other, key] : dialect.other_names) {
      if (PlainKey(other) != PlainKey(item.key)) continue;
      const bool is_opposite = key.starts_with('!');
      item.key = is_opposite ? key.substr(1) : key;
      if (is_opposite) item.value = ToLower(item.value) == "true" ? "false" : "true";
      break;
    }
  }
  return text;
}

// The model's members as JSON.
std::string ModelText(const LaunchDraft& draft, const std::string& name) {
  constexpr std::string_view kModel = "model.";
  JsonWriter writer;
  writer.BeginObject().Field("name", name);
  for (const auto& [target, value] : draft) {
    if (!target.starts_with(kModel) || value.text.empty()) continue;
    const std::string member = target.substr(kModel.size());
    // Quantities that only lead to members.
    if (member == "plain_head_dim" || member == "rotary_share") continue;
    writer.Name(member);
    if (value.text == "on" || value.text == "off") {
      writer.Bool(value.text == "on");
    } else if (const auto whole = ParseInt("", value.text, 0, INT64_MAX)) {
      writer.Integer(*whole);
    } else if (const auto number = ParseNumber("", value.text, -1e300, 1e300)) {
      writer.Number(*number);
    } else {
      writer.String(value.text);
    }
  }
  return writer.EndObject().Take();
}

std::string FileName(std::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));
}

// The model, if the file describes one.
Result<void> SetModel(const LaunchDraft& draft, const ReadLaunchOptions& options, Launch& launch) {
  launch.model_name = TextIn(draft, "run.model");
  const bool has_layers = !TextIn(draft, "model.layers").empty();
  const bool has_hidden = !TextIn(draft, "model.hidden").empty();
  if (!has_layers && !has_hidden) return {};
  const std::string text = ModelText(draft, FileName(launch.file));
  const auto model = ModelFromJson(text, launch.file);
  if (model) {
    launch.model = text;
    return {};
  }
  if (options.is_given("model")) return {};
  return Refuse("{}; complete the file, or give --model", model.error().message);
}

}  // namespace

std::vector<LaunchFileName> FilesNamedIn(const Dialect& dialect, const LaunchText& text,
                                         std::string_view file) {
  std::vector<LaunchFileName> files;
  for (const LaunchItem* entry : LastEntries(text)) {
    for (const auto& [key, of] : dialect.files) {
      if (PlainKey(key) != PlainKey(entry->key) || !entry->unknown.empty()) continue;
      if (SyntaxOf(entry->value) == LaunchSyntax::kShell) continue;
      files.push_back({entry->value, of, entry->key, std::string(file), entry->line});
    }
  }
  return files;
}

Result<Launch> ReadLaunch(std::span<const LaunchPart> parts, std::span<const Dialect> dialects,
                          const ReadLaunchOptions& options) {
  FT_CHECK(!parts.empty());
  Launch launch;
  launch.dialect = parts.front().dialect.name;
  launch.title = parts.front().dialect.title;
  launch.file = parts.front().file;
  LaunchDraft draft;
  for (const LaunchPart& given : parts) {
    const LaunchPart part{given.dialect, WithFirstNames(given.dialect, given.text), given.file};
    if (parts.size() == 1) FT_TRY(CheckDialect(part, dialects));
    for (const std::string& note : part.text.notes) launch.account.notes.push_back(note);
    PartReader reader(part, options, launch.account);
    FT_ASSIGN(const LaunchDraft read, reader.Read());
    // The first file that gives a value counts. Of two defaults the later one counts, because the
    // file that names another leaves it to that one.
    for (const auto& [target, value] : read) {
      DraftValue& known = draft[target];
      if (known.key.empty() && !value.text.empty()) known = value;
    }
  }
  if (options.strict && !launch.account.not_modelled.empty()) {
    const LaunchKey& key = launch.account.not_modelled.front();
    return Refuse("--strict: {}{}: {} {}; remove it, or leave out --strict", key.file,
                  key.line > 0 ? fmt::format(" line {}", key.line) : "", key.key,
                  key.note == "is not known" ? "is not known to this version"
                                             : "counts and is not modelled: " + key.note);
  }
  FT_ASSIGN(launch.ranks, RanksIn(draft));
  std::int64_t ranks = launch.ranks;
  if (ranks == 0 && options.devices) {
    FT_ASSIGN(ranks, options.devices());
  }
  if (TextIn(draft, "model.layers").empty() && !TextIn(draft, "run.chunk_layers").empty() &&
      options.layers) {
    FT_ASSIGN(const std::int64_t layers, options.layers(TextIn(draft, "run.model")));
    draft["run.layers"].text = std::to_string(layers);
  }
  FT_TRY(CompleteDraft(parts.front().dialect, std::max<std::int64_t>(1, ranks), draft));
  for (const PlanField& field : PlanFields()) {
    const auto found = draft.find(field.name);
    if (found == draft.end() || found->second.text.empty()) continue;
    const DraftValue& value = found->second;
    Plan plan;
    if (const auto set = SetPlanField(field, value.text, plan); !set) {
      return Refuse("{}{}: {}: {}", value.file,
                    value.line > 0 ? fmt::format(" line {}", value.line) : "", value.key,
                    set.error().message);
    }
    launch.options.emplace_back(field.name, value.text);
  }
  FT_TRY(SetModel(draft, options, launch));
  return launch;
}

}  // namespace foretrain
