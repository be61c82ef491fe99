#include "app/report/report.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "base/json/json.h"
#include "base/table.h"
#include "base/units.h"

namespace foretrain {
namespace {

constexpr int kWorstOps = 10;
constexpr double kLargeDrift = 0.15;        // of the machine since it was calibrated
constexpr std::size_t kTimelineRanks = 16;  // lines of a timeline

std::string Percent(const std::optional<double>& value) {
  return value ? FormatPercent(*value) : "-";
}

// Drops the sign of a value that is shown as zero.
std::string WithSign(double value, std::string shown, const std::string& zero) {
  if (shown == zero) return shown;
  return (value < 0 ? "-" : "+") + shown;
}

std::string Signed(double seconds) {
  return WithSign(seconds, FormatSeconds(std::abs(seconds)), FormatSeconds(0));
}

std::string SignedPercent(double fraction) {
  return WithSign(fraction, FormatPercent(std::abs(fraction)), FormatPercent(0));
}

struct ShownMetric {
  const char* name;
  std::string text;
};

// The metrics of a step in the order in which they are shown.
std::vector<ShownMetric> ShownMetrics(const StepMetrics& step) {
  return {{"step time", FormatSeconds(step.time_s)},
          {"tokens/s", step.tokens_per_s ? FormatSi(*step.tokens_per_s, "") : "-"},
          {"MFU", Percent(step.mfu)},
          {"compute", FormatSeconds(step.classes.compute_s)},
          {"exposed communication", FormatSeconds(step.classes.exposed_communication_s)},
          {"exposed copy", FormatSeconds(step.classes.exposed_copy_s)},
          {"host", FormatSeconds(step.classes.host_s)},
          {"idle", FormatSeconds(step.classes.idle_s)},
          {"bubble", Percent(step.bubble)},
          {"overlap", Percent(step.overlap)}};
}

void OptionalField(JsonWriter& json, const char* name, const std::optional<double>& value) {
  json.Name(name);
  value ? json.Number(*value) : json.Null();
}

constexpr char kUnknownPass = '#';

// The letter for the pass of a compute span.
char Letter(const Span& span) {
  if (!IsValidId(span.op)) return kUnknownPass;
  switch (UnpackId(span.op).pass) {
    case Pass::kForward:
      return 'F';
    case Pass::kBackward:
    case Pass::kBackwardInput:
      return 'B';
    case Pass::kBackwardWeight:
      return 'W';
    case Pass::kRecompute:
      return 'R';
    case Pass::kUpdate:
      return 'u';
    case Pass::kNone:
      return kUnknownPass;
  }
  return kUnknownPass;
}

// The work of a rank in one column of its line.
struct Column {
  std::map<char, std::int64_t> compute_ns;  // by letter
  std::int64_t communication_ns = 0;
};

// The letter of the pass with the most compute if compute fills half the column, else '-' if
// communication does, else '.'. `carry` adds the compute of earlier columns that got no letter, in
// columns: without it a rank whose passes are shorter than half a column would look idle.
char LetterOf(const Column& column, double column_ns, double& carry) {
  std::int64_t compute_ns = 0, max_ns = 0;
  char letter = '.';
  for (const auto& [candidate, time_ns] : column.compute_ns) {
    compute_ns += time_ns;
    if (time_ns <= max_ns) continue;
    max_ns = time_ns;
    letter = candidate;
  }
  carry += static_cast<double>(compute_ns) / column_ns;
  if (compute_ns > 0 && carry >= 0.5) {
    carry -= 1;
    return letter;
  }
  return static_cast<double>(column.communication_ns) >= column_ns / 2 ? '-' : '.';
}

// Adds the part of `span` inside the window to the columns that it overlaps. A span is split
// exactly, so that the columns of a rank sum to its busy time. O(columns of the span).
void AddSpan(const Span& span, const StepWindow& window, double column_ns,
             std::vector<Column>& columns) {
  const bool copies = span.op_class == OpClass::kCopy;
  const bool communicates = IsCommunication(span.op_class);
  // Waiting for peers is idle time, not communication.
  const std::int64_t begin = communicates ? std::max(span.start_ns, span.ready_ns) : span.start_ns;
  const auto start = static_cast<double>(std::max(begin, window.start_ns) - window.start_ns);
  const auto end = static_cast<double>(std::min(span.end_ns, window.end_ns) - window.start_ns);
  if (start >= end) return;
  for (auto at = static_cast<std::size_t>(start / column_ns);
       at < columns.size() && static_cast<double>(at) * column_ns < end; ++at) {
    const double from = std::max(start, static_cast<double>(at) * column_ns);
    const double to = std::min(end, static_cast<double>(at + 1) * column_ns);
    const auto time_ns = static_cast<std::int64_t>(to - from);
    if (communicates || copies) {
      columns[at].communication_ns += time_ns;
    } else {
      columns[at].compute_ns[Letter(span)] += time_ns;
    }
  }
}

// One line of the timeline. Waiting columns stay visible, because each column shows what fills half
// of it. O(spans of the timeline).
std::string RankLine(const Timeline& timeline, const StepWindow& window, int width) {
  std::vector<Column> columns(static_cast<std::size_t>(width));
  const auto length_ns =
      static_cast<double>(std::max<std::int64_t>(1, window.end_ns - window.start_ns));
  const double column_ns = length_ns / width;
  for (const Span& span : timeline.spans) {
    if (span.rank == window.rank && span.queue != Queue::kHost)
      AddSpan(span, window, column_ns, columns);
  }
  std::string line;
  double carry = 0;
  for (const Column& column : columns) line += LetterOf(column, column_ns, carry);
  return line;
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
                  FormatSeconds(sum.measured_s), Signed(sum.measured_s - sum.predicted_s)});
  }
  out += "\nOps that differ most\n" + table.Text(2);
}

// The shares and the unexplained part add up to the gap, so every second of it has a line.
void Gap(const Attribution& attribution, int step, std::string& out) {
  Table table({"class", ">gap", ">of the step"});
  const auto row = [&](const std::string& name, double seconds) {
    table.AddRow({name, Signed(seconds), SignedPercent(seconds / attribution.measured_s)});
  };
  for (const GapShare& share : attribution.shares)
    row(std::string(Name(share.gap_class)), share.seconds);
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

std::string MetricLine(const std::string& name, const std::string& value) {
  return "  " + Pad(name, 24, Align::kLeft) + Pad(value, 12, Align::kRight) + "\n";
}

// Without spans only step time, tokens/s and MFU are known.
std::string StepText(const StepMetrics& step, bool spans, const std::string& after_mfu) {
  constexpr std::size_t kWithoutSpans = 3;  // step time, tokens/s and MFU
  const std::vector<ShownMetric> metrics = ShownMetrics(step);
  std::string out;
  for (std::size_t i = 0; i < (spans ? metrics.size() : kWithoutSpans); ++i) {
    out += MetricLine(metrics[i].name, metrics[i].text);
    if (i + 1 == kWithoutSpans) out += after_mfu;
  }
  return out;
}

std::string FormatCount(std::int64_t count) {
  std::string text = std::to_string(count);
  for (auto at = static_cast<std::int64_t>(text.size()) - 3; at > (count < 0 ? 1 : 0); at -= 3) {
    text.insert(static_cast<std::size_t>(at), ",");
  }
  return text;
}

// Names the trained parameters only if some are frozen.
std::string ParametersText(const ParameterCounts& counts) {
  std::string text = FormatCount(counts.all);
  if (counts.trained < counts.all) {
    const double share = static_cast<double>(counts.trained) / static_cast<double>(counts.all);
    text +=
        ", of which " + FormatCount(counts.trained) + " (" + FormatPercent(share) + ") are trained";
  }
  return MetricLine("parameters", text);
}

void WriteParameters(JsonWriter& json, const ParameterCounts& counts) {
  json.Field("parameters", counts.all).Field("trained_parameters", counts.trained);
}

// Draws at most kTimelineRanks ranks, spread evenly from the first to the last. O(ranks shown x
// spans).
std::string TimelineText(const Timeline& timeline, int step, int width) {
  std::vector<const StepWindow*> windows;
  for (const StepWindow& window : timeline.steps) {
    if (window.step == step) windows.push_back(&window);
  }
  const std::size_t all = windows.size(), shown = std::min(all, kTimelineRanks);
  int digits = 3;
  for (const StepWindow* window : windows) {
    digits = std::max(digits, static_cast<int>(std::to_string(window->rank).size()));
  }
  std::string out;
  for (std::size_t i = 0; i < shown; ++i) {
    // The first and the last are among them.
    const StepWindow& window = *windows[shown == 1 ? 0 : i * (all - 1) / (shown - 1)];
    out += "  rank " + Pad(std::to_string(window.rank), digits, Align::kRight) + " |" +
           RankLine(timeline, window, width) + "|\n";
  }
  const bool unknown = out.find(kUnknownPass) != std::string::npos;
  if (shown < all) {
    out += "  " + std::to_string(shown) + " of " + std::to_string(all) +
           " ranks that are unlike each other\n";
  }
  return out + "  F forward  B backward  W weight half  R recomputation  u update  " +
         (unknown ? "# of no known pass  " : "") + "- communication alone  . idle\n";
}

// null for a metric that is not known.
void WriteMetrics(JsonWriter& json, const StepMetrics& step, const std::vector<NamedPeak>& peaks) {
  json.Field("step_time_s", step.time_s);
  OptionalField(json, "tokens_per_s", step.tokens_per_s);
  OptionalField(json, "mfu", step.mfu);
  OptionalField(json, "hfu", step.hfu);
  OptionalField(json, "bubble", step.bubble);
  json.Field("compute_s", step.classes.compute_s);
  json.Field("exposed_communication_s", step.classes.exposed_communication_s);
  json.Field("exposed_copy_s", step.classes.exposed_copy_s);
  json.Field("host_s", step.classes.host_s).Field("idle_s", step.classes.idle_s);
  OptionalField(json, "overlap", step.overlap);
  WriteMemory(json, peaks);
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
  for (const std::string& note : view.notes) out += "  " + note + "\n";
  return out;
}

// The same numbers as the text, plus every class. `gap` is empty if the step could not be
// attributed.
void WriteComparison(JsonWriter& json, const ComparisonView& view) {
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
  OptionalField(json, "op_error", view.join.op_error);
  json.Name("gap").BeginObject();
  if (view.attribution != nullptr) {
    for (const GapShare& share : view.attribution->shares)
      json.Field(std::string(Name(share.gap_class)) + "_s", share.seconds);
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
  json.EndArray().Field("notes", view.notes);
}

// Classes, then single ops, then causes: each is one level deeper.
std::string ComparisonDetails(const ComparisonView& view,
                              const std::map<OpId, std::string>& names) {
  std::string out;
  ClassRows(view, out);
  if (!view.join.pairs.empty()) WorstOps(view, names, out);
  if (view.attribution != nullptr) Gap(*view.attribution, view.join.measured_step, out);
  return out;
}

}  // namespace foretrain
