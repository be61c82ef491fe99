#include "sim/config/launch/part_reader.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

std::string Where(const LaunchItem& entry, std::string_view file) {
  return entry.line > 0 ? fmt::format("{} line {}", file, entry.line) : std::string(file);
}

// The name of a target for people: the plan's option, or the model's member.
std::string OptionOf(std::string_view target) {
  const PlanField* const field = FindPlanField(target);
  return field != nullptr ? std::string(FirstOption(*field)) : std::string(target);
}

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
      seen_.insert(&entry);
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
      const bool is_off = std::any_of(gap.off.begin(), gap.off.end(), [&](const auto& off) {
        return SameValue(ToLower(off), ToLower(entry.value));
      });
      key.note = gap.why;
      (is_off ? account_.without_effect : account_.not_modelled).push_back(std::move(key));
      return;
    }
    for (const std::string& pattern : dialect_.without_effect) {
      if (!MatchesKey(pattern, plain)) continue;
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
};

}  // namespace

std::vector<const LaunchItem*> LastEntries(const LaunchText& text) {
  std::map<std::string, const LaunchItem*> last;
  for (const LaunchItem& entry : text.entries) last[PlainKey(entry.key)] = &entry;
  std::vector<const LaunchItem*> entries;
  for (const LaunchItem& entry : text.entries) {
    if (last[PlainKey(entry.key)] == &entry) entries.push_back(&entry);
  }
  return entries;
}

Result<LaunchDraft> ReadPart(const LaunchPart& part, const ReadLaunchOptions& options,
                             LaunchAccount& account) {
  return PartReader(part, options, account).Read();
}

}  // namespace foretrain
