// A schedule file: if it can be read, writing and reading it again gives the same draft. If its
// check finds nothing, a plan with it is accepted and its step is forecast.
#include <cmath>
#include <string_view>

#include "sim/config/catalogue/catalogue.h"
#include "sim/config/schedule/check_schedule.h"
#include "sim/config/schedule/schedule_csv.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/forecast/forecast.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace foretrain;

// 16 layers of 16 in two heads.
ModelSpec SmallModel(const Catalogue& catalogue) {
  ModelSpec model = ResolveModel("gpt-10m", "fuzz", catalogue).value().model;
  model.layers = 16;
  model.hidden = 16;
  model.heads = model.kv_heads = 2;
  model.head_dim = 8;
  model.ffn_hidden = 32;
  model.positions = PositionKind::kRope;
  return model;
}

void CheckForecast(const SlotOrder& slots) {
  static const Catalogue catalogue = BuiltInCatalogue().value();
  static const ModelSpec model = SmallModel(catalogue);
  static const ClusterSpec cluster = ParseCluster("1x8xa100-80gb-sxm", catalogue).value();
  static const CostModel costs = CostModel::Make(cluster, DeriveProfile(cluster)).value();
  Plan plan;
  plan.sequence = 8;
  plan.micro_batch = 1;
  plan.pp = slots.ranks();
  plan.global_batch = slots.micro_batches();
  plan.schedule = ScheduleKind::kCustom;
  plan.slots = slots;
  const auto forecast = MakeForecast(model, plan, costs);
  FT_CHECK(forecast.has_value());
  FT_CHECK(std::isfinite(forecast->simulation.step_s) && forecast->simulation.step_s > 0);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto draft = ParseSchedule({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!draft) {
    FT_CHECK(!draft.error().message.empty());
    return 0;
  }
  const auto again = ParseSchedule(ToCsv(*draft), "written");
  const auto rows = ParseScheduleRows(RowsOf(*draft), "written");
  FT_CHECK(again.has_value() && again->ranks == draft->ranks);
  FT_CHECK(rows.has_value() && rows->ranks == draft->ranks);
  const ScheduleReport report = CheckSchedule(*draft);
  const auto slots = SlotOrder::Make(*draft, "fuzz");
  FT_CHECK(slots.has_value() == report.Works());
  FT_CHECK(report.findings.size() <= kMaxScheduleFindings);
  FT_CHECK(report.Works() == report.findings.empty());
  for (const ScheduleFinding& finding : report.findings) FT_CHECK(!finding.text.empty());
  if (!report.Works()) return 0;
  FT_CHECK(report.makespan > 0 && report.bubble >= 0 && report.bubble < 1);
  for (const int live : report.peak_live)
    FT_CHECK(live >= 1 && live <= slots->micro_batches() * slots->chunks());
  if (slots->ranks() <= 8 && slots->chunks() <= 2 && slots->micro_batches() <= 8) {
    CheckForecast(*slots);
  }
  return 0;
}
