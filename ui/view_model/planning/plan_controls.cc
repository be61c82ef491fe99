#include "ui/view_model/planning/plan_controls.h"

#include <algorithm>
#include <set>
#include <utility>

#include "sim/program/schedules/schedule.h"

namespace foretrain::ui {
namespace {

using Names = std::vector<std::string_view>;

// The only list of groups; a plan field that is missing here appears in the group "other".
const std::vector<std::pair<std::string_view, Names>>& NamedGroups() {
  static const std::vector<std::pair<std::string_view, Names>> groups = {
      {"parallel",
       {"dp", "tp", "pp", "cp", "ep", "expert_tp", "cp_kind", "sequence_parallel", "vocab_parallel",
        "vocab_multiple", "rank_order"}},
      {"batch", {"micro_batch", "global_batch", "sequence", "encoder_sequence"}},
      {"schedule", {"schedule", "schedule_slots", "vpp", "stage_layers", "post_validation"}},
      {"memory",
       {"zero_stage", "replicas", "recompute", "recompute_modules", "recompute_layers",
        "recompute_every", "offload_optimizer", "offload_gradients", "offload_parameters",
        "offload_activations", "offload_fraction", "stream_optimizer", "loss_chunks", "mlp_tiles",
        "unsharded_bytes"}},
      {"precision",
       {"precision", "weights", "gradients", "logits", "moments", "gather_format", "attention",
        "fuse", "loss_scale", "loss_scale_window"}},
      {"overlap",
       {"prefetch_depth", "gather_bytes", "reduction_time", "bucket_bytes", "tp_tiles",
        "moe_pieces", "delayed_update"}},
      {"training",
       {"method", "lora_rank", "lora_alpha", "optimizer", "decay", "average_decay", "clip_norm",
        "dropout", "attention_dropout", "documents", "capacity_factor", "expert_headroom"}},
  };
  return groups;
}

std::vector<std::int64_t> Powers(std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> values;
  if (low == 0) values.push_back(0);
  for (std::int64_t value = std::max<std::int64_t>(1, low); value <= high; value *= 2) {
    values.push_back(value);
  }
  return values;
}

std::vector<std::int64_t> Divisors(std::int64_t number, std::int64_t max) {
  std::vector<std::int64_t> values;
  for (std::int64_t d = 1; d <= std::min(number, max); ++d) {
    if (number % d == 0) values.push_back(d);
  }
  return values;
}

std::vector<std::int64_t> All(std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> values;
  for (std::int64_t value = low; value <= high; ++value) values.push_back(value);
  return values;
}

bool IsDegree(std::string_view name) {
  return name == "tp" || name == "pp" || name == "cp" || name == "dp";
}

// Typical values of the field, with or without the plan's own value.
std::vector<std::int64_t> Natural(const PlanField& field, const ModelSpec& model, const Plan& plan,
                                  int devices) {
  const std::string_view name = field.name;
  constexpr std::int64_t kMaxDegree = 4096;
  if (IsDegree(name) || name == "replicas") return Divisors(devices, kMaxDegree);
  if (name == "ep") return Divisors(std::max<std::int64_t>(1, model.experts), kMaxDegree);
  if (name == "expert_tp") return {0, 1};
  if (name == "micro_batch") {
    return Divisors(std::max<std::int64_t>(1, plan.global_batch / std::max(1, plan.dp)), 256);
  }
  if (name == "global_batch") {
    std::vector<std::int64_t> values;
    const std::int64_t unit = std::max<std::int64_t>(1, plan.dp * plan.micro_batch);
    for (std::int64_t n = 1; n <= 4096 && n * unit <= kMaxModelCount; n *= 2) {
      values.push_back(n * unit);
    }
    return values;
  }
  if (name == "sequence") return Powers(128, std::max<std::int64_t>(model.max_sequence, 1 << 20));
  if (name == "recompute_layers" || name == "recompute_every" || name == "vpp") {
    const auto layers = static_cast<std::int64_t>(model.AllLayers() / std::max(1, plan.pp));
    return All(field.low, std::min<std::int64_t>(std::max<std::int64_t>(layers, 1), 256));
  }
  if (field.type == PlanFieldType::kSize) {
    return Powers(field.low, std::int64_t{1} << 36);
  }
  return Powers(field.low, std::min<std::int64_t>(field.high, 1024));
}

// The values in order, with the plan's own value among them.
std::vector<std::int64_t> WithOwn(std::vector<std::int64_t> values, std::int64_t own) {
  const auto at = std::lower_bound(values.begin(), values.end(), own);
  if (at == values.end() || *at != own) values.insert(at, own);
  return values;
}

}  // namespace

// Built once; fields are matched by name, and every field is placed exactly once.
const std::vector<ControlGroup>& ControlGroups() {
  static const std::vector<ControlGroup> groups = [] {
    std::vector<ControlGroup> out;
    std::set<const PlanField*> placed;
    for (const auto& [name, fields] : NamedGroups()) {
      ControlGroup group{name, {}};
      for (const std::string_view field : fields) {
        const PlanField* found = FindPlanField(field);
        if (found != nullptr && placed.insert(found).second) group.fields.push_back(found);
      }
      out.push_back(std::move(group));
    }
    ControlGroup other{"other", {}};
    for (const PlanField& field : PlanFields()) {
      if (!placed.contains(&field)) other.fields.push_back(&field);
    }
    if (!other.fields.empty()) out.push_back(std::move(other));
    return out;
  }();
  return groups;
}

// The plan's own value is inserted if it is not among the typical ones, so that a slider never
// changes a plan by itself.
std::vector<std::int64_t> StepsOf(const PlanField& field, const ModelSpec& model, const Plan& plan,
                                  int devices) {
  if (field.get == nullptr) return {};
  if (field.type == PlanFieldType::kNames) {
    // The default and each single name; the plan's own set is added below.
    std::vector<std::int64_t> sets = {0};
    for (std::size_t i = 0; i < field.choices.size(); ++i) sets.push_back(std::int64_t{1} << i);
    return WithOwn(std::move(sets), field.get(plan));
  }
  const bool named = field.type == PlanFieldType::kChoice || field.type == PlanFieldType::kFlag;
  if (named || field.high - field.low <= 8) return All(field.low, field.high);
  std::vector<std::int64_t> values = Natural(field, model, plan, devices);
  const auto outside = [&](std::int64_t v) { return v < field.low || v > field.high; };
  std::erase_if(values, outside);
  return WithOwn(std::move(values), field.get(plan));
}

// A custom schedule starts as the present one; where that has no file, it stays without slots.
// dp absorbs a change of another degree, so that the number of ranks stays equal to the number of
// devices.
Plan WithField(const PlanField& field, std::int64_t value, const Plan& plan, int devices) {
  Plan out = plan;
  field.set(out, value);
  if (out.schedule == ScheduleKind::kCustom && out.slots.empty()) {
    if (const auto draft = DraftOf(plan)) {
      if (auto slots = SlotOrder::Make(*draft, "")) out.slots = *std::move(slots);
    }
    if (!out.slots.empty()) out.vpp = 1;
  }
  if (!IsDegree(field.name) || field.name == "dp") return out;
  const std::int64_t others = std::int64_t{out.cp} * out.tp * out.pp;
  if (others > 0 && devices % others == 0) out.dp = static_cast<int>(devices / others);
  return out;
}

std::string LabelOf(const PlanField& field) {
  std::string text(FirstOption(field).substr(2));
  std::replace(text.begin(), text.end(), '-', ' ');
  return text;
}

}  // namespace foretrain::ui
