#include "sim/check/lint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "base/units.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/cost/network/plan_place.h"
#include "sim/memory/host_memory.h"
#include "sim/search/advice/advice.h"
#include "sim/search/advice/better_order.h"
#include "sim/search/space/default_space.h"
#include "sim/search/space/enumerate.h"
#include "sim/search/space/frameworks.h"

namespace foretrain {
namespace {

constexpr double kWorthWarning = 0.05;  // gain of a change that is a warning
constexpr std::size_t kMaxAdvice = 3;
constexpr std::size_t kMaxPlans = 16;  // that fit, until one is found that the file can say

// The key of the file that gives a field, if one does.
const LaunchKey* KeyOf(const LaunchAccount& account, std::string_view field) {
  const PlanField* const of = FindPlanField(field);
  if (of == nullptr) return nullptr;
  for (const LaunchKey& key : account.used) {
    if (key.note == FirstOption(*of)) return &key;
  }
  return nullptr;
}

Finding At(const LaunchKey* key, Finding finding) {
  if (key == nullptr) return finding;
  finding.key = key->key;
  finding.file = key->file;
  finding.line = key->line;
  return finding;
}

class PlanLint {
 public:
  PlanLint(const ModelSpec& model, const CostModel& costs, const Plan& plan,
           const LaunchDialect& launch, const LaunchAccount& account)
      : model_(model), costs_(costs), plan_(plan), launch_(launch), account_(account) {}

  void CheckMemory(const PlanForecast& forecast, const LintMemory& memory, int threads) {
    const ClusterSpec& cluster = costs_.cluster();
    const std::string has = FormatBytes(memory.device_bytes);
    if (forecast.device_bytes > memory.device_bytes) {
      Add({Severity::kError, "memory", "", "", 0,
           fmt::format("a rank needs {} of a device that has {}",
                       FormatBytes(forecast.device_bytes), has),
           WhatFits(memory, threads)});
    } else if (forecast.device_bytes > memory.limit_bytes) {
      Add({Severity::kWarning, "memory", "", "", 0,
           fmt::format("a rank needs {} of {}: less than the margin is left for what no forecast "
                       "knows",
                       FormatBytes(forecast.device_bytes), has),
           WhatFits(memory, threads)});
    }
    if (memory.host_bytes > 0 && forecast.host_bytes > memory.host_bytes && !cluster.is_cpu) {
      Add({Severity::kError,
           "memory",
           "",
           "",
           0,
           fmt::format("the ranks of a node need {} of host memory, and it has {}",
                       FormatBytes(forecast.host_bytes), FormatBytes(memory.host_bytes)),
           {"offload less, or to NVMe"}});
    }
  }

  // Degrees that communicate in each layer should stay on links.
  void CheckPlacement() {
    const ClusterSpec& cluster = costs_.cluster();
    for (const DegreePlace& place : PlacesOf(cluster, costs_.fabric(), plan_)) {
      const bool each_layer = place.degree == "tp" || place.degree == "ep";
      if (!each_layer || place.place.IsWithinLinks() || cluster.is_cpu) continue;
      const bool is_tp = place.degree == "tp";
      Add(At(KeyOf(account_, place.degree),
             {is_tp ? Severity::kWarning : Severity::kNote,
              "placement",
              "",
              "",
              0,
              fmt::format("{} {} leaves the links of a node: {} of its ranks share one, and it "
                          "communicates over the {} at {}/s",
                          place.degree, place.ranks, place.place.per_node, place.tier,
                          FormatSi(place.bytes_per_s, "B")),
              {}}));
    }
    const RankOrderChoice best = FastestRankOrder(model_, costs_, plan_);
    if (cluster.is_cpu || best.step_s > best.given_step_s * (1 - kBetterOrder)) return;
    const auto keys = KeysBetween(launch_, model_, cluster.devices_per_node, plan_, best.plan);
    Add({Severity::kWarning, "placement", "", "", 0,
         fmt::format("ranks in the order {} take {:.0f} % less time",
                     NameOfRankOrder(best.plan.rank_order),
                     100 * (1 - best.step_s / best.given_step_s)),
         keys ? *keys
              : std::vector<std::string>{launch_.dialect->title + " has no key for the order"}});
  }

  void CheckSpeed(const PlanCauses& plans) {
    for (const PlanCause& cause : plans.causes) {
      const double gain = cause.saved_s / plans.as_is.step_s;
      Add({gain >= kWorthWarning ? Severity::kWarning : Severity::kNote, "speed", "", "", 0,
           fmt::format("{}: {:.0f} % of the step", TextOf(cause.kind), 100 * gain), cause.keys});
    }
    const int devices = costs_.cluster().Devices();
    if (plan_.World() < devices) {
      Add({Severity::kWarning,
           "speed",
           "",
           "",
           0,
           fmt::format("{} of {} devices are used", plan_.World(), devices),
           {"start as many ranks as there are devices"}});
    }
  }

  std::vector<Finding> Take() { return std::move(findings_); }

 private:
  void Add(Finding finding) { findings_.push_back(std::move(finding)); }

  // The fastest plan that fits and that the trainer's file can say, as keys; without one, changes
  // of foretrain's options.
  std::vector<std::string> WhatFits(const LintMemory& memory, int threads) const {
    const std::int64_t host_bytes = HostShareOf(costs_.cluster(), costs_.profile().system);
    if (auto keys = FittingKeys(memory.limit_bytes, host_bytes, threads); !keys.empty()) {
      return keys;
    }
    std::vector<std::string> helps;
    for (const Advice& advice : AdviseToFit(model_, costs_, SpaceOfPlan(plan_), plan_.World(),
                                            memory.limit_bytes, host_bytes, threads)) {
      if (helps.size() == kMaxAdvice) break;
      helps.push_back(fmt::format("{} ({})", advice.change, FormatBytes(advice.bytes)));
    }
    if (helps.empty()) helps.emplace_back("use more devices");
    return helps;
  }

  std::vector<std::string> FittingKeys(std::int64_t memory_bytes, std::int64_t host_bytes,
                                       int threads) const {
    SearchSpace space = DefaultSpace(model_, costs_.cluster(), plan_.World(), plan_);
    const auto frameworks = BuiltInFrameworks();
    FT_CHECK(frameworks.has_value());
    const auto framework = FindFramework(*frameworks, launch_.dialect->framework);
    if (!framework) return {};
    RestrictTo(*framework, model_.AllLayers(), space);
    EnumerateOptions options;
    options.memory_bytes = memory_bytes;
    options.host_bytes = host_bytes;
    options.kept = kMaxPlans;
    options.front = options.smallest = false;
    options.threads = threads;
    const auto found = EnumeratePlans(model_, costs_, space, plan_.World(), options);
    if (!found) return {};
    for (const Candidate& one : found->fastest) {
      auto keys = KeysBetween(launch_, model_, costs_.cluster().devices_per_node, plan_, one.plan);
      if (keys && !keys->empty()) return *std::move(keys);
    }
    return {};
  }

  const ModelSpec& model_;
  const CostModel& costs_;
  const Plan& plan_;
  const LaunchDialect& launch_;
  const LaunchAccount& account_;
  std::vector<Finding> findings_;
};

}  // namespace

std::string_view Name(Severity severity) {
  constexpr std::array<std::string_view, 3> kNames = {"error", "warning", "note"};
  return kNames[static_cast<std::size_t>(severity)];
}

// Messages of plans name fields: "heads 12: tp 8 does not divide them".
Finding FindingOf(const Error& error, const LaunchAccount& account) {
  const std::string& text = error.message;
  const LaunchKey* key = nullptr;
  for (const std::string_view word : Split(text, ' ')) {
    if (key == nullptr) key = KeyOf(account, word.substr(0, word.find_first_of(":,;.")));
  }
  return At(key, {Severity::kError, "plan", "", "", 0, text, {}});
}

std::vector<Finding> LintKeys(const LaunchAccount& account) {
  std::vector<Finding> findings;
  for (const LaunchKey& key : account.not_modelled) {
    const bool is_unknown = key.note == "is not known";
    findings.push_back(At(&key, {is_unknown ? Severity::kWarning : Severity::kNote,
                                 "key",
                                 "",
                                 "",
                                 0,
                                 is_unknown ? "is not known: it may be misspelled"
                                            : "counts and is not modelled: " + key.note,
                                 {}}));
  }
  for (const LaunchKey& key : account.defaults) {
    const bool is_dropout = key.key.find("dropout") != std::string::npos;
    if (!is_dropout) continue;
    findings.push_back({Severity::kWarning,
                        "key",
                        key.key,
                        key.file,
                        0,
                        fmt::format("is not given, and the trainer takes {}", key.value),
                        {"give it, with 0 for pre-training"}});
  }
  return findings;
}

std::vector<Finding> LintPlan(const ModelSpec& model, const CostModel& costs, const Plan& plan,
                              const LaunchDialect& launch, const LaunchAccount& account,
                              const PlanCauses& plans, const LintMemory& memory, int threads) {
  PlanLint lint(model, costs, plan, launch, account);
  lint.CheckMemory(plans.as_is, memory, threads);
  lint.CheckPlacement();
  lint.CheckSpeed(plans);
  return lint.Take();
}

bool HasError(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& one) { return one.severity == Severity::kError; });
}

}  // namespace foretrain
