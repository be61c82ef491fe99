// A plan file: if it is accepted, it is sound, writing and reading it again gives the same plan,
// and its step is forecast or refused with a sentence. Only plans of few ranks and micro-batches
// are forecast, for the sake of time.
#include <cmath>
#include <string_view>

#include "sim/config/catalogue/catalogue.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/config/plan/plan_json.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/forecast/forecast.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace foretrain;

// Four layers of 64 in four heads, for up to 8,192 tokens.
ModelSpec SmallModel(const Catalogue& catalogue) {
  ModelSpec model = ResolveModel("gpt-10m", "fuzz", catalogue).value().model;
  model.layers = 4;
  model.hidden = 64;
  model.heads = model.kv_heads = 4;
  model.head_dim = 16;
  model.ffn_hidden = 256;
  model.positions = PositionKind::kRope;
  return model;
}

void CheckForecast(const Plan& plan) {
  static const Catalogue catalogue = BuiltInCatalogue().value();
  static const ModelSpec model = SmallModel(catalogue);
  static const ClusterSpec cluster = ParseCluster("1x8xa100-80gb-sxm", catalogue).value();
  static const CostModel costs = CostModel::Make(cluster, DeriveProfile(cluster)).value();
  const auto forecast = MakeForecast(model, plan, costs);
  if (!forecast) {
    FT_CHECK(!forecast.error().message.empty());
    return;
  }
  FT_CHECK(std::isfinite(forecast->simulation.step_s) && forecast->simulation.step_s > 0);
  FT_CHECK(!forecast->memory.empty());
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto plan = PlanFromJson({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!plan) {
    FT_CHECK(!plan.error().message.empty());
    return 0;
  }
  FT_CHECK(plan->World() >= 1 && plan->World() <= kMaxRanks);
  FT_CHECK(plan->MicroBatches() >= 1 && plan->MicroBatches() <= kMaxMicroBatches);
  FT_CHECK(!Describe(*plan).empty());
  Plan copy;
  for (const PlanField& field : PlanFields()) {
    FT_CHECK(field.list != nullptr || field.slots != nullptr || !TextOf(field, *plan).empty());
    CopyField(field, *plan, copy);
  }
  FT_CHECK(copy == *plan);
  const auto again = PlanFromJson(ToJson(*plan), "written");
  FT_CHECK(again.has_value() && *again == *plan);
  if (plan->World() <= 8 && plan->MicroBatches() <= 8 && plan->sequence <= 8192) {
    CheckForecast(*plan);
  }
  return 0;
}
