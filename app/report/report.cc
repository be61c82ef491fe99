#include "app/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "base/json/json.h"
#include "base/table.h"
#include "base/units.h"
#include "traces/kernels/kernel_table.h"

namespace foretrain {
namespace {

constexpr std::size_t kTimelineRanks = 16;  // lines of a timeline

std::string Percent(const std::optional<double>& value) {
  return value ? FormatPercent(*value) : "-";
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

}  // namespace

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

}  // namespace foretrain
