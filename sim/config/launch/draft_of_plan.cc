// From a plan to the quantities that a launch file says.
#include <algorithm>
#include <cmath>

#include "base/json/json.h"
#include "base/text.h"
#include "sim/config/launch/expert_pattern.h"
#include "sim/config/launch/launch_facts.h"
#include "sim/config/model/model_json.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

// Members of a model file as targets: "model.layers" and so on, without its name.
void AddModel(const ModelSpec& model, LaunchDraft& draft) {
  const auto json = ParseJson(ToJson(model), "model");
  FT_CHECK(json.has_value());
  for (std::size_t i = 0; i < json->items().size(); ++i) {
    const JsonValue& value = json->items()[i];
    std::string text;
    switch (value.kind()) {
      case JsonValue::Kind::kBool:
        text = value.AsBool() ? "on" : "off";
        break;
      case JsonValue::Kind::kInteger:
        text = std::to_string(value.AsInteger());
        break;
      case JsonValue::Kind::kNumber:
        text = NumberInFile(value.AsNumber());
        break;
      case JsonValue::Kind::kString:
        text = value.AsString();
        break;
      default:
        continue;
    }
    if (json->names()[i] != "name") draft["model." + json->names()[i]].text = text;
  }
}

}  // namespace

LaunchDraft DraftOf(const Dialect& dialect, const Plan& plan, const ModelSpec& model,
                    std::string_view model_name, std::int64_t ranks_per_node) {
  LaunchDraft draft;
  for (const PlanField& field : PlanFields()) {
    draft[std::string(field.name)].text = TextOf(field, plan);
  }
  AddModel(model, draft);
  const auto set = [&draft](const char* target, std::int64_t value) {
    draft[target].text = std::to_string(value);
  };
  const std::int64_t per_node = std::min<std::int64_t>(ranks_per_node, plan.World());
  set("run.ranks", plan.World());
  set("run.ranks_per_node", per_node);
  set("run.nodes", (plan.World() + per_node - 1) / per_node);
  set("run.shards", plan.dp / std::max(1, plan.replicas));
  set("run.micro_batches", plan.MicroBatches());
  // A pipeline runs all micro-batches of a step as one local batch.
  set("run.local_batch", plan.pp > 1 ? plan.MicroBatches() * plan.micro_batch : plan.micro_batch);
  set("run.pipeline_micro_batch", plan.micro_batch);
  set("run.rank_batch", plan.global_batch / plan.dp);
  // Trainers have no key for one chunk of layers a rank.
  if (plan.vpp == 1) draft.erase("vpp");
  if (plan.vpp > 1 && plan.pp > 1) {
    const std::int64_t chunks = std::int64_t{plan.pp} * plan.vpp;
    if (model.layers % chunks == 0) set("run.chunk_layers", model.layers / chunks);
  }
  if (plan.recompute == RecomputeKind::kFull) {
    draft["run.recompute_method"].text = plan.recompute_layers > 0 ? "block" : "uniform";
    set("run.recompute_count", std::max(1, plan.recompute_layers));
  }
  const DialectBuckets& buckets = dialect.buckets;
  if (buckets.without_overlap_bytes > 0) {
    const bool overlaps = plan.bucket_bytes != buckets.without_overlap_bytes;
    draft["run.overlaps_gradients"].text = overlaps ? "on" : "off";
    const bool is_usual = plan.bucket_bytes == UsualBucketBytes(buckets, plan.dp);
    if (!overlaps || is_usual) draft.erase("bucket_bytes");
  }
  if (plan.HasDynamicScale()) {
    draft["run.initial_scale"].text = fmt::format("{}", plan.loss_scale);
    set("run.scale_window", plan.loss_scale_window);
    const double power = std::log2(plan.loss_scale);
    if (power == std::floor(power)) set("run.scale_power", static_cast<std::int64_t>(power));
    draft.erase("loss_scale");
    draft.erase("loss_scale_window");
  }
  if (plan.stage_layers.size() > 1) {
    set("run.first_layers", plan.stage_layers.front());
    set("run.last_layers", plan.stage_layers.back());
  }
  if (model.IsLatent()) {
    set("model.plain_head_dim", model.head_dim - model.rope_head_dim);
    draft.erase("model.head_dim");
  }
  if (model.positions == PositionKind::kRope && model.head_dim > 0) {
    draft["model.rotary_share"].text =
        NumberText(static_cast<double>(model.RotaryDim()) / static_cast<double>(model.head_dim));
  }
  if (const std::string list = ExpertLayersText(model); !list.empty()) {
    draft["run.expert_layers"].text = list;
  }
  if (!model_name.empty()) draft["run.model"].text = model_name;
  return draft;
}

}  // namespace foretrain
