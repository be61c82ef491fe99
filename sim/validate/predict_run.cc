#include "sim/validate/predict_run.h"

#include "base/units.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/memory/device_use.h"
#include "sim/search/evaluate/evaluator.h"

namespace foretrain {
namespace {

// Step time in closed form and memory for one plan.
RunPrediction PredictPlan(const RunCase& run, const Plan& plan, const CostModel& costs) {
  RunPrediction out;
  out.plan = plan;
  const StatedMemory memory = StatedMemoryOf(run.model, plan, run.system, run.cluster);
  out.peak_gib = GibFromBytes(memory.stated);
  out.fits = memory.fits;
  out.step_s = Evaluator(run.model, costs, AllPlanFields()).Evaluate(plan).step_s;
  out.interval = ForecastIntervalOf(out.step_s, costs.profile().error);
  return out;
}

// Whether `a` is a better guess of what the run used. Plans that fit come first, ordered by time
// per sample. If neither fits, the smaller is better.
bool Better(const RunPrediction& a, const RunPrediction& b) {
  if (a.fits != b.fits) return a.fits;
  if (!a.fits) return a.peak_gib < b.peak_gib;
  const auto per_sample = [](const RunPrediction& p) {
    return p.step_s / static_cast<double>(p.plan.global_batch);
  };
  return per_sample(a) < per_sample(b);
}

// Forecasts all plans that the row allows and keeps the best guess.
Result<RunPrediction> Predict(const PublishedRun& run, const CaseSources& sources,
                              const Learned* learned) {
  FT_ASSIGN(const RunCase of, CaseOf(run, sources));
  DeviceProfile profile = DeriveProfile(of.cluster, of.system);
  if (learned != nullptr) ApplyLearned(*learned, of.preset, profile);
  FT_ASSIGN(const CostModel costs, CostModel::Make(of.cluster, profile));
  RunPrediction best;
  for (std::size_t i = 0; i < of.plans.size(); ++i) {
    RunPrediction one = PredictPlan(of, of.plans[i], costs);
    if (i == 0 || Better(one, best)) best = std::move(one);
  }
  best.open = of.open;
  best.filled = of.filled;
  best.preset = of.preset;
  return best;
}

}  // namespace

StatedMemory StatedMemoryOf(const ModelSpec& model, const Plan& plan, const SystemOptions& system,
                            const ClusterSpec& cluster) {
  // The source may state memory of rank 0 instead of the fullest. Whether the run fits always
  // depends on the fullest. The kind of figure decides which parts are added: cached memory of the
  // allocator, and for nvidia-smi also memory outside it.
  const FullestDevice fullest = FullestDeviceOf(model, plan, cluster, system);
  const auto first = [&] {
    const std::int64_t tensors = PlannedPeak(model, plan, {}).total;
    return DeviceUseOf(model, plan, RankCoordinates{}, tensors, tensors, cluster, system);
  };
  const bool other = system.memory_rank == MemoryRank::kFirst && fullest.index != 0;
  const DeviceUse use = other ? first() : fullest.memory;
  StatedMemory out{use.tensors + use.held, Fits(fullest.memory, cluster)};
  if (system.memory_figure == MemoryFigure::kAllocated) return out;
  out.stated += use.cached;
  if (system.memory_figure == MemoryFigure::kNvidiaSmi) out.stated += use.outside.OfProcess();
  return out;
}

RunPrediction PredictRun(const PublishedRun& run, const CaseSources& sources,
                         const Learned* learned) {
  Result<RunPrediction> prediction = Predict(run, sources, learned);
  if (prediction.has_value()) return *prediction;
  RunPrediction refused;
  refused.refused = prediction.error().message;
  return refused;
}

}  // namespace foretrain
