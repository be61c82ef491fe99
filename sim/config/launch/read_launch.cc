#include "sim/config/launch/read_launch.h"

#include <algorithm>
#include <set>

#include "base/json/json.h"
#include "base/text.h"
#include "sim/config/launch/part_reader.h"
#include "sim/config/model/model_json.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/config/plan/plan_values.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

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

// The number that one of the keys has; 0 if none has one above 0.
double NumberOf(const LaunchText& text, const std::vector<std::string>& keys) {
  for (const LaunchItem* entry : LastEntries(text)) {
    const bool is_it = std::any_of(keys.begin(), keys.end(), [&](const std::string& key) {
      return PlainKey(key) == PlainKey(entry->key);
    });
    const auto number = ParseNumber("", entry->value, 0, 1e12);
    if (is_it && entry->unknown.empty() && number) return *number;
  }
  return 0;
}

// If several files give steps or a learning rate, the first one counts.
void SetTraining(const LaunchPart& part, Launch& launch) {
  if (launch.steps == 0) {
    launch.steps = static_cast<std::int64_t>(NumberOf(part.text, part.dialect.steps_keys));
  }
  if (launch.learning_rate == 0) {
    launch.learning_rate = NumberOf(part.text, part.dialect.learning_rate_keys);
  }
}

}  // namespace

Result<void> CheckDialect(const LaunchPart& part, std::span<const Dialect> dialects) {
  const int known = KnownKeys(part.dialect, WithFirstNames(part.dialect, part.text));
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
  if (parts.size() == 1) FT_TRY(CheckDialect(parts.front(), dialects));
  LaunchDraft draft;
  for (const LaunchPart& given : parts) {
    const LaunchPart part{given.dialect, WithFirstNames(given.dialect, given.text), given.file};
    for (const std::string& note : part.text.notes) launch.account.notes.push_back(note);
    SetTraining(part, launch);
    FT_ASSIGN(const LaunchDraft read, ReadPart(part, options, launch.account));
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
