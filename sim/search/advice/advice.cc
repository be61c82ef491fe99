#include "sim/search/advice/advice.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/units.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/program/blocks/parameters.h"
#include "sim/program/ir/precision.h"
#include "sim/program/lower/transfers/transfer_blocks.h"
#include "sim/search/space/enumerate.h"

namespace foretrain {
namespace {

// A change of one field of the space, together with fields that must follow it.
struct Change {
  std::string text;
  std::function<void(SearchSpace&)> make;
  int times = 1;  // factor on the number of devices
};

// Fixes a field: its choice goes away, and the base plan holds the only value.
void Set(SearchSpace& space, std::string_view field, std::int64_t value) {
  const PlanField& of = PlanFieldOf(field);
  std::erase_if(space.choices, [&](const SearchChoice& choice) { return choice.field == &of; });
  of.set(space.base, value);
}

Change FieldChange(std::string_view field, std::int64_t value) {
  const PlanField& of = PlanFieldOf(field);
  return {std::string(FirstOption(of)) + " " + TextOf(of, value),
          [field, value](SearchSpace& space) { Set(space, field, value); }};
}

// Extends a space for `times` as many devices: dp, tp and pp may be larger by powers of two.
void Widen(SearchSpace& space, int times, int ranks) {
  space.base.global_batch =
      std::max<std::int64_t>(space.base.global_batch, std::int64_t{ranks} * times);
  for (SearchChoice& choice : space.choices) {
    const std::string_view axis = choice.field->name;
    if (axis != "dp" && axis != "tp" && axis != "pp") continue;
    std::set<std::int64_t> values(choice.values.begin(), choice.values.end());
    for (const std::int64_t value : choice.values) {
      for (std::int64_t n = 2; n <= times; n *= 2) values.insert(value * n);
    }
    choice.values.assign(values.begin(), values.end());
  }
}

// True if the space leaves the choice of one of the fields open.
bool IsChosen(const SearchSpace& space, std::initializer_list<std::string_view> fields) {
  return std::any_of(space.choices.begin(), space.choices.end(), [&](const SearchChoice& choice) {
    return choice.values.size() > 1 &&
           std::find(fields.begin(), fields.end(), choice.field->name) != fields.end();
  });
}

// The 16-bit format that the device computes in; `nullopt` if it has none.
std::optional<Precision> ShortFormatOf(const ClusterSpec& cluster) {
  if (cluster.is_cpu || cluster.device.bf16_flop_per_s > 0) return Precision::kBf16;
  if (cluster.device.fp16_flop_per_s > 0) return Precision::kFp16;
  return std::nullopt;
}

// Changes by kind; within a kind the smallest change comes first.
std::vector<std::vector<Change>> ChangesOf(const SearchSpace& space, const ClusterSpec& cluster,
                                           int ranks) {
  const auto host = static_cast<std::int64_t>(OffloadTarget::kHost);
  std::vector<std::vector<Change>> kinds;
  const std::optional<Precision> shorter_format = ShortFormatOf(cluster);
  if (shorter_format && !space.base.HasShortActivations() && !IsChosen(space, {"precision"})) {
    kinds.push_back({FieldChange("precision", static_cast<std::int64_t>(*shorter_format))});
  }
  kinds.push_back({FieldChange("recompute", static_cast<std::int64_t>(RecomputeKind::kSelective)),
                   FieldChange("recompute", static_cast<std::int64_t>(RecomputeKind::kFull))});
  kinds.push_back(
      {FieldChange("zero_stage", 1), FieldChange("zero_stage", 2), FieldChange("zero_stage", 3)});
  kinds.push_back({FieldChange("micro_batch", 1)});
  kinds.push_back({FieldChange("loss_chunks", 8)});
  kinds.push_back({FieldChange("moments", static_cast<std::int64_t>(MomentFormat::kBf16)),
                   FieldChange("moments", static_cast<std::int64_t>(MomentFormat::kInt8))});
  kinds.push_back({FieldChange("offload_activations", host)});
  kinds.push_back({FieldChange("offload_optimizer", host)});
  kinds.push_back({{"--offload-optimizer host --offload-gradients host", [](SearchSpace& of) {
                      Set(of, "offload_optimizer", host);
                      Set(of, "offload_gradients", host);
                    }}});
  // The last resorts combine everything that saves memory.
  const auto save_all = [](SearchSpace& of) {
    Set(of, "zero_stage", 3);
    Set(of, "offload_optimizer", host);
    Set(of, "offload_activations", host);
    Set(of, "recompute", static_cast<std::int64_t>(RecomputeKind::kFull));
  };
  kinds.push_back(
      {{"--zero 3 --offload-optimizer host --offload-activations host --recompute full", save_all},
       {"--zero 3 --offload-optimizer host --offload-gradients host --offload-parameters host "
        "--weights fp32 --offload-activations host --recompute full",
        [save_all](SearchSpace& of) {
          save_all(of);
          Set(of, "offload_gradients", host);
          Set(of, "offload_parameters", host);
          Set(of, "weights", static_cast<std::int64_t>(WeightStorage::kFp32));
        }}});
  // Shorter sequences and more devices, by factors of two.
  std::vector<Change> shorter, more;
  for (int halves = 1; halves <= 10; ++halves) {
    const std::int64_t sequence = space.base.sequence >> halves;
    if (halves <= 6 && sequence >= 128) shorter.push_back(FieldChange("sequence", sequence));
    const int times = 1 << halves;
    more.push_back({std::to_string(ranks * times) + " devices",
                    [times, ranks](SearchSpace& of) { Widen(of, times, ranks); }, times});
  }
  if (space.base.method == TrainingMethod::kFull) {
    kinds.push_back({FieldChange("method", static_cast<std::int64_t>(TrainingMethod::kLora)),
                     FieldChange("method", static_cast<std::int64_t>(TrainingMethod::kQlora))});
  }
  kinds.push_back(std::move(shorter));
  kinds.push_back(std::move(more));
  return kinds;
}

// Lower bound on the bytes that the devices of any plan of the space hold together. Counts weights,
// gradients and, unless a plan may offload it, optimizer state, once each. Returns 0 if plans of
// the space differ in any of these.
std::int64_t MinTogether(const ModelSpec& model, const SearchSpace& space) {
  if (IsChosen(space, {"precision", "weights", "gradients", "method", "offload_parameters",
                       "offload_gradients"})) {
    return 0;
  }
  Plan plan = space.base;
  for (const SearchChoice& choice : space.choices) {
    if (choice.values.size() == 1) choice.field->set(plan, choice.values.front());
  }
  if (plan.offload_parameters != OffloadTarget::kNone ||
      plan.offload_gradients != OffloadTarget::kNone || plan.QuantizesBase()) {
    return 0;
  }
  // Adapters on linears that do not take them make an invalid plan, which has no parameters to
  // count.
  if (plan.HasAdapters() && !ValidatePlan(plan, model)) return 0;
  const ParameterCounts counts = CountParameters(model, plan);
  std::int64_t bytes =
      BytesIn(WeightFormat(plan), counts.all) + BytesIn(SumFormat(plan), counts.trained);
  if (IsChosen(space, {"offload_optimizer", "offload_fraction", "moments", "optimizer"}) ||
      plan.offload_optimizer != OffloadTarget::kNone) {
    return bytes;
  }
  if (HasMasters(plan)) bytes += BytesIn(NumberFormat::kFp32, counts.trained);
  if (plan.average_decay > 0) bytes += BytesIn(NumberFormat::kFp32, counts.trained);
  // Muon keeps two moments of some parameters and one of others; Adafactor's are few.
  const int moments = plan.optimizer == OptimizerKind::kMuon        ? 1
                      : plan.optimizer == OptimizerKind::kAdafactor ? 0
                                                                    : MomentsOf(plan.optimizer);
  bytes += moments * BytesIn(MomentFormatOf(plan), counts.trained);
  return bytes;
}

}  // namespace

// Each kind of change costs at least one enumeration, so each stops at its first success. The lower
// bound on state skips changes that cannot work.
std::vector<Advice> AdviseToFit(const ModelSpec& model, const CostModel& costs,
                                const SearchSpace& space, int ranks, std::int64_t memory_bytes,
                                std::int64_t host_bytes, int threads) {
  std::vector<Advice> advice;
  for (const std::vector<Change>& kind : ChangesOf(space, costs.cluster(), ranks)) {
    for (const Change& change : kind) {
      SearchSpace changed = space;
      change.make(changed);
      // With far too few devices no plan can fit.
      if (MinTogether(model, changed) / (std::int64_t{ranks} * change.times) > memory_bytes) {
        continue;
      }
      ClusterSpec cluster = costs.cluster();
      cluster.nodes *= change.times;
      const auto machine = CostModel::Make(cluster, costs.profile());
      if (!machine) continue;
      EnumerateOptions options;
      options.memory_bytes = memory_bytes;
      options.host_bytes = host_bytes;
      options.kept = 1;
      options.front = options.smallest = false;
      options.threads = threads;
      const auto found = EnumeratePlans(model, *machine, changed, ranks * change.times, options);
      if (!found || found->fastest.empty()) continue;
      const Candidate& best = found->fastest.front();
      advice.push_back(
          {change.text, Describe(best.plan), best.estimate.step_s, best.estimate.memory_bytes});
      break;
    }
  }
  // Changes of the work itself (sequence, method, number of devices) come last.
  std::stable_sort(advice.begin(), advice.end(), [&](const Advice& a, const Advice& b) {
    const auto changes_work = [](const Advice& one) {
      return one.change.starts_with("--sequence") || one.change.starts_with("--method") ||
             one.change.ends_with("devices");
    };
    if (changes_work(a) != changes_work(b)) return changes_work(b);
    return a.step_s < b.step_s;
  });
  return advice;
}

SearchSpace SpaceOfPlan(const Plan& plan) {
  SearchSpace space;
  space.base = plan;
  space.Choose("dp", {plan.dp});
  space.Choose("tp", {plan.tp});
  space.Choose("pp", {plan.pp});
  return space;
}

std::string AdviceText(const std::vector<Advice>& advice) {
  if (advice.empty()) return " Use more devices, a shorter --sequence or a smaller --micro-batch";
  std::string text = " What would fit:";
  for (const Advice& one : advice) {
    text += "\n  " + one.change + ": " + one.plan + ", " + FormatBytes(one.bytes) + ", step " +
            FormatSeconds(one.step_s) + " by closed form";
  }
  return text;
}

}  // namespace foretrain
