#include "sim/config/launch/write_launch.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "sim/config/launch/launch_facts.h"
#include "sim/config/launch/read_launch.h"
#include "sim/config/model/model_json.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/config/plan/plan_values.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

// Collects entries in the order of the table, each key once.
class Writer {
 public:
  Writer(const Dialect& dialect, const LaunchDraft& draft) : dialect_(dialect), draft_(draft) {}

  std::vector<LaunchItem> Write() {
    for (const DialectRow& row : dialect_.rows) WriteRow(row);
    for (const DialectCases& cases : dialect_.cases) WriteCases(cases);
    return std::move(entries_);
  }

 private:
  void WriteRow(const DialectRow& row) {
    const bool is_script = dialect_.syntax == LaunchSyntax::kShell;
    if (!is_script && row.key.starts_with("launcher.")) return;
    if (row.is_weak || said_.contains(row.to) || !Meets(draft_, row.needs)) return;
    const std::string ours = TextIn(draft_, row.to);
    if (ours.empty()) return;
    const auto theirs = TheirsOf(row, ours);
    if (!theirs || theirs->empty()) return;
    said_.insert(row.to);
    const bool is_standard = (row.has_standard && SameValue(*theirs, row.standard)) ||
                             (!row.same_as.empty() && ours == TextIn(draft_, row.same_as));
    if (is_standard) return;
    if (!row.with.empty()) Add(row.with, "true", false);
    Add(row.key, *theirs, row.is_text);
  }

  void WriteCases(const DialectCases& cases) {
    for (const DialectCase& one : cases.cases) {
      const bool holds = Meets(draft_, one.needs) &&
                         std::all_of(one.set.begin(), one.set.end(), [&](const auto& pair) {
                           return SameValue(TextIn(draft_, pair.first), pair.second);
                         });
      if (!holds) continue;
      for (const auto& [key, value] : one.when) {
        if (value != "*") Add(key, value, false);
      }
      return;
    }
  }

  void Add(const std::string& key, const std::string& value, bool is_text) {
    if (!keys_.insert(key).second) return;
    LaunchItem entry{key, value, 0, ""};
    entry.is_text = is_text;
    entries_.push_back(std::move(entry));
  }

  const Dialect& dialect_;
  const LaunchDraft& draft_;
  std::vector<LaunchItem> entries_;
  std::set<std::string> keys_;
  std::set<std::string, std::less<>> said_;  // targets
};

// Whether a file of the dialect can give the target at all.
bool Gives(const Dialect& dialect, std::string_view target) {
  const auto in_rows = std::any_of(dialect.rows.begin(), dialect.rows.end(),
                                   [&](const DialectRow& row) { return row.to == target; });
  if (in_rows) return true;
  for (const DialectCases& cases : dialect.cases) {
    for (const DialectCase& one : cases.cases) {
      for (const auto& [of, value] : one.set) {
        if (of == target) return true;
      }
    }
  }
  return false;
}

// A pipeline's options have no effect without one.
Plan Normal(Plan plan) {
  const Plan plain;
  if (plan.pp == 1) {
    plan.schedule = plain.schedule;
    plan.vpp = plain.vpp;
  }
  if (plan.tp == 1) {
    plan.sequence_parallel = plan.vocab_parallel = false;
    plan.tp_tiles = 1;
  }
  if (plan.cp == 1) plan.cp_kind = plain.cp_kind;
  return plan;
}

// Members of the two models that differ.
void CompareModels(const ModelSpec& wanted, const ModelSpec& read,
                   std::vector<std::string>& unsaid) {
  ModelSpec named = read;
  named.name = wanted.name;
  const std::string left = ToJson(wanted), right = ToJson(named);
  std::set<std::string> lines;
  for (const std::string_view line : Split(right, '\n')) {
    std::string one(Trim(line));
    if (one.ends_with(',')) one.pop_back();
    lines.insert(one);
  }
  for (const std::string_view line : Split(left, '\n')) {
    std::string one(Trim(line));
    if (one.ends_with(',')) one.pop_back();
    if (!lines.contains(one)) unsaid.push_back("the model's " + one);
  }
}

}  // namespace

Result<WrittenLaunch> WriteLaunch(const Dialect& dialect, std::span<const Dialect> dialects,
                                  const Plan& plan, const ModelSpec& model,
                                  std::string_view model_name, std::int64_t ranks_per_node) {
  LaunchDraft draft = DraftOf(dialect, plan, model, model_name, ranks_per_node);
  LaunchText text;
  text.entries = Writer(dialect, draft).Write();
  LaunchHead head = dialect.head;
  head.comment = "Written by foretrain: " + Describe(plan);
  if (!dialect.add.empty()) head.comment += ". Add " + dialect.add;
  WrittenLaunch out;
  out.text = WriteLaunchText(text.entries, dialect.syntax, head);
  // Reads the entries back, as a user would the file.
  out.entries = text.entries;
  const LaunchPart part{dialect, std::move(text), "the file"};
  ReadLaunchOptions options;
  options.devices = [&plan]() -> Result<std::int64_t> { return plan.World(); };
  options.layers = [&model](const std::string&) -> Result<std::int64_t> { return model.layers; };
  options.is_given = [](std::string_view target) { return target == "model"; };
  FT_ASSIGN(const Launch launch, ReadLaunch(std::span(&part, 1), dialects, options));
  Plan read;
  for (const auto& [name, value] : launch.options) {
    FT_TRY(SetPlanField(PlanFieldOf(name), value, read));
  }
  const Plan wanted = Normal(plan), got = Normal(read);
  for (const PlanField& field : PlanFields()) {
    const std::string ours = TextOf(field, wanted), theirs = TextOf(field, got);
    if (SameValue(ours, theirs)) continue;
    // Some trainers are told the sequence by their data alone.
    if (field.name == "sequence" && !Gives(dialect, "sequence")) continue;
    const bool is_degree = field.name == "dp" || field.name == "tp" || field.name == "pp" ||
                           field.name == "cp" || field.name == "ep";
    if (is_degree) {
      return Fail(ErrorCode::kUnsupported,
                  fmt::format("--emit {}: {} has no {} {}; choose a plan with {} {}", dialect.name,
                              dialect.title, FirstOption(field), ours, FirstOption(field), theirs));
    }
    out.unsaid.push_back(fmt::format("{} {} (the file: {})", FirstOption(field), ours, theirs));
  }
  if (!launch.model.empty()) {
    FT_ASSIGN(const ModelSpec model_read, ModelFromJson(launch.model, "the file"));
    CompareModels(model, model_read, out.unsaid);
  } else if (launch.model_name != model_name && Gives(dialect, "run.model")) {
    out.unsaid.push_back("the model " + std::string(model_name));
  }
  return out;
}

}  // namespace foretrain
