#include "ui/view_model/planning/scenario_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ui/view_model/planning/plan_controls.h"

namespace foretrain::ui {
namespace {

// A change with the names of its fields alone.
struct NamedChange {
  ScenarioChange change{};
  std::string names{};
};

// Joins the texts of a change that several fields make together.
void Join(const std::string& name, const std::string& text, NamedChange& into) {
  into.change.text += (into.change.text.empty() ? "" : ", ") + text;
  into.names += name + ";";
}

void Chain(std::function<void(Scenario&)> next, ScenarioChange& change) {
  if (change.apply == nullptr) {
    change.apply = std::move(next);
    return;
  }
  change.apply = [first = std::move(change.apply), next = std::move(next)](Scenario& scenario) {
    first(scenario);
    next(scenario);
  };
}

std::string FromTo(const std::string& name, const std::string& from, const std::string& to) {
  return fmt::format("{} {} to {}", name, from, to);
}

void AddField(const PlanField& field, const Scenario& before, const Scenario& after,
              NamedChange& change) {
  const std::string from = TextOf(field, before.plan), to = TextOf(field, after.plan);
  if (from == to) return;
  const std::string name = LabelOf(field);
  Join(name, FromTo(name, from.empty() ? "even" : from, to.empty() ? "even" : to), change);
  Chain([&field, plan = after.plan](Scenario& scenario) { CopyField(field, plan, scenario.plan); },
        change.change);
}

bool IsDegree(const PlanField& field) {
  constexpr std::array<std::string_view, 6> kDegrees{"dp", "tp", "pp", "cp", "ep", "expert_tp"};
  return std::find(kDegrees.begin(), kDegrees.end(), field.name) != kDegrees.end();
}

// Model and cluster as a whole, if they are others.
void AddMachine(const Scenario& before, const Scenario& after, std::vector<NamedChange>& changes) {
  const bool model = !(before.model == after.model);
  if (model) {
    NamedChange change;
    Join("model", FromTo("model", before.model.name, after.model.name), change);
    Chain([to = after.model](Scenario& scenario) { scenario.model = to; }, change.change);
    changes.push_back(std::move(change));
  }
}

NamedChange DegreesOf(const Scenario& before, const Scenario& after) {
  NamedChange change;
  const bool machine = !(before.machine.cluster == after.machine.cluster) ||
                       !(before.machine.profile == after.machine.profile);
  if (machine) {
    const bool nodes = before.cluster.nodes != after.cluster.nodes;
    Join(nodes ? "nodes" : "machine",
         nodes ? FromTo("nodes", std::to_string(before.cluster.nodes),
                        std::to_string(after.cluster.nodes))
               : FromTo("machine", before.cluster.name, after.cluster.name),
         change);
    Chain(
        [to = after.machine, from = before.cluster, cluster = after.cluster](Scenario& scenario) {
          scenario.machine = to;
          scenario.cluster = cluster;
          // Rates that the user set are changes of their own.
          for (const HardwareField& field : HardwareFields()) {
            if (field.In(cluster) > 0 && field.In(from) > 0)
              field.Set(scenario.cluster, field.In(from));
          }
        },
        change.change);
  }
  for (const ControlGroup& group : ControlGroups()) {
    for (const PlanField* field : group.fields) {
      if (IsDegree(*field)) AddField(*field, before, after, change);
    }
  }
  return change;
}

std::vector<NamedChange> NamedChangesOf(const Scenario& before, const Scenario& after) {
  std::vector<NamedChange> changes;
  AddMachine(before, after, changes);
  if (NamedChange degrees = DegreesOf(before, after); !degrees.names.empty()) {
    changes.push_back(std::move(degrees));
  }
  for (const ControlGroup& group : ControlGroups()) {
    for (const PlanField* field : group.fields) {
      if (IsDegree(*field)) continue;
      NamedChange change;
      AddField(*field, before, after, change);
      if (!change.names.empty()) changes.push_back(std::move(change));
    }
  }
  for (const HardwareField& field : HardwareFields()) {
    const double from = field.In(before.cluster), to = field.In(after.cluster);
    if (from == to || from <= 0 || to <= 0) continue;
    NamedChange change;
    const std::string name(field.name);
    Join(name, fmt::format("{} {:.4g} to {:.4g} {}", name, from, to, field.unit), change);
    Chain([&field, to](Scenario& scenario) { field.Set(scenario.cluster, to); }, change.change);
    changes.push_back(std::move(change));
  }
  return changes;
}

}  // namespace

std::vector<ScenarioChange> ChangesOf(const Scenario& before, const Scenario& after) {
  std::vector<ScenarioChange> changes;
  for (NamedChange& change : NamedChangesOf(before, after)) {
    changes.push_back(std::move(change.change));
  }
  return changes;
}

std::string DescribeChanges(const Scenario& before, const Scenario& after) {
  std::string text;
  for (const ScenarioChange& change : ChangesOf(before, after)) {
    text += (text.empty() ? "" : "; ") + change.text;
  }
  return text.empty() ? "nothing" : text;
}

// The last step takes `after` itself, so that the effects sum to the difference whatever the
// changes leave out.
Result<ExplainedDifference> ExplainDifference(const Scenario& before, const Scenario& after,
                                              StepMaker& maker,
                                              const std::function<bool()>& cancelled) {
  ExplainedDifference out;
  FT_ASSIGN(const WhatIfStep first, maker.Make({before, -1}));
  FT_ASSIGN(const WhatIfStep last, maker.Make({after, -1}));
  out.before = first.stats;
  out.after = last.stats;
  const std::vector<ScenarioChange> changes = ChangesOf(before, after);
  StepStats now = out.before;
  Scenario scenario = before;
  std::string text;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (cancelled()) return Fail(ErrorCode::kAborted, "another difference was asked for");
    changes[i].apply(scenario);
    text += (text.empty() ? "" : ", ") + changes[i].text;
    StepStats next = out.after;
    if (i + 1 < changes.size()) {
      auto step = maker.Make({scenario, -1});
      if (!step.has_value()) continue;  // legal only with the next change
      next = step->stats;
    }
    out.effects.push_back({std::move(text), next.step_s - now.step_s,
                           next.device.Total() - now.device.Total(), next.Fits()});
    text.clear();
    now = next;
  }
  return out;
}

void ScenarioHistory::Add(const Scenario& scenario) {
  if (entries_.empty()) {
    entries_.push_back({scenario, "start"});
    return;
  }
  std::string names;
  for (const NamedChange& change : NamedChangesOf(entries_[at_].scenario, scenario)) {
    names += change.names;
  }
  if (names.empty()) return;
  entries_.resize(at_ + 1);
  if (names == last_ && at_ > 0) {
    entries_.pop_back();
    --at_;
  }
  const std::string text = DescribeChanges(entries_[at_].scenario, scenario);
  last_ = std::move(names);
  entries_.push_back({scenario, text});
  if (entries_.size() > kMax) entries_.erase(entries_.begin());
  at_ = entries_.size() - 1;
}

const Scenario* ScenarioHistory::GoTo(std::size_t at) {
  if (at >= entries_.size()) return nullptr;
  at_ = at;
  last_.clear();
  return &entries_[at_].scenario;
}

const Scenario* ScenarioHistory::Undo() { return CanUndo() ? GoTo(at_ - 1) : nullptr; }
const Scenario* ScenarioHistory::Redo() { return CanRedo() ? GoTo(at_ + 1) : nullptr; }

}  // namespace foretrain::ui
