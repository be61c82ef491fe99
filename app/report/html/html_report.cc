// Longer than 400 lines: the page is written from top to bottom, and its parts share one run.
#include "app/report/html/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "app/embedded_data.h"
#include "app/report/html/html_text.h"
#include "app/report/html/lane_rectangles.h"
#include "app/report/html/memory_levels.h"
#include "app/report/launched_kernels.h"
#include "app/report/longest_ops.h"
#include "app/report/report.h"
#include "base/embedded.h"
#include "base/json/json.h"
#include "base/markup.h"
#include "base/units.h"
#include "traces/palette.h"

namespace foretrain {
namespace {

constexpr std::size_t kMaxRows = 100;  // of a table

using Rows = std::vector<std::vector<std::string>>;

std::string_view NameOf(Work work) {
  constexpr std::array<std::string_view, kWorkCount> kNames{
      "forward",   "backward",   "weights and update",
      "recompute", "collective", "send and receive",
      "copy",      "host",       "unnamed"};
  return kNames[static_cast<std::size_t>(work)];
}

// The variables of one palette, as declarations of CSS.
std::string Variables(const Palette& palette) {
  std::string css;
  const auto add = [&css](const std::string& name, std::uint32_t colour) {
    css += fmt::format("--{}:#{:06x};", name, colour);
  };
  add("ground", palette.ground);
  add("panel", palette.panel);
  add("lane", palette.lane);
  add("line", palette.line);
  add("grid", palette.grid);
  add("text", palette.text);
  add("muted", palette.muted);
  add("on-span", palette.on_span);
  add("worse", palette.worse);
  add("better", palette.better);
  add("accent", palette.accent);
  add("predicted", palette.predicted);
  for (std::size_t i = 0; i < palette.works.size(); ++i) {
    add(fmt::format("work-{}", i), palette.works[i]);
  }
  for (std::size_t i = 0; i < palette.categories.size(); ++i) {
    add(fmt::format("category-{}", i), palette.categories[i]);
  }
  return css;
}

std::string_view Embedded(std::string_view path) {
  const EmbeddedFile* file = FindEmbedded(app_data::Files(), path);
  return file == nullptr ? std::string_view() : file->text;
}

// The data of the page's script. Ops are numbered on first use, so that rectangles are short.
class PageData {
 public:
  explicit PageData(const HtmlReport& report) : report_(report) {}

  std::string Text() {
    const Timeline& timeline = report_.run->timeline;
    ranks_ = ShownRanks(timeline, kDrawnRanks);
    JsonWriter json;
    json.BeginObject();
    WriteNames(json);
    json.Name("time").BeginObject();
    WriteTime(json, timeline, WholeOf(timeline), StepOf(timeline, report_.shown.step));
    json.EndObject();
    WriteMemory(json, timeline);
    if (report_.comparison != nullptr) WriteComparison(json);
    json.Name("ops").BeginArray();
    for (const Op& op : ops_) {
      json.BeginArray().String(op.name).Integer(static_cast<int>(op.work));
      json.String(Name(op.op_class)).String(op.what).EndArray();
    }
    return json.EndArray().EndObject().Take();
  }

 private:
  struct Op {
    std::string name{};
    Work work = Work::kUnnamed;
    OpClass op_class = OpClass::kMemoryBound;
    std::string what{};  // of its instruction
  };

  static void WriteNames(JsonWriter& json) {
    json.Name("works").BeginArray();
    for (int i = 0; i < kWorkCount; ++i) json.String(NameOf(static_cast<Work>(i)));
    json.EndArray().Name("categories").BeginArray();
    for (int i = 0; i < kCategoryCount; ++i) json.String(Name(static_cast<Category>(i)));
    json.EndArray();
  }

  // From the first start of a step or span to the last end.
  static LaneWindow WholeOf(const Timeline& timeline) {
    LaneWindow whole{std::numeric_limits<std::int64_t>::max(),
                     std::numeric_limits<std::int64_t>::min()};
    const auto add = [&whole](const auto& of) {
      whole.start_ns = std::min(whole.start_ns, of.start_ns);
      whole.end_ns = std::max(whole.end_ns, of.end_ns);
    };
    for (const StepWindow& step : timeline.steps) add(step);
    for (const Span& span : timeline.spans) add(span);
    return whole.start_ns <= whole.end_ns ? whole : LaneWindow{};
  }

  static LaneWindow StepOf(const Timeline& timeline, int step) {
    Timeline of_step;
    std::copy_if(timeline.steps.begin(), timeline.steps.end(), std::back_inserter(of_step.steps),
                 [step](const StepWindow& window) { return window.step == step; });
    return WholeOf(of_step);
  }

  // Number of the span's op in the page's list.
  std::int64_t OpOf(const Span& span, const Timeline& timeline) {
    const auto [at, is_new] =
        numbers_.try_emplace({span.op, span.op_class, &timeline}, std::ssize(ops_));
    if (!is_new) return at->second;
    Op op{.work = WorkOf(span.op, span.op_class), .op_class = span.op_class};
    if (span.op != kNoOp) {
      const OpId whole = InstructionOf(span.op);
      op.what = report_.layers > 0 ? Describe(whole, report_.layers) : Describe(whole);
      const auto named = timeline.op_names.find(NameKey(span.op));
      op.name = named == timeline.op_names.end() ? op.what : named->second;
    } else {
      op.name = Name(span.op_class);
    }
    ops_.push_back(std::move(op));
    return at->second;
  }

  // Four numbers a rectangle: the gap before it and its length in nanoseconds; then the op and the
  // wait before it, or for several spans minus their number, and ten times the permille in which
  // one of them ran plus the kind of work.
  void WriteLanes(JsonWriter& json, const Timeline& timeline, const std::vector<Lane>& lanes,
                  std::int64_t origin_ns) {
    json.Name("lanes").BeginArray();
    for (const Lane& lane : lanes) {
      json.BeginObject().Field("rank", lane.rank).Field("queue", Name(lane.queue));
      json.Name("r").BeginArray();
      std::int64_t at_ns = origin_ns;
      for (const LaneRectangle& rectangle : lane.rectangles) {
        json.Integer(rectangle.start_ns - at_ns);
        json.Integer(rectangle.end_ns - rectangle.start_ns);
        at_ns = rectangle.end_ns;
        if (rectangle.span != nullptr) {
          json.Integer(OpOf(*rectangle.span, timeline));
          json.Integer(
              std::max<std::int64_t>(0, rectangle.span->start_ns - rectangle.span->ready_ns));
        } else {
          const double length =
              std::max(1.0, static_cast<double>(rectangle.end_ns - rectangle.start_ns));
          const double share = std::min(1.0, static_cast<double>(rectangle.busy_ns) / length);
          json.Integer(-rectangle.spans);
          json.Integer(10 * std::lround(1000 * share) + static_cast<int>(rectangle.work));
        }
      }
      json.EndArray().EndObject();
    }
    json.EndArray();
  }

  void WriteTime(JsonWriter& json, const Timeline& timeline, const LaneWindow& window,
                 const LaneWindow& detail) {
    json.Field("length", window.end_ns - window.start_ns);
    json.Name("detail").BeginArray().Integer(detail.start_ns - window.start_ns);
    json.Integer(detail.end_ns - window.start_ns).EndArray();
    // Windows of the first rank; a page needs no more than a tick a step.
    json.Name("steps").BeginArray();
    std::int64_t shown = 0;
    for (const StepWindow& step : timeline.steps) {
      if (ranks_.empty() || step.rank != ranks_.front() || ++shown > 2000) continue;
      json.BeginArray().Integer(step.step).Integer(step.start_ns - window.start_ns);
      json.Integer(step.end_ns - window.start_ns).EndArray();
    }
    json.EndArray();
    WriteLanes(json, timeline,
               LanesOf(timeline, ranks_,
                       {.window = window, .detail = detail, .max_rectangles = kDrawnRectangles}),
               window.start_ns);
  }

  // For each moment its time and the bytes of the categories that the rank has.
  void WriteMemory(JsonWriter& json, const Timeline& timeline) const {
    json.Name("memory").BeginArray();
    const std::int64_t origin = WholeOf(timeline).start_ns;
    for (const MemoryLevels& levels : LevelsOf(timeline, ranks_, kDrawnMoments)) {
      std::vector<std::size_t> used;
      for (std::size_t i = 0; i < kCategoryCount; ++i) {
        const auto has = [i](const LiveMoment& moment) { return moment.bytes[i] > 0; };
        if (std::any_of(levels.moments.begin(), levels.moments.end(), has)) used.push_back(i);
      }
      json.BeginObject().Field("rank", levels.rank).Field("space", Name(levels.space));
      json.Name("categories").BeginArray();
      for (const std::size_t i : used) json.Integer(static_cast<std::int64_t>(i));
      json.EndArray().Name("m").BeginArray();
      for (const LiveMoment& moment : levels.moments) {
        json.Integer(moment.time_ns - origin);
        for (const std::size_t i : used) json.Integer(moment.bytes[i]);
      }
      json.EndArray().EndObject();
    }
    json.EndArray();
  }

  // One step of both runs, each from its own start.
  void WriteComparison(JsonWriter& json) {
    const ComparisonView& view = *report_.comparison;
    json.Name("compare").BeginObject();
    const auto side = [&](const char* name, const std::string& title, const Timeline& timeline,
                          int step) {
      const LaneWindow window = StepOf(timeline, step);
      json.Name(name).BeginObject().Field("title", title);
      json.Field("length", window.end_ns - window.start_ns);
      WriteLanes(
          json, timeline,
          LanesOf(timeline, ranks_,
                  {.window = window, .detail = window, .max_rectangles = kDrawnRectangles / 2}),
          window.start_ns);
      json.EndObject();
    };
    side("predicted", view.predicted_name, report_.against->timeline, view.join.predicted_step);
    side("measured", view.measured_name, report_.run->timeline, view.join.measured_step);
    json.EndObject();
  }

  using OpKey = std::tuple<OpId, OpClass, const Timeline*>;

  const HtmlReport& report_;
  std::vector<int> ranks_;
  std::vector<Op> ops_;
  std::map<OpKey, std::int64_t> numbers_;
};

std::string MetricsTable(const HtmlReport& report) {
  Rows rows;
  const StepMetrics& shown =
      report.comparison != nullptr ? report.comparison->measured : report.shown;
  const auto measured = ShownMetrics(shown);
  if (report.comparison == nullptr) {
    for (const ShownMetric& metric : measured) rows.push_back({metric.name, metric.text});
    return HtmlTable({"metric", ">value"}, rows);
  }
  const auto predicted = ShownMetrics(report.comparison->predicted);
  for (std::size_t i = 0; i < measured.size(); ++i) {
    rows.push_back({measured[i].name, predicted[i].text, measured[i].text});
  }
  return HtmlTable(
      {"metric", ">" + report.comparison->predicted_name, ">" + report.comparison->measured_name},
      rows);
}

std::string PeaksTable(const HtmlReport& report) {
  Rows rows;
  for (const MemoryPeak& peak : report.metrics->memory) {
    if (peak.step >= 0 || rows.size() >= kMaxRows) continue;
    std::vector<std::string> row{std::to_string(peak.rank), std::string(Name(peak.space)),
                                 FormatBytes(peak.bytes)};
    std::string parts;
    for (std::size_t i = 0; i < peak.parts.size(); ++i) {
      if (peak.parts[i] == 0) continue;
      parts += (parts.empty() ? "" : ", ") + std::string(Name(static_cast<Category>(i))) + " " +
               FormatBytes(peak.parts[i]);
    }
    row.push_back(std::move(parts));
    rows.push_back(std::move(row));
  }
  return HtmlTable({">rank", "space", ">peak", "at the peak"}, rows);
}

std::string OpsTable(const HtmlReport& report) {
  const double step_s = report.shown.time_s;
  Rows rows;
  for (const OpGroup& group : LongestOps(report.run->timeline, report.shown.step)) {
    if (rows.size() >= kMaxRows) break;
    rows.push_back({std::string(ShortKernelName(group.name)), std::string(Name(group.op_class)),
                    FormatCount(group.count), FormatSeconds(group.busy_s),
                    FormatPercent(group.busy_s / step_s)});
  }
  return HtmlTable({"op", "class", ">count", ">busy, a rank", ">of the step"}, rows);
}

std::string KernelsTable(const KernelTable& kernels) {
  std::vector<const KernelRow*> sorted;
  for (const KernelRow& row : kernels.rows) sorted.push_back(&row);
  std::stable_sort(sorted.begin(), sorted.end(), [](const KernelRow* a, const KernelRow* b) {
    return a->total_ns > b->total_ns;
  });
  const std::optional<DeviceSpec> gpu = GpuOf(kernels);
  Rows rows;
  for (const KernelRow* row : sorted) {
    if (rows.size() >= kMaxRows) break;
    const auto share = gpu ? RooflineShare(row->work, *gpu) : std::nullopt;
    rows.push_back({std::string(ShortKernelName(row->name)), FormatCount(row->calls),
                    FormatSeconds(SecondsFromNs(row->total_ns)),
                    row->work.IsKnown() ? FormatSi(row->work.FlopPerSecond(), "FLOP/s") : "",
                    row->work.IsKnown() ? FormatSi(row->work.BytesPerSecond(), "B/s") : "",
                    share ? FormatPercent(*share) : "", Describe(row->launch)});
  }
  return HtmlTable({"kernel", ">calls", ">time", ">arithmetic", ">traffic", ">of peak", "launch"},
                   rows);
}

// Cause, seconds, and a bar as long as its share of the largest.
std::string GapTable(const Attribution& attribution) {
  std::vector<GapCause> causes = GapCauses(attribution);
  causes.push_back({"unexplained", attribution.unexplained_s});
  double largest = 0;
  for (const GapCause& cause : causes) largest = std::max(largest, std::abs(cause.seconds));
  std::string out =
      "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">cause</th><th scope=\"col\" "
      "class=\"number\">gap</th><th scope=\"col\" class=\"number\">of the step</th><th "
      "scope=\"col\"><span class=\"hidden\">bar</span></th></tr></thead>\n<tbody>\n";
  for (const GapCause& cause : causes) {
    const int width =
        largest > 0 ? static_cast<int>(std::lround(200 * std::abs(cause.seconds) / largest)) : 0;
    out += fmt::format(
        "<tr><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td><svg "
        "width=\"200\" height=\"10\" aria-hidden=\"true\"><rect class=\"{}\" width=\"{}\" "
        "height=\"10\"/></svg></td></tr>\n",
        EscapedMarkup(cause.name), EscapedMarkup(SignedSeconds(cause.seconds)),
        EscapedMarkup(SignedPercent(cause.seconds / attribution.measured_s)),
        cause.seconds > 0 ? "worse" : "better", width);
  }
  out += fmt::format(
      "<tr class=\"sum\"><td>gap</td><td class=\"number\">{}</td><td "
      "class=\"number\">{}</td><td></td></tr>\n",
      EscapedMarkup(SignedSeconds(attribution.measured_s - attribution.predicted_s)),
      EscapedMarkup(SignedPercent((attribution.measured_s - attribution.predicted_s) /
                                  attribution.measured_s)));
  return out + "</tbody></table></div>\n";
}

std::string ClassesTable(const ComparisonView& view) {
  Rows rows;
  for (const ClassPair& sum : view.join.classes) {
    rows.push_back({std::string(Name(sum.op_class)), FormatCount(sum.ops),
                    FormatSeconds(sum.predicted_s), FormatSeconds(sum.measured_s),
                    SignedSeconds(sum.measured_s - sum.predicted_s)});
  }
  return HtmlTable(
      {"class", ">ops", ">" + view.predicted_name, ">" + view.measured_name, ">difference"}, rows);
}

std::string Notes(const std::vector<std::string>& notes) {
  std::string out;
  for (const std::string& note : notes) out += "<li>" + EscapedMarkup(note) + "</li>\n";
  return out.empty() ? "" : "<ul>\n" + out + "</ul>\n";
}

std::string Section(const char* id, const char* title, const std::string& content) {
  if (content.empty()) return "";
  return fmt::format("<section id=\"{}\"><h2>{}</h2>\n{}</section>\n", id, title, content);
}

// Where the script draws. Its text is for people whose browser runs no script.
std::string Drawing(const char* id, const char* label) {
  return fmt::format(
      "<div class=\"drawing\" id=\"draw-{}\" tabindex=\"0\" role=\"img\" aria-label=\"{}\"><p "
      "class=\"plain\">This picture needs JavaScript; the tables do not.</p></div>\n",
      id, label);
}

std::string ComparisonSection(const HtmlReport& report) {
  if (report.comparison == nullptr) return "";
  const ComparisonView& view = *report.comparison;
  std::string out =
      fmt::format("<p>Step {} of {} took {}; step {} of {} takes {}.</p>\n",
                  view.join.measured_step, EscapedMarkup(view.measured_name),
                  FormatSeconds(view.join.measured_step_s), view.join.predicted_step,
                  EscapedMarkup(view.predicted_name), FormatSeconds(view.join.predicted_step_s));
  out += Drawing("compare", "lanes of one step of both runs");
  if (view.attribution != nullptr) {
    out += "<h3>Why the step took longer or shorter</h3>\n" + GapTable(*view.attribution);
  }
  out += "<h3>Busy time by class, all ranks</h3>\n" + ClassesTable(view);
  return out + Notes(view.notes);
}

}  // namespace

std::string HtmlPage(const HtmlReport& report) {
  const RunInfo& info = report.run->info;
  const std::string heading =
      fmt::format("run {} ({}, {}): {}", info.id, Name(info.kind), Name(info.status), report.title);
  const std::size_t ranks =
      ShownRanks(report.run->timeline, std::numeric_limits<std::size_t>::max()).size();
  std::vector<std::string> notes = report.notes;
  if (ranks > kDrawnRanks) {
    notes.push_back(fmt::format("{} of {} ranks are drawn", kDrawnRanks, ranks));
  }
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; script-src 'nonce-foretrain'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
      EscapedMarkup(heading) + "</title>\n<style>\n:root{" + Variables(kLightPalette) +
      "}\n@media (prefers-color-scheme: dark){:root{" + Variables(kDarkPalette) + "}}\n";
  page += Embedded("app/report/html/page.css");
  page += "</style>\n</head>\n<body>\n<header><h1>" + EscapedMarkup(heading) + "</h1>\n";
  if (!info.label.empty() && info.label != report.title) {
    page += "<p>" + EscapedMarkup(info.label) + "</p>\n";
  }
  page += "<p>Written by foretrain export.</p></header>\n<main>\n";
  page += Section("metrics", "Metrics", MetricsTable(report) + Notes(notes));
  if (!report.run->timeline.spans.empty()) {
    page += Section("time", "Time", Drawing("time", "lanes of ranks and queues over time"));
  }
  page += Section("compare", "Compare", ComparisonSection(report));
  if (!report.run->timeline.memory.empty()) {
    page += Section("memory", "Memory",
                    Drawing("memory", "live memory by category over time") + PeaksTable(report));
  }
  page +=
      Section("ops", fmt::format("Ops of step {}", report.shown.step).c_str(), OpsTable(report));
  page += Section("kernels", "Kernels of all steps", KernelsTable(report.run->kernels));
  page +=
      "</main>\n<div id=\"tip\" role=\"status\" hidden></div>\n<script type=\"application/json\" "
      "id=\"data\">";
  page += EscapedJson(PageData(report).Text());
  page += "</script>\n<script nonce=\"foretrain\">\n";
  page += Embedded("app/report/html/page.js");
  return page + "</script>\n</body>\n</html>\n";
}

}  // namespace foretrain
