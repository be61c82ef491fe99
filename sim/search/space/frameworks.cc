#include "sim/search/space/frameworks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/embedded.h"
#include "base/json/json.h"
#include "base/text.h"
#include "sim/config/plan/plan_values.h"
#include "sim/config/rules/refuse.h"
#include "sim/embedded_data.h"

namespace foretrain {
namespace {

constexpr double kMaxHeadroom = 64;

bool Contains(const std::vector<std::int64_t>& values, std::int64_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// The field with values to choose from that `member` names; null after a refusal.
const PlanField* ReadField(JsonFields& fields, std::string_view member, std::string_view name) {
  const PlanField* field = FindPlanField(name);
  if (field != nullptr && field->get != nullptr) return field;
  fields.Refuse(member, "is no option of plans with values to choose from");
  return nullptr;
}

Result<FrameworkLimit> ReadLimit(JsonFields& fields) {
  FrameworkLimit out;
  out.degree = ReadField(fields, "degree", fields.String("degree", 64));
  out.from = fields.IntegerOr("from", out.from, 0, kMaxRanks);
  out.field = ReadField(fields, "field", fields.String("field", 64));
  const std::string values = fields.String("values");
  if (out.field != nullptr) {
    auto read = ParsePlanValues(*out.field, values);
    if (read) {
      out.values = *std::move(read);
    } else {
      fields.Refuse("values", read.error().message);
    }
  }
  FT_TRY(fields.Finish());
  return out;
}

// Values are written as on the command line: "1f1b,interleaved".
Result<Framework> ReadFramework(JsonFields& fields) {
  Framework out;
  out.name = fields.String("name", 64);
  out.title = fields.String("title");
  out.stage_lists = fields.BoolOr("stage_lists", false);
  const std::int64_t short_stages = fields.IntegerOr("short_stages", -1, -1, kMaxRanks);
  if (short_stages >= 0) out.short_stages = short_stages;
  out.tunes_gathers = fields.BoolOr("tunes_gathers", false);
  out.expert_headroom = fields.NumberOr("expert_headroom", 0, 0, kMaxHeadroom);
  out.preset = fields.StringOr("preset", "");
  out.source = fields.String("source");
  for (JsonFields& of : fields.ObjectsOr("limits")) {
    FT_ASSIGN(FrameworkLimit limit, ReadLimit(of));
    out.limits.push_back(std::move(limit));
  }
  JsonFields values = fields.Object("values");
  for (const std::string& name : values.names()) {
    const PlanField* field = ReadField(values, name, name);
    if (field == nullptr) break;
    const auto read = ParsePlanValues(*field, values.String(name));
    if (!read) {
      values.Refuse(name, read.error().message);
      break;
    }
    out.values.emplace_back(field, *read);
  }
  FT_TRY(values.Finish());
  FT_TRY(fields.Finish());
  return out;
}

}  // namespace

Result<std::vector<Framework>> ParseFrameworks(std::string_view text, std::string_view file) {
  FT_ASSIGN(const JsonValue value, ParseJson(text, file));
  JsonFields fields(value, file);
  std::vector<Framework> out;
  for (JsonFields& of : fields.ObjectsOr("frameworks")) {
    FT_ASSIGN(Framework framework, ReadFramework(of));
    out.push_back(std::move(framework));
  }
  FT_TRY(fields.Finish());
  return out;
}

Result<std::vector<Framework>> BuiltInFrameworks() {
  constexpr std::string_view kFile = "sim/search/space/frameworks.json";
  const EmbeddedFile* file = FindEmbedded(sim_data::Files(), kFile);
  FT_CHECK(file != nullptr);
  return ParseFrameworks(file->text, kFile);
}

Result<Framework> FindFramework(const std::vector<Framework>& frameworks, std::string_view name) {
  const std::string lower = ToLower(Trim(name));
  std::vector<std::string_view> names;
  for (const Framework& framework : frameworks) {
    if (framework.name == lower) return framework;
    names.push_back(framework.name);
  }
  return Refuse("--for: \"{}\" is none of {}{}", Printable(name), fmt::join(names, ", "),
                DidYouMean(lower, names));
}

bool Has(const Framework& framework, std::string_view field, std::int64_t value) {
  const PlanField* const of = &PlanFieldOf(field);
  const auto found = std::find_if(framework.values.begin(), framework.values.end(),
                                  [of](const auto& entry) { return entry.first == of; });
  return found == framework.values.end() || Contains(found->second, value);
}

std::string BrokenLimit(const Framework& framework, std::int64_t layers, const Plan& plan) {
  for (const FrameworkLimit& limit : framework.limits) {
    if (limit.degree->get(plan) < limit.from || Contains(limit.values, limit.field->get(plan)))
      continue;
    return fmt::format("{} {} with {} {}: {} does not have it", limit.field->name,
                       TextOf(*limit.field, plan), limit.degree->name, TextOf(*limit.degree, plan),
                       framework.title);
  }
  const std::int64_t stages = plan.Stages();
  const std::int64_t missing = (stages - layers % stages) % stages;
  if (framework.short_stages && missing > *framework.short_stages && plan.stage_layers.empty()) {
    return fmt::format("{} layers on {} stages: {} would have a layer fewer, and {} has at most {}",
                       layers, stages, missing, framework.title, *framework.short_stages);
  }
  return "";
}

// The search chooses among the framework's rank orders as among its own: only orders that differ
// for a plan's degrees count.
void RestrictRankOrders(const std::vector<std::int64_t>& allowed, SearchSpace& space) {
  const PlanField& field = PlanFieldOf("rank_order");
  std::erase_if(space.choices, [&](const SearchChoice& one) { return one.field == &field; });
  space.rank_orders.assign(allowed.begin(), allowed.end());
  space.orders_ranks = allowed.size() > 1;
  if (!Contains(allowed, field.get(space.base))) field.set(space.base, allowed.front());
}

void RestrictTo(const Framework& framework, std::int64_t layers, SearchSpace& space) {
  if (!framework.stage_lists) space.balances_layers = false;
  if (!framework.tunes_gathers) space.tunes_gathers = false;
  if (!framework.limits.empty() || framework.short_stages) {
    space.refuses = [framework, layers](const Plan& plan) {
      return BrokenLimit(framework, layers, plan);
    };
  }
  if (space.base.expert_headroom == 0 && space.base.capacity_factor == 0) {
    space.expert_headroom = framework.expert_headroom;
    if (space.base.ep > 1) space.base.expert_headroom = framework.expert_headroom;
  }
  for (const auto& [field, allowed] : framework.values) {
    if (field->name == "rank_order") {
      RestrictRankOrders(allowed, space);
      continue;
    }
    const auto choice =
        std::find_if(space.choices.begin(), space.choices.end(),
                     [of = field](const SearchChoice& one) { return one.field == of; });
    if (choice == space.choices.end()) {
      // A field without a choice keeps its value if it may.
      if (!Contains(allowed, field->get(space.base))) space.Choose(field->name, allowed);
      continue;
    }
    std::vector<std::int64_t> left;
    for (const std::int64_t value : choice->values) {
      if (Contains(allowed, value)) left.push_back(value);
    }
    if (left.empty()) left = allowed;
    choice->values = std::move(left);
  }
}

}  // namespace foretrain
