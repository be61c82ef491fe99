#include "app/report/comparison_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "app/report/report.h"
#include "base/json/json.h"
#include "base/table.h"
#include "base/units.h"
#include "traces/kernels/kernel_table.h"

namespace foretrain {
namespace {

constexpr int kWorstOps = 10;
constexpr std::size_t kLoneOps = 5;
constexpr double kLargeDrift = 0.15;  // of the machine since it was calibrated

// Ops of one name that only one side has.
struct LoneSum {
  std::string name;
  std::int64_t count = 0;
  double seconds = 0;
};

// Drops the sign of a value that is shown as zero.
std::string WithSign(double value, std::string shown, const std::string& zero) {
  if (shown == zero) return shown;
  return (value < 0 ? "-" : "+") + shown;
}

// Sums over all ranks. Host time is shown without an error.
void ClassRows(const ComparisonView& view, std::string& out) {
  Table table({"class", ">ops", ">" + view.predicted_name, ">" + view.measured_name, ">error"});
  for (const ClassPair& sum : view.join.classes) {
    const double error = sum.predicted_s > 0 ? sum.measured_s / sum.predicted_s - 1 : 0;
    table.AddRow({std::string(Name(sum.op_class)), std::to_string(sum.ops),
                  FormatSeconds(sum.predicted_s), FormatSeconds(sum.measured_s),
                  sum.op_class == OpClass::kHost ? "-" : SignedPercent(error)});
  }
  out += "\nBusy time of ops, all ranks (waiting for peers included)\n" + table.Text(2);
}

// Groups paired ops of all layers and micro-batches by name and shows the groups whose sums differ
// most. Absolute differences count, because a relative error of a short op costs nothing.
void WorstOps(const ComparisonView& view, const std::map<OpId, std::string>& names,
              std::string& out) {
  struct Sum {
    std::int64_t count = 0;
    double predicted_s = 0, measured_s = 0;
  };
  std::map<std::string, Sum> groups;
  for (const OpPair& pair : view.join.pairs) {
    // An op without a name is called by its instruction.
    const auto name = names.find(NameKey(pair.op));
    Sum& sum = groups[name == names.end() ? Describe(InstructionOf(pair.op)) : name->second];
    ++sum.count;
    sum.predicted_s += SecondsFromNs(pair.predicted_ns);
    sum.measured_s += SecondsFromNs(pair.measured_ns);
  }
  std::vector<std::pair<std::string, Sum>> sorted(groups.begin(), groups.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::abs(a.second.measured_s - a.second.predicted_s) >
           std::abs(b.second.measured_s - b.second.predicted_s);
  });
  Table table({"op", ">count", ">" + view.predicted_name, ">" + view.measured_name, ">difference"});
  for (std::size_t i = 0; i < sorted.size() && i < kWorstOps; ++i) {
    const auto& [name, sum] = sorted[i];
    // Sorted by difference: the rest has none.
    if (sum.measured_s == sum.predicted_s) break;
    table.AddRow({name, std::to_string(sum.count), FormatSeconds(sum.predicted_s),
                  FormatSeconds(sum.measured_s), SignedSeconds(sum.measured_s - sum.predicted_s)});
  }
  out += "\nOps that differ most\n" + table.Text(2);
}

// Ops of one side, of all layers and micro-batches, by name: the longest first.
std::vector<LoneSum> SumsOf(const std::vector<LoneOp>& ops,
                            const std::map<OpId, std::string>& names) {
  std::map<std::string, LoneSum> groups;
  for (const LoneOp& op : ops) {
    const auto name = names.find(NameKey(op.op));
    const std::string shown =
        name == names.end() ? Describe(InstructionOf(op.op)) : ShortKernelName(name->second);
    LoneSum& sum = groups.try_emplace(shown, LoneSum{shown}).first->second;
    ++sum.count;
    sum.seconds += SecondsFromNs(op.busy_ns);
  }
  std::vector<LoneSum> sorted;
  for (auto& [name, sum] : groups) sorted.push_back(std::move(sum));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const LoneSum& a, const LoneSum& b) { return a.seconds > b.seconds; });
  return sorted;
}

void LoneRows(const std::string& side, const std::vector<LoneOp>& ops,
              const std::map<OpId, std::string>& names, std::string& out) {
  if (ops.empty()) return;
  const std::vector<LoneSum> sums = SumsOf(ops, names);
  Table table({"op", ">count", ">" + side});
  for (std::size_t i = 0; i < std::min(sums.size(), kLoneOps); ++i) {
    table.AddRow({sums[i].name, std::to_string(sums[i].count), FormatSeconds(sums[i].seconds)});
  }
  out +=
      fmt::format("\nOnly {}: {} ops of {} names\n", side, ops.size(), sums.size()) + table.Text(2);
}

void WriteLone(JsonWriter& json, const char* field, const std::vector<LoneOp>& ops,
               const std::map<OpId, std::string>& names) {
  json.Name(field).BeginArray();
  for (const LoneSum& sum : SumsOf(ops, names)) {
    json.BeginObject().Field("op", sum.name).Field("count", sum.count);
    json.Field("busy_s", sum.seconds).EndObject();
  }
  json.EndArray();
}

// The rows add up to the gap, so every second of it has a line; the largest causes come first.
void Gap(const Attribution& attribution, int step, std::string& out) {
  Table table({"cause", ">gap", ">of the step"});
  const auto row = [&](const std::string& name, double seconds) {
    table.AddRow({name, SignedSeconds(seconds), SignedPercent(seconds / attribution.measured_s)});
  };
  for (const GapCause& cause : GapCauses(attribution)) row(cause.name, cause.seconds);
  row("unexplained", attribution.unexplained_s);
  table.AddLine();
  row("gap", attribution.measured_s - attribution.predicted_s);
  out += "\nWhy step " + std::to_string(step) + " took " + FormatSeconds(attribution.measured_s) +
         " and not " + FormatSeconds(attribution.predicted_s) + "\n" + table.Text(2);
  if (!attribution.Trusted()) {
    out += "  More than 3 % of the step is unexplained: do not trust the shares (" +
           FormatPercent(attribution.covered) + " of the ops have a measured time).\n";
  }
}

// The part of the error that the machine's drift explains; empty if the machine is as fast as when
// it was calibrated.
std::string DriftLine(const ComparisonView& view, double error) {
  const double drift = view.machine_drift;
  if (drift <= 0 || FormatPercent(std::abs(drift - 1)) == FormatPercent(0)) return "";
  std::string text = "  machine drift: its reference GEMM took " +
                     FormatPercent(std::abs(drift - 1)) + (drift > 1 ? " longer" : " less") +
                     " than at calibration; step time error without drift ";
  text += SignedPercent((1 + error) / drift - 1) + "\n";
  if (std::abs(drift - 1) < kLargeDrift) return text;
  return text +
         "  the rates no longer hold: `foretrain calibrate` on a machine that does nothing else\n";
}

}  // namespace

std::string SignedSeconds(double seconds) {
  return WithSign(seconds, FormatSeconds(std::abs(seconds)), FormatSeconds(0));
}

std::string SignedPercent(double fraction) {
  return WithSign(fraction, FormatPercent(std::abs(fraction)), FormatPercent(0));
}

std::vector<GapCause> GapCauses(const Attribution& attribution) {
  std::vector<GapCause> causes;
  for (const MachineShare& share : attribution.machine) {
    causes.push_back({Describe(share), share.seconds});
  }
  for (const GapShare& share : attribution.shares) {
    causes.push_back({std::string(Name(share.gap_class)), share.seconds});
  }
  std::stable_sort(causes.begin(), causes.end(), [](const GapCause& a, const GapCause& b) {
    return std::abs(a.seconds) > std::abs(b.seconds);
  });
  return causes;
}

// Step metrics, then the error, then the drift: a reader should see the plain error before any
// correction.
std::string ComparisonText(const ComparisonView& view) {
  const auto predicted = ShownMetrics(view.predicted);
  const auto measured = ShownMetrics(view.measured);
  Table table({view.title, ">" + view.predicted_name, ">" + view.measured_name});
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    table.AddRow({predicted[i].name, predicted[i].text, measured[i].text});
  }
  const auto max_bytes = [](const std::vector<NamedPeak>& peaks) {
    std::int64_t bytes = 0;
    for (const NamedPeak& peak : peaks) bytes = std::max(bytes, peak.peak.total);
    return bytes;
  };
  table.AddRow({"peak memory", FormatBytes(max_bytes(view.predicted_peaks)),
                FormatBytes(max_bytes(view.measured_peaks))});
  std::string out = table.Text(2);
  const double error = view.measured.time_s / view.predicted.time_s - 1;
  out += "\n  step time error         " + SignedPercent(error);
  out += "\n" + DriftLine(view, error);
  if (view.join.op_error)
    out += "  op error                " + FormatPercent(*view.join.op_error) + "\n";
  if (view.structure) {
    const StructuralPairs& pairs = *view.structure;
    out += fmt::format(
        "  paired by structure     {} of the traced time: {} of {} kernels with {} of {} ops\n",
        FormatPercent(pairs.PairedShare()), pairs.paired_kernels, pairs.kernels, pairs.paired_ops,
        pairs.ops);
    out += fmt::format(
        "  steady pairs            {} of it in ops within 25 % of the median of their name\n",
        FormatPercent(pairs.SteadyShare()));
  }
  for (const std::string& note : view.notes) out += "  " + note + "\n";
  return out;
}

// The same numbers as the text, plus every class. `gap` is empty if the step could not be
// attributed.
void WriteComparison(JsonWriter& json, const ComparisonView& view, const ComparedNames& names) {
  json.Name("predicted").BeginObject();
  WriteMetrics(json, view.predicted, view.predicted_peaks);
  json.EndObject().Name("measured").BeginObject();
  WriteMetrics(json, view.measured, view.measured_peaks);
  json.EndObject().Field("step_time_error", view.measured.time_s / view.predicted.time_s - 1);
  if (view.machine_drift > 0) {
    json.Field("machine_drift", view.machine_drift);
    json.Field("step_time_error_without_drift",
               view.measured.time_s / view.machine_drift / view.predicted.time_s - 1);
  }
  json.Name("op_error");
  view.join.op_error ? json.Number(*view.join.op_error) : json.Null();
  if (view.structure) {
    json.Name("structure").BeginObject();
    json.Field("kernels", view.structure->kernels);
    json.Field("paired_kernels", view.structure->paired_kernels);
    json.Field("ops", view.structure->ops).Field("paired_ops", view.structure->paired_ops);
    json.Field("paired_share", view.structure->PairedShare());
    json.Field("forecast_share", view.structure->ForecastShare());
    json.Field("steady_share", view.structure->SteadyShare()).EndObject();
  }
  json.Name("gap").BeginObject();
  if (view.attribution != nullptr) {
    for (const GapShare& share : view.attribution->shares)
      json.Field(std::string(Name(share.gap_class)) + "_s", share.seconds);
    json.Name("machine").BeginArray();
    for (const MachineShare& share : view.attribution->machine) {
      json.BeginObject().Field("cause", Name(share.cause)).Field("rank", share.rank);
      json.Field("seconds", share.seconds).EndObject();
    }
    json.EndArray();
    json.Field("unexplained_s", view.attribution->unexplained_s);
    json.Field("trusted", view.attribution->Trusted());
  }
  json.EndObject().Name("classes").BeginArray();
  for (const ClassPair& sum : view.join.classes) {
    json.BeginObject().Field("class", Name(sum.op_class)).Field("ops", sum.ops);
    json.Field("predicted_busy_s", sum.predicted_s)
        .Field("measured_busy_s", sum.measured_s)
        .EndObject();
  }
  json.EndArray();
  WriteLone(json, "only_predicted", view.join.only_predicted, names.predicted);
  WriteLone(json, "only_measured", view.join.only_measured, names.measured);
  json.Field("notes", view.notes);
}

// Classes, then single ops, then causes: each is one level deeper.
std::string ComparisonDetails(const ComparisonView& view, const ComparedNames& names) {
  std::string out;
  ClassRows(view, out);
  if (!view.join.pairs.empty()) WorstOps(view, names.measured, out);
  LoneRows(view.predicted_name, view.join.only_predicted, names.predicted, out);
  LoneRows(view.measured_name, view.join.only_measured, names.measured, out);
  if (view.attribution != nullptr) Gap(*view.attribution, view.join.measured_step, out);
  return out;
}

}  // namespace foretrain
