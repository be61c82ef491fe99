#include "sim/config/launch/dialect.h"

#include <algorithm>
#include <array>

#include "base/embedded.h"
#include "base/json/json.h"
#include "base/text.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/config/rules/refuse.h"
#include "sim/embedded_data.h"

namespace foretrain {
namespace {

constexpr std::array<std::string_view, 5> kSyntaxNames = {"shell", "variables", "json", "toml",
                                                          "yaml"};

NamePairs ReadPairs(JsonFields& fields, std::string_view name) {
  NamePairs pairs;
  if (std::optional<JsonFields> object = fields.ObjectOr(name)) {
    for (const std::string& one : object->names()) pairs.emplace_back(one, object->String(one));
  }
  return pairs;
}

// A target that is no plan field is checked where it is used: by the model's reader or by facts.
void CheckTarget(JsonFields& fields, std::string_view name, std::string_view target) {
  const bool is_other = target.starts_with("model.") || target.starts_with("run.");
  if (is_other || FindPlanField(target) != nullptr) return;
  fields.Refuse(name, "is neither a field of a plan nor model.* nor run.*");
}

DialectRow ReadRow(JsonFields& fields) {
  DialectRow row;
  row.key = fields.String("key", 200);
  row.also = fields.StringsOr("also", 200);
  row.to = fields.String("to", 200);
  CheckTarget(fields, "to", row.to);
  row.has_standard = fields.Has("standard");
  row.standard = fields.StringOr("standard", "");
  row.same_as = fields.StringOr("same_as", "");
  row.values = ReadPairs(fields, "values");
  row.is_open = fields.BoolOr("open", false);
  row.scale = fields.NumberOr("scale", 1, 1e-9, 1e9);
  row.needs = fields.StringOr("needs", "");
  row.with = fields.StringOr("with", "");
  row.is_list = fields.BoolOr("list", false);
  row.is_part = fields.BoolOr("part", false);
  row.is_text = fields.BoolOr("text", false);
  row.is_weak = fields.BoolOr("weak", false);
  return row;
}

Result<DialectCases> ReadCases(JsonFields& fields) {
  DialectCases out;
  out.keys = ReadPairs(fields, "keys");
  for (JsonFields& one : fields.Objects("cases")) {
    DialectCase of;
    of.when = ReadPairs(one, "when");
    of.set = ReadPairs(one, "set");
    of.needs = one.StringOr("needs", "");
    for (const auto& [target, value] : of.set) CheckTarget(one, "set", target);
    FT_TRY(one.Finish());
    out.cases.push_back(std::move(of));
  }
  FT_TRY(fields.Finish());
  return out;
}

bool HasName(const Dialect& dialect, const std::string& name) {
  return dialect.name == name ||
         std::find(dialect.aliases.begin(), dialect.aliases.end(), name) != dialect.aliases.end();
}

}  // namespace

Result<Dialect> DialectFromJson(std::string_view text, std::string_view file) {
  FT_ASSIGN(const JsonValue value, ParseJson(text, file));
  JsonFields fields(value, file);
  Dialect out;
  out.name = fields.String("name", 64);
  out.title = fields.String("title");
  out.aliases = fields.StringsOr("aliases", 64);
  out.framework = fields.StringOr("framework", "");
  out.preset = fields.StringOr("preset", "");
  out.syntax = static_cast<LaunchSyntax>(fields.Choice("syntax", kSyntaxNames));
  out.reads_variables = out.syntax == LaunchSyntax::kVariables;
  out.head.launcher = fields.StringOr("launcher", "");
  out.head.script = fields.StringOr("script", "");
  out.add = fields.StringOr("add", "");
  out.source = fields.String("source");
  for (JsonFields& one : fields.Objects("rows")) {
    out.rows.push_back(ReadRow(one));
    FT_TRY(one.Finish());
  }
  for (JsonFields& one : fields.ObjectsOr("together")) {
    FT_ASSIGN(DialectCases cases, ReadCases(one));
    out.cases.push_back(std::move(cases));
  }
  for (JsonFields& one : fields.ObjectsOr("implied")) {
    out.implied.push_back({one.String("to"), one.String("value"), one.StringOr("needs", ""),
                           one.BoolOr("assumed", false)});
    CheckTarget(one, "to", out.implied.back().to);
    FT_TRY(one.Finish());
  }
  for (JsonFields& one : fields.ObjectsOr("not_modelled")) {
    out.gaps.push_back({one.String("key"), one.StringsOr("off"), one.String("why")});
    FT_TRY(one.Finish());
  }
  out.without_effect = fields.StringsOr("without_effect");
  out.files = ReadPairs(fields, "files");
  out.other_names = ReadPairs(fields, "other_names");
  if (std::optional<JsonFields> training = fields.ObjectOr("training")) {
    out.steps_keys = training->StringsOr("steps");
    out.learning_rate_keys = training->StringsOr("learning_rate");
    FT_TRY(training->Finish());
  }
  if (std::optional<JsonFields> buckets = fields.ObjectOr("buckets")) {
    constexpr std::int64_t kMax = std::int64_t{1} << 50;
    out.buckets.without_overlap_bytes = buckets->Integer("without_overlap_bytes", 1, kMax);
    out.buckets.elements = buckets->Integer("elements", 1, kMax);
    out.buckets.elements_per_dp = buckets->Integer("elements_per_dp", 0, kMax);
    out.buckets.element_bytes = buckets->Integer("element_bytes", 1, 8);
    FT_TRY(buckets->Finish());
  }
  FT_TRY(fields.Finish());
  return out;
}

// Rows of "launchers" belong to every dialect whose files may be scripts.
Result<std::vector<Dialect>> BuiltInDialects() {
  std::vector<Dialect> dialects;
  std::vector<DialectRow> launchers;
  for (const EmbeddedFile& file : sim_data::Files()) {
    if (!file.path.starts_with("sim/config/launch/dialects/")) continue;
    FT_ASSIGN(Dialect dialect, DialectFromJson(file.text, file.path));
    if (dialect.name == "launchers") {
      launchers = std::move(dialect.rows);
    } else {
      dialects.push_back(std::move(dialect));
    }
  }
  for (Dialect& dialect : dialects) {
    if (dialect.reads_variables) continue;
    dialect.rows.insert(dialect.rows.end(), launchers.begin(), launchers.end());
  }
  std::sort(dialects.begin(), dialects.end(),
            [](const Dialect& a, const Dialect& b) { return a.name < b.name; });
  return dialects;
}

Result<Dialect> FindDialect(const std::vector<Dialect>& dialects, std::string_view name,
                            std::string_view option) {
  const std::string lower = ToLower(Trim(name));
  std::vector<std::string_view> names;
  for (const Dialect& dialect : dialects) {
    if (HasName(dialect, lower)) return dialect;
    names.push_back(dialect.name);
  }
  return Refuse("{}: \"{}\" is no trainer that is known here; give one of {}", option,
                Printable(name), fmt::join(names, ", "));
}

std::string PlainKey(std::string_view key) {
  std::string plain(key);
  std::replace(plain.begin(), plain.end(), '-', '_');
  return plain;
}

bool MatchesKey(std::string_view pattern, std::string_view plain) {
  const std::string wanted = PlainKey(pattern);
  const std::string_view view = wanted;
  if (view.ends_with('*')) return plain.starts_with(view.substr(0, view.size() - 1));
  if (view.starts_with('*')) return plain.ends_with(view.substr(1));
  return plain == view;
}

LaunchSyntax SyntaxFor(const Dialect& dialect, std::string_view file) {
  const LaunchSyntax syntax = SyntaxOf(file);
  const bool variables = syntax == LaunchSyntax::kShell && dialect.reads_variables;
  return variables ? LaunchSyntax::kVariables : syntax;
}

}  // namespace foretrain
