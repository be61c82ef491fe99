#include "sim/forecast/pass_forecast.h"

#include <algorithm>

#include "sim/memory/peak_memory.h"

namespace foretrain {
namespace {

std::size_t At(int index) { return static_cast<std::size_t>(index); }

// Extends a pass by the time that data parallelism or offload adds. Its output, which the neighbour
// waits for, is late by as much.
void Lengthen(PassTime& time, double length_s) {
  const double more_s = length_s - time.length_s;
  if (more_s <= 0) return;
  time.length_s += more_s;
  time.output_s += more_s;
}

// Mean over ranks of the share of the pipeline's time in which no pass runs.
double BubbleOf(const PlayedSlots& slots) {
  if (slots.end_s <= 0 || slots.spans.empty()) return 0;
  double idle = 0;
  for (const std::vector<SlotSpan>& rank : slots.spans) {
    double work_s = 0, end_s = 0;
    for (const SlotSpan& span : rank) {  // the two slots of a pair overlap and count once
      work_s += std::max(0.0, span.end_s - std::max(span.start_s, end_s));
      end_s = std::max(end_s, span.end_s);
    }
    idle += 1 - work_s / slots.end_s;
  }
  return idle / static_cast<double>(slots.spans.size());
}

}  // namespace

PassForecaster::PassForecaster(const ModelSpec& model, const CostModel& costs)
    : model_(model), costs_(costs), evaluator_(model, costs, AllPlanFields()) {}

// The evaluator gives lengths of passes in closed form, and SimulatePasses plays them; a pass takes
// the longer of the two. If steps overlap, one step cannot be played by itself, and the closed form
// stands.
Result<PassForecast> PassForecaster::Forecast(const Plan& plan) {
  FT_TRY(ValidatePlan(plan, model_));
  PassForecast out;
  out.plan = plan;
  const std::vector<Evaluator::RankSeconds> ranks = evaluator_.SecondsOfRanks(plan, out.estimate);
  out.step_s = out.estimate.step_s;
  if (!plan.StepsOverlap()) {
    // Communication and copies that SimulatePasses does not know make passes longer.
    const auto lengthen = [&](int rank, int chunk, ChunkTimes& times) {
      const PassSeconds& seconds = ranks[At(rank)].chunks[At(chunk)];
      Lengthen(times.forward, seconds[kF]);
      Lengthen(times.backward, seconds[kB]);
      Lengthen(times.input, seconds[kI]);
      times.weight_s = std::max(times.weight_s, seconds[kW]);
    };
    FT_ASSIGN(out.passes, SimulatePasses(model_, plan, costs_, lengthen));
    out.relative_error = out.passes.relative_error;
    out.bubble = BubbleOf(out.passes.slots);
    out.step_s = 0;
    // A rank's step ends with its reduction and update after its last pass.
    for (int pp = 0; pp < plan.pp; ++pp) {
      const std::vector<SlotSpan>& slots = out.passes.slots.spans[At(pp)];
      const RankEnd end{ranks[At(pp)].sums_s, ranks[At(pp)].update_s};
      double last_s = 0;
      for (const SlotSpan& slot : slots) last_s = std::max(last_s, slot.end_s);
      out.step_s = std::max(out.step_s, last_s + end.sums_s + end.update_s);
      out.ends.push_back(end);
    }
  }
  // Memory is exact for the fullest rank alone, which decides whether the plan fits.
  const RankCoordinates fullest{.pp = out.estimate.fullest_pp};
  out.tensors = PlannedPeak(model_, plan, fullest);
  out.device = DeviceUseOf(model_, plan, fullest, out.tensors.total, out.tensors.total,
                           costs_.cluster(), costs_.profile().system);
  return out;
}

}  // namespace foretrain
