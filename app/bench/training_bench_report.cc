// How the table of `foretrain bench` is shown.
#include <fmt/format.h>

#include <cstdio>

#include "app/bench/training_bench.h"
#include "base/table.h"
#include "base/units.h"

namespace foretrain {
namespace {

void WriteMetrics(JsonWriter& json, const char* name, const TableMetrics& metrics) {
  json.Name(name).BeginObject().Field("step_time_s", metrics.step_time_s);
  json.Field("tokens_per_s", metrics.tokens_per_s).Field("mfu", metrics.mfu);
  if (metrics.peak_memory_gib) json.Field("peak_memory_gib", *metrics.peak_memory_gib);
  json.EndObject();
}

std::string MemoryCell(const std::optional<TableMetrics>& metrics) {
  if (!metrics || !metrics->peak_memory_gib) return "-";
  return fmt::format("{:.2f} GiB", *metrics->peak_memory_gib);
}

// Relative error of the forecast's step time; above 0 if the forecast is too long.
double ErrorOf(const TableResult& result) {
  return result.predicted->step_time_s / result.measured->step_time_s - 1;
}

}  // namespace

// Missing values show as "-". Failures come after the table, where their messages have room.
std::string TableText(const std::vector<TableResult>& results) {
  Table table({"row", ">predicted", ">measured", ">step time error", ">tokens/s", ">MFU",
               ">predicted peak memory", ">measured"});
  std::string notes;
  bool shared = false;
  for (const TableResult& r : results) {
    std::vector<std::string> cells{r.name + (r.shares_device ? " *" : "")};
    shared = shared || r.shares_device;
    cells.push_back(r.predicted ? FormatSeconds(r.predicted->step_time_s) : "-");
    cells.push_back(r.measured ? FormatSeconds(r.measured->step_time_s) : "-");
    cells.push_back(r.measured ? fmt::format("{:+.1f} %", 100 * ErrorOf(r)) : "-");
    cells.push_back(r.measured ? FormatSi(r.measured->tokens_per_s, "") : "-");
    cells.push_back(r.measured ? fmt::format("{:.3f}", r.measured->mfu) : "-");
    cells.push_back(MemoryCell(r.predicted));
    cells.push_back(MemoryCell(r.measured));
    table.AddRow(std::move(cells));
    for (const std::string& why : {r.does_not_fit, r.failed}) {
      if (!why.empty()) notes += r.name + ": " + why + "\n";
    }
  }
  std::string text = table.Text();
  if (!results.empty()) text += "forecasts from rates " + results.front().rates + "\n";
  if (shared) {
    text += "* ranks that share one device: the forecast is that of as many devices\n";
  }
  return text + (notes.empty() ? "" : "\nnot run:\n" + notes);
}

// A value that is missing has no field.
std::string TableJson(const std::vector<TableResult>& results, const std::string& device) {
  JsonWriter json;
  json.BeginObject().Field("schema", 1).Field("device", device).Name("rows").BeginArray();
  for (const TableResult& r : results) {
    json.BeginObject().Field("name", r.name).Field("plan", r.plan).Field("rates", r.rates);
    json.Field("shares_device", r.shares_device);
    if (r.predicted) WriteMetrics(json, "predicted", *r.predicted);
    if (r.measured) {
      WriteMetrics(json, "measured", *r.measured);
      json.Field("step_time_error", ErrorOf(r)).Field("loss", r.last_loss).Field("run", r.run);
    }
    if (!r.does_not_fit.empty()) json.Field("does_not_fit", r.does_not_fit);
    if (!r.failed.empty()) json.Field("failed", r.failed);
    json.EndObject();
  }
  return json.EndArray().EndObject().Take();
}

// Prints the table's rows without running them. In JSON each row has the description for a peer
// implementation.
Result<Exit> ListTable(const std::vector<TableRow>& rows, bool json_output) {
  JsonWriter json;
  json.BeginObject().Field("schema", 1).Name("rows").BeginArray();
  for (const TableRow& row : rows) {
    std::string fields;
    for (const PlanField* field : row.plan.GivenFields()) {
      fields += fmt::format(" {}={}", field->name, row.plan.Text(field->name));
    }
    if (!json_output) {
      std::printf("%-30s %s%s\n", row.name.c_str(), row.model.model.c_str(), fields.c_str());
      continue;
    }
    json.BeginObject().Field("name", row.name).Field("model", row.model.model);
    json.Field("plan", fields.substr(1)).Name("peer");
    FT_TRY(WritePeer(json, row));
    json.EndObject();
  }
  if (json_output) std::puts(json.EndArray().EndObject().Take().c_str());
  return Exit::kDone;
}

}  // namespace foretrain
