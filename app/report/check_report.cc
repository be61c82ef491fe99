#include "app/report/check_report.h"

#include <fmt/format.h>

#include "base/table.h"
#include "base/text.h"
#include "base/units.h"

namespace foretrain {
namespace {

// "run.sh line 12: tensor-model-parallel-size", with the file's name alone.
std::string PlaceOf(const Finding& finding) {
  std::string place = finding.file.substr(finding.file.rfind('/') + 1);
  if (finding.line > 0) place += fmt::format(" line {}", finding.line);
  if (finding.key.empty()) return place;
  return place.empty() ? Printable(finding.key) : place + ": " + Printable(finding.key);
}

std::string FindingsText(const std::vector<Finding>& findings, int width) {
  if (findings.empty()) return "no findings\n";
  Table table({"severity", "finding"});
  for (const Finding& finding : findings) {
    const std::string place = PlaceOf(finding);
    table.AddRow({std::string(Name(finding.severity)),
                  place.empty() ? finding.text : place + ": " + finding.text});
    if (!finding.helps.empty()) table.AddRow({"", "helps: " + Join(finding.helps, "; ")});
  }
  table.Wrap("finding");
  return table.Text(0, width);
}

std::string VerdictText(const RunCheck& run) {
  const double ratio = run.measured_s / run.forecast_s - 1;
  const std::string by = fmt::format("{:.0f} % {} than the forecast", 100 * std::abs(ratio),
                                     ratio < 0 ? "faster" : "slower");
  switch (run.verdict) {
    case RunVerdict::kSlower:
      return "slower than the interval of the forecast: " + by;
    case RunVerdict::kFaster:
      return "faster than the interval of the forecast: " + by;
    case RunVerdict::kAsForecast:
      break;
  }
  return "within the interval of the forecast: " + by;
}

std::string RunText(const CheckReport& report, int width) {
  const RunCheck& run = *report.run;
  const StepSeries& series = run.series;
  std::string text =
      fmt::format("log {} ({}): {} lines with a step, {} of them warm-up\n\n", report.log->file,
                  report.log->title, series.points, series.warm_up);
  Table times({"", ">step time", ""});
  times.AddRow({"measured", FormatSeconds(run.measured_s),
                fmt::format("median {}, 80 % from {} to {}", FormatSeconds(series.median_s),
                            FormatSeconds(series.low_s), FormatSeconds(series.high_s))});
  times.AddRow({"forecast", FormatSeconds(run.forecast_s),
                fmt::format("90 % from {} to {}", FormatSeconds(run.interval.low_s),
                            FormatSeconds(run.interval.high_s))});
  times.AddRow({"attainable", FormatSeconds(run.attainable_s),
                "forecast with the changes of the plan below"});
  text += times.Text(0, width) + "\n" + VerdictText(run) + "\n";
  for (const LogDifference& one : report.differences) {
    text += fmt::format("{} line {}: ran with {} {}, and the launch gives {}\n", report.log->file,
                        one.line, Printable(one.key), Printable(one.in_log), one.in_launch);
  }
  text += "\n";
  if (run.causes.empty()) return text + "no cause is worth one percent of a step\n";
  Table causes({">a step", ">of the gap", "known from", "cause", "what helps"});
  for (const RunCause& cause : run.causes) {
    causes.AddRow({FormatSeconds(cause.seconds), FormatPercent(cause.share),
                   std::string(Name(cause.evidence)), cause.text, Join(cause.helps, "; ")});
  }
  causes.Wrap("cause");
  causes.Wrap("what helps");
  return text + causes.Text(0, width);
}

}  // namespace

std::string CheckText(const CheckReport& report, int width) {
  std::string text = report.plan;
  if (!report.plan.empty()) text += "\nrates: " + report.rates + "\n";
  if (!report.assumed.empty()) text += "assumed: " + report.assumed + "\n";
  text += "\n";
  if (report.run) text += RunText(report, width) + "\n";
  return text + FindingsText(report.findings, width);
}

void WriteCheck(JsonWriter& json, const CheckReport& report) {
  json.Field("plan", report.plan).Field("rates", report.rates).Field("assumed", report.assumed);
  json.Name("findings").BeginArray();
  for (const Finding& finding : report.findings) {
    json.BeginObject().Field("severity", Name(finding.severity)).Field("kind", finding.kind);
    json.Field("key", finding.key).Field("file", finding.file).Field("line", finding.line);
    json.Field("text", finding.text);
    json.Field("helps", std::span<const std::string>(finding.helps)).EndObject();
  }
  json.EndArray();
  if (!report.run) return;
  const RunCheck& run = *report.run;
  const StepSeries& series = run.series;
  json.Name("log").BeginObject().Field("file", report.log->file);
  json.Field("format", report.log->format).Field("lines", series.points);
  json.Field("warm_up_lines", series.warm_up).Field("slow_lines", series.spikes);
  json.Field("slow_every_lines", series.spike_every);
  json.Field("median_s", series.median_s).Field("p10_s", series.low_s);
  json.Field("p90_s", series.high_s).Field("base_s", series.base_s);
  json.Field("drift_s", series.drift_s).Field("slow_lines_s", series.spikes_s);
  json.Field("peak_gib", GibFromBytes(report.log->peak_bytes)).EndObject();
  json.Name("differences").BeginArray();
  for (const LogDifference& one : report.differences) {
    json.BeginObject().Field("key", one.key).Field("line", one.line);
    json.Field("log", one.in_log).Field("launch", one.in_launch).EndObject();
  }
  json.EndArray().Field("step_time_s", run.measured_s);
  json.Field("predicted_step_time_s", run.forecast_s);
  json.Field("step_time_low_s", run.interval.low_s);
  json.Field("step_time_high_s", run.interval.high_s);
  json.Field("attainable_step_time_s", run.attainable_s).Field("verdict", Name(run.verdict));
  json.Name("causes").BeginArray();
  for (const RunCause& cause : run.causes) {
    json.BeginObject().Field("cause", Name(cause.kind));
    json.Field("known_from", Name(cause.evidence)).Field("text", cause.text);
    json.Field("seconds", cause.seconds).Field("share", cause.share);
    json.Field("helps", std::span<const std::string>(cause.helps)).EndObject();
  }
  json.EndArray();
}

}  // namespace foretrain
