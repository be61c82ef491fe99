// Longer than 400 lines: the walk over a space, its order and what it leaves out are one idea.
#include "sim/search/space/space.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/result.h"

namespace foretrain {
namespace {

// Sizes saturate here; larger spaces need no exact count.
constexpr std::int64_t kMax = std::int64_t{1} << 62;

// Order of the levels. Fields whose values are often invalid or share work come first, then those
// with the largest effect on time and memory. Offload comes last.
constexpr std::array<std::string_view, 12> kFirst = {
    "expert_tp", "ep",        "rank_order", "cp_kind",           "micro_batch",    "schedule",
    "vpp",       "recompute", "zero_stage", "sequence_parallel", "vocab_parallel", "tp_tiles"};
constexpr std::array<std::string_view, 4> kSplit = {"dp", "cp", "tp", "pp"};

bool IsOffload(const PlanField& field) { return field.name.starts_with("offload_"); }

std::size_t OrderOf(const PlanField& field) {
  if (IsOffload(field)) return kFirst.size() + 1;
  const auto found = std::find(kFirst.begin(), kFirst.end(), field.name);
  return static_cast<std::size_t>(found - kFirst.begin());
}

std::int64_t Times(std::int64_t a, std::int64_t b) { return a > kMax / b ? kMax : a * b; }

// Fields that only tensor parallelism reads. Without it they must have their default.
bool SplitsTensorsAlone(const PlanField& field) {
  return field.name == "sequence_parallel" || field.name == "vocab_parallel" ||
         field.name == "tp_tiles";
}

// Whether plans that differ only in this field are the same, given the fields decided before it.
bool MakesNoDifference(const PlanField& field, const Plan& plan) {
  if (field.name == "schedule") return plan.pp == 1;
  if (field.name == "vpp") return plan.schedule != ScheduleKind::kInterleaved;
  if (field.name == "cp_kind") return plan.cp == 1;
  if (field.name == "expert_tp") return plan.tp == 1;
  if (field.name == "zero_stage") return plan.DataParallel() == 1;
  if (SplitsTensorsAlone(field)) return plan.tp == 1;
  return false;
}

// The value that represents all values if they make no difference.
std::int64_t PlainValue(const SearchChoice& choice) {
  const std::int64_t standard = choice.field->get(Plan{});
  const auto& values = choice.values;
  const bool has = std::find(values.begin(), values.end(), standard) != values.end();
  const bool forced = choice.field->name == "vpp" || choice.field->name == "schedule" ||
                      SplitsTensorsAlone(*choice.field);
  return has || forced ? standard : *std::min_element(values.begin(), values.end());
}

// Whether some plan of the space has a tp above 1.
bool SplitsTensors(const SearchSpace& space) {
  const PlanField* const tp = &PlanFieldOf("tp");
  for (const SearchChoice& choice : space.choices) {
    if (choice.field != tp) continue;
    return std::any_of(choice.values.begin(), choice.values.end(),
                       [](std::int64_t value) { return value > 1; });
  }
  return space.base.tp > 1;
}

}  // namespace

void SearchSpace::Choose(std::string_view field, std::vector<std::int64_t> values) {
  const PlanField* chosen = &PlanFieldOf(field);
  for (SearchChoice& choice : choices) {
    if (choice.field == chosen) {
      choice.values = std::move(values);
      return;
    }
  }
  choices.push_back({chosen, std::move(values)});
}

// A fixed small set of values per field. A choice that has none of them keeps its first value, so
// the coarse space is never empty unless the space is.
SearchSpace CoarseSpace(const SearchSpace& space) {
  struct Some {
    std::string_view field;
    std::vector<std::int64_t> values;
  };
  const auto number = [](auto kind) { return static_cast<std::int64_t>(kind); };
  // Without tensor parallelism, as on one device, there is nothing to split over its ranks.
  const std::int64_t splits = SplitsTensors(space) ? 1 : 0;
  const std::array<Some, 13> some = {
      Some{"tp", {1, 2, 4, 8}},
      {"cp", {1, 2, 8}},
      {"micro_batch", {1, 2, 4}},
      {"schedule", {number(ScheduleKind::k1f1b), number(ScheduleKind::kInterleaved)}},
      {"vpp", {2, 4}},
      {"zero_stage", {1, 3}},
      {"sequence_parallel", {splits}},
      {"vocab_parallel", {splits}},
      {"tp_tiles", {1}},
      {"cp_kind", {number(ContextParallelKind::kAllGather)}},
      {"offload_optimizer", {0}},
      {"offload_activations", {0}},
      {"expert_tp", {0}}};
  SearchSpace coarse = space;
  for (SearchChoice& choice : coarse.choices) {
    const auto found = std::find_if(some.begin(), some.end(), [&choice](const Some& one) {
      return one.field == choice.field->name;
    });
    if (found == some.end()) continue;
    std::vector<std::int64_t> kept;
    for (const std::int64_t value : choice.values) {
      const auto& few = found->values;
      if (std::find(few.begin(), few.end(), value) != few.end()) kept.push_back(value);
    }
    if (kept.empty() && !choice.values.empty()) kept.push_back(choice.values.front());
    choice.values = std::move(kept);
  }
  return coarse;
}

// Separates the split of the ranks from the other choices, which become the levels of the walk.
// below_ counts combinations under each level, so a cut subtree is counted without being visited.
SpaceWalk::SpaceWalk(const ModelSpec& model, const SearchSpace& space, int ranks,
                     RankOrderOf order_of)
    : model_(model), space_(space), all_fields_(AllPlanFields()) {
  std::array<SearchChoice, 4> split;
  for (std::size_t i = 0; i < kSplit.size(); ++i) {
    const PlanField& field = PlanFieldOf(kSplit[i]);
    split[i] = {&field, {field.get(space.base)}};
  }
  for (const SearchChoice& choice : space.choices) {
    const auto found = std::find(kSplit.begin(), kSplit.end(), choice.field->name);
    if (found == kSplit.end()) {
      levels_.push_back(choice);
    } else {
      split[static_cast<std::size_t>(found - kSplit.begin())].values = choice.values;
    }
  }
  std::stable_sort(levels_.begin(), levels_.end(), [](const auto& a, const auto& b) {
    return OrderOf(*a.field) < OrderOf(*b.field);
  });
  // Without offload comes first: a plan that fits without it needs no offload.
  for (SearchChoice& level : levels_) {
    if (IsOffload(*level.field)) std::sort(level.values.begin(), level.values.end());
  }
  // From the last level upwards: combinations below each level.
  below_.assign(levels_.size() + 1, 1);
  for (std::size_t i = levels_.size(); i-- > 0;) {
    const auto values = static_cast<std::int64_t>(levels_[i].values.size());
    below_[i] = values == 0 ? 0 : Times(below_[i + 1], values);
  }
  if (space.orders_ranks && order_of) {
    order_of_ = std::move(order_of);
    // Levels of degrees come first (kFirst).
    const auto is_degree = [](const SearchChoice& level) {
      return level.field->name == "expert_tp" || level.field->name == "ep";
    };
    while (ordered_ < levels_.size() && is_degree(levels_[ordered_])) ++ordered_;
  }
  first_free_ = levels_.size();
  while (first_free_ > 0 && MayBeFree(*levels_[first_free_ - 1].field)) --first_free_;
  // Splits in the order tp, pp, cp, dp: plans of one tp share state tables.
  Plan plan = space.base;
  for (const std::int64_t tp : split[2].values) {
    for (const std::int64_t pp : split[3].values) {
      for (const std::int64_t cp : split[1].values) {
        for (const std::int64_t dp : split[0].values) {
          if (std::max({dp, cp, tp, pp}) > ranks || dp * cp > ranks / (tp * pp)) continue;
          if (dp * cp * tp * pp != ranks) continue;
          plan.dp = static_cast<int>(dp);
          plan.cp = static_cast<int>(cp);
          plan.tp = static_cast<int>(tp);
          plan.pp = static_cast<int>(pp);
          splits_.push_back(plan);
        }
      }
    }
  }
}

std::int64_t SpaceWalk::size() const {
  return splits_.empty() ? 0 : Times(static_cast<std::int64_t>(splits_.size()), below_[0]);
}

std::vector<std::vector<std::size_t>> SpaceWalk::Units() const {
  std::map<std::pair<int, int>, std::vector<std::size_t>> units;
  for (std::size_t part = 0; part < splits_.size(); ++part) {
    units[{splits_[part].tp, splits_[part].cp}].push_back(part);
  }
  std::vector<std::vector<std::size_t>> out;
  for (auto& [of, parts] : units) out.push_back(std::move(parts));
  return out;
}

VaryingFields SpaceWalk::varying() const {
  // Completing a plan may change any field.
  if (space_.complete) return AllPlanFields();
  VaryingFields fields;
  for (const std::string_view name : kSplit) fields.push_back(&PlanFieldOf(name));
  for (const SearchChoice& level : levels_) fields.push_back(level.field);
  if (order_of_) fields.push_back(&PlanFieldOf("rank_order"));
  if (space_.expert_headroom > 0) fields.push_back(&PlanFieldOf("expert_headroom"));
  return fields;
}

// State of the visit of one part.
struct SpaceWalk::Visit {
  const std::function<bool(const Plan&)>& visit;
  const std::function<bool()>& stop;
  Rejections& rejected;
  const LeavesOut& leaves_out;
  std::set<std::uint64_t> seen;  // hashes of completed plans
  // Families by level, micro-batch and whether experts span tp; within a part nothing else affects
  // the free values.
  std::map<std::tuple<std::size_t, std::int64_t, bool>, PlanFamily> families = {};
};

void SpaceWalk::VisitPart(std::size_t part, const std::function<bool(const Plan&)>& visit,
                          const std::function<bool()>& stop, Rejections& rejected,
                          const LeavesOut& leaves_out) const {
  Plan plan = splits_[part];
  Visit state{visit, stop, rejected, leaves_out, {}, {}};
  if (const std::string why = BrokenEarly(plan, PlanFieldOf("dp")); !why.empty()) {
    rejected.Add(kBreaksRule, Below(0), why);
    return;
  }
  Descend(plan, 0, state);
}

// Message of a rule that is broken whatever the levels after `field` choose; empty if there is
// none. Cutting there saves the whole subtree.
std::string SpaceWalk::BrokenEarly(const Plan& plan, const PlanField& field) const {
  // All other fields are as permissive as possible: a plain 1F1B with a batch that divides.
  Plan plain;
  plain.dp = plan.dp;
  plain.cp = plan.cp;
  plain.tp = plan.tp;
  plain.pp = plan.pp;
  plain.sequence = plan.sequence;
  plain.micro_batch = 1;
  plain.global_batch = std::int64_t{2} * plan.dp * plan.pp;
  const std::string_view name = field.name;
  const bool of_batch = name == "micro_batch" || name == "schedule" || name == "vpp" ||
                        name == "sequence_parallel" || name == "vocab_parallel" ||
                        name == "tp_tiles";
  if (of_batch) {
    plain.micro_batch = plan.micro_batch;
    plain.global_batch = plan.global_batch;
  }
  // Rules of experts. expert_tp is chosen before ep, and both before the sequence parallelism that
  // they need.
  const bool of_experts = (name == "ep" || name == "sequence_parallel") && !space_.complete;
  if (of_experts) {
    plain.ep = plan.ep;
    plain.expert_tp = plan.expert_tp;
    plain.sequence_parallel = plan.ExpertsSpanTp();
  }
  if (name == "ep") {
    if (!of_experts || model_.balance_tokens > 0) return {};
    plain.micro_batch = plan.tp;
    plain.global_batch *= plan.tp;
  }
  if (name == "schedule" || name == "vpp") {
    // Interleaving needs chunks, which the next level chooses.
    if (name == "schedule" && plan.schedule == ScheduleKind::kInterleaved) return {};
    plain.schedule = plan.schedule;
    plain.vpp = name == "vpp" ? plan.vpp : 1;
  } else if (of_batch || name == "cp_kind") {
    field.set(plain, field.get(plan));
  } else if (name != "dp" && name != "ep") {
    return {};
  }
  // A choice that completion takes back, such as a preset's sequence parallelism with tp 1, breaks
  // no rule.
  if (space_.complete) space_.complete(plain);
  const auto valid = ValidatePlan(plain, model_);
  return valid.has_value() ? std::string() : valid.error().message;
}

// Depth-first walk over the levels; returns whether some plan below fits. Values that make no
// difference collapse to one, and offload values are skipped once a plan without them fits.
bool SpaceWalk::Descend(Plan& plan, std::size_t level, Visit& visit) const {
  if (visit.stop()) return false;
  // The order of other degrees may be left over, so it starts from the space's.
  if (order_of_ && level == ordered_) {
    plan.rank_order = space_.base.rank_order;
    plan.rank_order = order_of_(plan);
  }
  if (level == levels_.size()) return Leaf(plan, visit);
  if (IsLeftOut(plan, level, visit)) return false;
  const SearchChoice& choice = levels_[level];
  const PlanField& field = *choice.field;
  const std::int64_t before = field.get(plan);
  const double headroom = plan.expert_headroom;
  const bool is_ep = field.name == "ep";
  bool fits = false;
  if (MakesNoDifference(field, plan)) {
    const auto others = static_cast<std::int64_t>(choice.values.size()) - 1;
    visit.rejected.Add(kIsSame, others * Below(level + 1), "");
    field.set(plan, PlainValue(choice));
    fits = Descend(plan, level + 1, visit);
  } else {
    for (std::size_t i = 0; i < choice.values.size(); ++i) {
      field.set(plan, choice.values[i]);
      if (is_ep && space_.expert_headroom > 0) {
        plan.expert_headroom = plan.ep > 1 ? space_.expert_headroom : headroom;
      }
      const std::string why = BrokenEarly(plan, field);
      if (!why.empty()) {
        visit.rejected.Add(kBreaksRule, Below(level + 1), why);
        continue;
      }
      const bool fitted = Descend(plan, level + 1, visit);
      fits = fits || fitted;
      if (IsOffload(field) && choice.values[i] == 0 && fitted) {
        const auto left = static_cast<std::int64_t>(choice.values.size() - i) - 1;
        visit.rejected.Add(kFitsAnyhow, left * Below(level + 1), "");
        break;
      }
    }
  }
  field.set(plan, before);
  plan.expert_headroom = headroom;
  return fits;
}

// The valid values of all levels from `level` on.
PlanFamily SpaceWalk::FamilyBelow(const Plan& plan, std::size_t level) const {
  PlanFamily family;
  Plan other = plan;
  for (; level < levels_.size(); ++level) {
    const PlanField& field = *levels_[level].field;
    SearchChoice choice{&field, {}};
    if (SplitsTensorsAlone(field) && plan.tp == 1) {
      choice.values = {PlainValue(levels_[level])};
      field.set(other, choice.values.front());
      family.free.push_back(std::move(choice));
      continue;
    }
    for (const std::int64_t value : levels_[level].values) {
      field.set(other, value);
      if (BrokenEarly(other, field).empty()) choice.values.push_back(value);
    }
    field.set(other, field.get(plan));
    family.free.push_back(std::move(choice));
  }
  SetKey(family);
  return family;
}

// Skips the plans below `level` if the caller's bounds rule all of them out. Not between offload
// levels, because whether plans fit without offload decides about the next value.
bool SpaceWalk::IsLeftOut(const Plan& plan, std::size_t level, Visit& visit) const {
  if (!visit.leaves_out || space_.complete || level < first_free_) return false;
  if (level > 0 && IsOffload(*levels_[level - 1].field)) return false;
  const auto family_at = [&](std::size_t at) -> const PlanFamily& {
    const auto [found, is_new] =
        visit.families.try_emplace({at, plan.micro_batch, plan.ExpertsSpanTp()});
    if (is_new) found->second = FamilyBelow(plan, at);
    return found->second;
  };
  // It would be the same family as one level before.
  if (level > first_free_ && family_at(level - 1).free.front().values.size() == 1) return false;
  const PlanFamily& family = family_at(level);
  Plan one = plan;
  for (const SearchChoice& choice : family.free) {
    if (choice.values.empty()) return false;
    choice.field->set(one, choice.values.back());
  }
  const Reason reason = visit.leaves_out(one, family);
  if (reason.reason.empty()) return false;
  visit.rejected.Add(reason.reason, Below(level), reason.example);
  return true;
}

// Completes and validates a full combination, then visits it. Completed plans may coincide, so they
// are told apart by a hash.
bool SpaceWalk::Leaf(const Plan& plan, Visit& visit) const {
  const Plan* at = &plan;
  Plan completed;
  if (space_.complete) {
    completed = plan;
    space_.complete(completed);
    at = &completed;
    if (!visit.seen.insert(all_fields_.Of(completed).Value()).second) {
      visit.rejected.Add(kIsSame, 1, "");
      return false;
    }
  }
  if (const auto valid = ValidatePlan(*at, model_); !valid.has_value()) {
    visit.rejected.Add(kBreaksRule, 1, valid.error().message);
    return false;
  }
  if (const std::string why = space_.refuses ? space_.refuses(*at) : ""; !why.empty()) {
    visit.rejected.Add(kBreaksRule, 1, why);
    return false;
  }
  return visit.visit(*at);
}

}  // namespace foretrain
