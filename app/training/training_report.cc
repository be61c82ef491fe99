#include "app/training/training_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "app/report/checkpoint_report.h"
#include "app/report/memory_report.h"
#include "app/report/report.h"
#include "base/json/json.h"
#include "base/units.h"
#include "sim/program/ir/rank_order.h"

namespace foretrain {
namespace {

// The cost of recording; empty if nothing was recorded.
std::string RecordingText(const CaptureCost& cost, const TrainingOptions& options) {
  if (options.capture == CaptureLevel::kOff) return "";
  std::string text = FormatPercent(cost.share) + " of the threads' time";
  if (cost.recorded_step_s) {
    text += ", recorded step " + FormatSeconds(*cost.recorded_step_s) + ", unrecorded step " +
            FormatSeconds(*cost.unrecorded_step_s);
  }
  return MetricLine("recording share", text);
}

// Path of the last checkpoint that was written; empty if none was.
std::string NewestOf(const std::vector<SaveReport>& saves) {
  std::string path;
  for (const SaveReport& save : saves) path = save.path.empty() ? path : save.path;
  return path;
}

// The CUDA graphs that were made; empty if none were asked for.
std::string GraphsText(const GraphUse& use, const TrainingOptions& options) {
  if (!options.job.executor.graphs) return "";
  if (use.launches == 0 && use.refused == 0) {
    return MetricLine("graphs",
                      "none: a step whose ops the host times runs op by op, as the first one "
                      "does; --capture off, or full where the GPU's own recording works");
  }
  std::string text = std::to_string(use.made) + " made, " + std::to_string(use.launches) +
                     " launches of " + std::to_string(use.ops) + " ops";
  if (use.refused > 0) {
    text += "; " + std::to_string(use.refused) + " not made: " + use.why_refused;
  }
  return MetricLine("graphs", text);
}

void WriteGraphs(JsonWriter& json, const GraphUse& use) {
  json.Name("graphs").BeginObject().Field("made", use.made).Field("launches", use.launches);
  json.Field("ops", use.ops).Field("refused", use.refused).EndObject();
}

}  // namespace

void PrintResult(const TrainingResult& result, const ParameterCounts& counts,
                 const TrainingOptions& options, const std::string& store) {
  const std::int64_t steps = result.summary.steps;
  std::printf("\n%lld step%s", static_cast<long long>(steps), steps == 1 ? "" : "s");
  if (steps > 0) std::printf(", loss %.4f -> %.4f", result.first_loss, result.last_loss);
  if (result.evaluation_loss) std::printf(", evaluation loss %.4f", *result.evaluation_loss);
  std::puts(result.summary.stopped ? " (stopped)" : "");
  if (result.metrics.overall) {
    std::fputs(StepText(*result.metrics.overall, options.capture != CaptureLevel::kOff).c_str(),
               stdout);
  }
  std::fputs(ParametersText(counts).c_str(), stdout);
  const std::string growth = FormatBytes(result.summary.resident_growth_bytes);
  std::fputs(MetricLine("resident growth", growth).c_str(), stdout);
  std::fputs(MetricLine("predicted growth", FormatBytes(result.predicted_bytes)).c_str(), stdout);
  std::fputs(OffloadText(result.offload).c_str(), stdout);
  if (result.document_tokens > 0) {
    std::fputs(MetricLine("documents", fmt::format("{:.0f} tokens each by their attention in 64 "
                                                   "samples, as the forecast counts them",
                                                   result.document_tokens))
                   .c_str(),
               stdout);
  }
  std::fputs(GraphsText(result.summary.graphs, options).c_str(), stdout);
  std::fputs(RecordingText(result.capture_cost, options).c_str(), stdout);
  if (const auto cost = MeasuredCost(result.saves)) {
    std::fputs(MetricLine("checkpoint", DescribeCost(*cost)).c_str(), stdout);
    std::fputs(
        MetricLine("predicted checkpoint", DescribeCost(result.predicted_checkpoint)).c_str(),
        stdout);
  }
  if (result.goodput > 0) {
    std::fputs(MetricLine("goodput", FormatPercent(result.goodput) +
                                         " of the time since the training began became steps")
                   .c_str(),
               stdout);
  }
  if (!result.unrecorded.empty()) {
    std::fputs(MetricLine("not recorded", result.unrecorded).c_str(), stdout);
  }
  if (result.emulated.run != 0) {
    std::fputs(MetricLine("emulated step time", FormatSeconds(result.emulated.step_s) +
                                                    " with a device a rank: compute as measured "
                                                    "alone, network modelled; run " +
                                                    std::to_string(result.emulated.run))
                   .c_str(),
               stdout);
  }
  std::printf("\nrecorded as run %lld in %s, its forecast is run %lld\n",
              static_cast<long long>(result.run), store.c_str(),
              static_cast<long long>(result.forecast));
  if (steps < 2) return;  // both commands leave the first step out
  for (const auto& [command, shows] :
       {std::pair{"compare", "where the forecast was wrong"},
        std::pair{"analyze", "where the time goes, and suggestions"}}) {
    std::printf("  foretrain %s --store %s --run %lld   %s\n", command, store.c_str(),
                static_cast<long long>(result.run), shows);
  }
}

void PrintResultJson(const Plan& plan, const TrainingResult& result, const ParameterCounts& counts,
                     const TrainingOptions& options) {
  JsonWriter json;
  json.BeginObject().Field("schema", 1).Field("run", result.run).Field("forecast", result.forecast);
  json.Field("steps", result.summary.steps).Field("loss", result.last_loss);
  if (result.evaluation_loss) json.Field("evaluation_loss", *result.evaluation_loss);
  json.Field("rank_order", NameOfRankOrder(plan.rank_order)).Name("slots").BeginArray();
  for (int rank = 0; rank < plan.World(); ++rank) json.Integer(DeviceOf(plan, rank));
  json.EndArray();
  std::int64_t peak_bytes = 0;
  for (const std::int64_t bytes : result.summary.peak_bytes) {
    peak_bytes = std::max(peak_bytes, bytes);
  }
  json.Field("peak_memory_gib", GibFromBytes(peak_bytes));
  json.Field("predicted_growth_bytes", result.predicted_bytes);
  WriteParameters(json, counts);
  WriteOffload(json, result.offload);
  json.Field("resident_growth_bytes", result.summary.resident_growth_bytes);
  if (options.job.executor.graphs) WriteGraphs(json, result.summary.graphs);
  if (const auto cost = MeasuredCost(result.saves)) {
    WriteCost(json, "checkpoint_cost", *cost);
    WriteCost(json, "predicted_checkpoint_cost", result.predicted_checkpoint);
  }
  if (!result.saves.empty()) json.Field("checkpoint", NewestOf(result.saves));
  if (result.document_tokens > 0) json.Field("document_tokens", result.document_tokens);
  if (result.goodput > 0) json.Field("goodput", result.goodput);
  if (!result.unrecorded.empty()) json.Field("unrecorded", result.unrecorded);
  if (result.emulated.run != 0) {
    json.Name("emulated").BeginObject().Field("run", result.emulated.run);
    json.Field("step_time_s", result.emulated.step_s).Field("covered", result.emulated.covered);
    json.EndObject();
  }
  if (result.metrics.overall) {
    json.Field("step_time_s", result.metrics.overall->time_s);
    json.Field("tokens_per_s", result.metrics.overall->tokens_per_s.value_or(0));
  }
  json.Field("recording_share", result.capture_cost.share);
  if (result.capture_cost.recorded_step_s) {
    json.Field("recorded_step_s", *result.capture_cost.recorded_step_s);
    json.Field("unrecorded_step_s", *result.capture_cost.unrecorded_step_s);
  }
  std::puts(json.Field("stopped", result.summary.stopped).EndObject().Take().c_str());
}

}  // namespace foretrain
