#include "app/report/suggestions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "base/table.h"
#include "base/units.h"

namespace foretrain {
namespace {

// Share of the step from which on a part has a row even if no change shortens it.
constexpr double kShareShown = 0.03;
constexpr int kChangesShown = 3;  // of one part

struct Part {
  const char* name;
  const char* key;  // in JSON
  double ClassSeconds::*seconds;
};
constexpr std::array<Part, 5> kParts = {{
    {"compute", "compute", &ClassSeconds::compute_s},
    {"exposed communication", "exposed_communication", &ClassSeconds::exposed_communication_s},
    {"exposed copy", "exposed_copy", &ClassSeconds::exposed_copy_s},
    {"host", "host", &ClassSeconds::host_s},
    {"idle", "idle", &ClassSeconds::idle_s},
}};

// The part that the change shortens most.
const Part& PartOf(const TriedChange& change, const ClassSeconds& as_is) {
  const auto saved = [&](const Part& part) {
    return as_is.*part.seconds - change.forecast.classes.*part.seconds;
  };
  return *std::max_element(kParts.begin(), kParts.end(),
                           [&](const Part& a, const Part& b) { return saved(a) < saved(b); });
}

// Relative to the forecast of the plan as it is, not to the measurement, so that the forecast's
// error cancels.
double ShareSaved(const TriedChange& change, const TriedChanges& tried) {
  return 1 - change.forecast.step_s / tried.as_is.step_s;
}

// Whether the forecast's error alone could make the change no faster.
bool IsWithinError(const TriedChange& change, const TriedChanges& tried) {
  return change.forecast.interval.high_s >= tried.as_is.step_s;
}

// One line about the plan as it is, and a warning if the measured step is outside the forecast's
// interval.
std::string AsItIs(const TriedChanges& tried, const StepMetrics& step, bool measured) {
  const PlanForecast& as_is = tried.as_is;
  std::string text = "  as it is: device memory " + FormatBytes(as_is.device_bytes) +
                     ", forecast step time " + FormatSeconds(as_is.step_s);
  if (!measured) return text + "\n";
  text += ", measured " + FormatSeconds(step.time_s) + "\n";
  // Within the interval the forecast is as good as it claims.
  if (as_is.interval.Holds(step.time_s)) return text;
  return text + fmt::format(
                    "  the forecast of this run was {:+.0f} % off, so trust the order below more "
                    "than the times; `foretrain compare` says where\n",
                    100 * (as_is.step_s / step.time_s - 1));
}

// The part's name; for idle time with its main cause.
std::string NameOf(const Part& part, const ClassSeconds& classes) {
  if (part.seconds != &ClassSeconds::idle_s) return part.name;
  const std::array<std::pair<double, const char*>, 4> causes = {{
      {classes.dependency_wait_s, "dependency wait"},
      {classes.peer_wait_s, "peer wait"},
      {classes.host_wait_s, "host wait"},
      {classes.drain_s, "drain"},
  }};
  return std::string(part.name) + ", mostly " +
         std::max_element(causes.begin(), causes.end())->second;
}

// `title`: of the column of parts.
Table ChangesTable(const TriedChanges& tried, const ClassSeconds& classes,
                   const std::string& title) {
  std::vector<Part> parts(kParts.begin(), kParts.end());
  std::stable_sort(parts.begin(), parts.end(), [&](const Part& a, const Part& b) {
    return classes.*a.seconds > classes.*b.seconds;
  });
  Table table({title, ">time", ">share", "change", ">step time", ">saved", ">device memory", ""});
  for (const Part& part : parts) {
    const double seconds = classes.*part.seconds;
    const double share = classes.window_s > 0 ? seconds / classes.window_s : 0;
    std::vector<std::string> row = {NameOf(part, classes), FormatSeconds(seconds),
                                    FormatPercent(share)};
    int shown = 0;
    for (const TriedChange& change : tried.faster) {
      if (PartOf(change, tried.as_is.classes).name != part.name || shown == kChangesShown) continue;
      if (shown++ > 0) row = {"", "", ""};
      std::string note = IsWithinError(change, tried) ? "within error" : "";
      if (change.of.other_numbers) note += note.empty() ? "lower precision" : ", lower precision";
      row.insert(row.end(), {change.of.options, FormatSeconds(change.forecast.step_s),
                             FormatPercent(ShareSaved(change, tried)),
                             FormatBytes(change.forecast.device_bytes), note});
      table.AddRow(row);
    }
    if (shown > 0 || share < kShareShown) continue;
    row.push_back("none simulated is faster");
    table.AddRow(row);
  }
  return table;
}

}  // namespace

// `parts` says that the run has spans, so the table starts from measured parts of the step; else
// from those of the forecast.
std::string SuggestionsText(const TriedChanges& tried, const StepMetrics& step, bool measured,
                            bool parts) {
  std::string text = fmt::format(
      "suggestions: one option changed, forecast at the run's own rates ({} evaluated, {} "
      "simulated)\n",
      tried.compared, tried.simulated);
  text += AsItIs(tried, step, measured);
  if (tried.faster.empty()) {
    return text + fmt::format("  none is {:.0f} % faster and fits\n", 100 * kWorthTrying);
  }
  text += "\n" + ChangesTable(tried, parts ? step.classes : tried.as_is.classes,
                              parts ? "part of the step" : "part of the forecast")
                     .Text(2);
  const auto unsure = [&](const TriedChange& change) { return IsWithinError(change, tried); };
  if (std::any_of(tried.faster.begin(), tried.faster.end(), unsure)) {
    text +=
        "  within error: the 90 % interval of that forecast reaches the step time as it is; only a "
        "run "
        "can tell\n";
  }
  return text +
         "  each is added to the run's other options; `foretrain plan` compares combinations\n";
}

// Fastest first, with the interval that the text only marks.
void WriteSuggestions(JsonWriter& json, const TriedChanges& tried) {
  json.Name("suggestions").BeginObject().Field("as_is_step_time_s", tried.as_is.step_s);
  json.Field("evaluated", tried.compared).Field("simulated", tried.simulated);
  json.Name("changes").BeginArray();
  for (const TriedChange& change : tried.faster) {
    json.BeginObject().Field("change", change.of.options).Field("plan", Describe(change.of.plan));
    json.Field("part", PartOf(change, tried.as_is.classes).key);
    json.Field("step_time_s", change.forecast.step_s);
    json.Field("step_time_low_s", change.forecast.interval.low_s);
    json.Field("step_time_high_s", change.forecast.interval.high_s);
    json.Field("saved", ShareSaved(change, tried));
    json.Field("within_error", IsWithinError(change, tried));
    json.Field("lower_precision", change.of.other_numbers);
    json.Field("device_memory_gib", GibFromBytes(change.forecast.device_bytes)).EndObject();
  }
  json.EndArray().EndObject();
}

}  // namespace foretrain
