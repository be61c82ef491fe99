#include "app/report/kernel_report.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <string_view>

#include "base/json/json.h"
#include "base/table.h"

namespace foretrain {
namespace {

std::string Percent(double error, int count) {
  return count > 0 ? fmt::format("{:.1f} %", 100 * error) : "";
}

void AddFit(Table& table, std::string_view device, std::string_view kind, std::string_view format,
            const FitError& error) {
  table.AddRow({std::string(device), std::string(kind), std::string(format),
                std::to_string(error.rows), Percent(error.median, error.rows),
                Percent(error.p90, error.rows)});
}

template <class Formats>
void AddFormats(Table& table, std::string_view device, std::string_view kind,
                const Formats& formats) {
  for (std::size_t i = 0; i < formats.size(); ++i) {
    if (!formats[i].has_value()) continue;
    AddFit(table, device, kind, Name(static_cast<ProductFormat>(i)), formats[i]->error);
  }
}

void WriteScores(JsonWriter& json, std::string_view name, const std::vector<KernelScore>& scores) {
  json.Name(name).BeginArray();
  for (const KernelScore& score : scores) {
    json.BeginObject().Field("device", score.device.empty() ? "all" : score.device);
    json.Field("kind", score.kind).Field("format", score.format);
    json.Field("rows", score.rows).Field("forecast", score.forecast).Field("scored", score.scored);
    for (const auto& [field, value] :
         {std::pair<std::string_view, double>{"median_error", score.median},
          {"p90_error", score.p90},
          {"bias", score.bias}}) {
      json.Name(field);
      score.scored > 0 ? json.Number(value) : json.Null();
    }
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace

KernelReport ReportOf(std::span<const TimingTable> tables,
                      std::span<const std::vector<KernelPrediction>> predictions,
                      std::span<const std::vector<KernelPrediction>> without_device) {
  KernelReport out;
  out.scores = ScoreKernels(tables, predictions);
  if (!without_device.empty()) out.left_out = ScoreKernels(tables, without_device);
  std::map<std::string, int> reasons;
  for (const auto& table : predictions) {
    for (const KernelPrediction& prediction : table) {
      if (!prediction.seconds.has_value()) ++reasons[prediction.reason];
    }
  }
  out.reasons.assign(reasons.begin(), reasons.end());
  return out;
}

std::string KernelReportText(const KernelReport& report) {
  std::vector<std::string> columns = {"device",    "kind",         "format", ">rows",
                                      ">forecast", ">median |ln|", ">p90",   ">bias"};
  if (!report.left_out.empty()) {
    columns.push_back(">device left out: median");
    columns.push_back(">p90");
  }
  Table table(columns);
  for (std::size_t i = 0; i < report.scores.size(); ++i) {
    const KernelScore& score = report.scores[i];
    if (i > 0 && score.device.empty() && !report.scores[i - 1].device.empty()) table.AddLine();
    std::vector<std::string> cells = {score.device.empty() ? "all" : score.device,
                                      score.kind,
                                      score.format,
                                      std::to_string(score.rows),
                                      std::to_string(score.forecast),
                                      Percent(score.median, score.scored),
                                      Percent(score.p90, score.scored),
                                      Percent(score.bias, score.scored)};
    if (!report.left_out.empty()) {
      const KernelScore& other = report.left_out[i];
      cells.push_back(Percent(other.median, other.scored));
      cells.push_back(Percent(other.p90, other.scored));
    }
    table.AddRow(std::move(cells));
  }
  std::string out = table.Text();
  for (const auto& [reason, count] : report.reasons) {
    out += fmt::format("{} rows without a forecast: {}\n", count, reason);
  }
  return out;
}

std::string KernelReportJson(const KernelReport& report) {
  JsonWriter json;
  json.BeginObject().Field("schema", 1);
  WriteScores(json, "scores", report.scores);
  if (!report.left_out.empty()) WriteScores(json, "device_left_out", report.left_out);
  json.Name("not_forecast").BeginArray();
  for (const auto& [reason, count] : report.reasons) {
    json.BeginObject().Field("reason", reason).Field("rows", count).EndObject();
  }
  return json.EndArray().EndObject().Take();
}

std::string KernelFitText(std::span<const KernelProfile> profiles) {
  Table table({"device", "kind", "format", ">rows", ">row left out: median", ">p90"});
  for (const KernelProfile& profile : profiles) {
    AddFormats(table, profile.device, "gemm", profile.products.formats);
    if (profile.attention_forward) {
      AddFit(table, profile.device, "attention_forward", "bfloat16",
             profile.attention_forward->error);
    }
    AddFormats(table, profile.device, "experts_forward", profile.experts.formats);
    if (profile.training) {
      AddFit(table, profile.device, "training", "bfloat16", profile.training->error);
    }
    if (profile.attention_backward) {
      AddFit(table, profile.device, "attention_backward", "bfloat16",
             profile.attention_backward->error);
    }
    for (std::size_t i = 0; i < profile.collectives.size(); ++i) {
      if (!profile.collectives[i].has_value()) continue;
      AddFit(table, profile.device, kMeasuredCollectives[i].name, "half",
             profile.collectives[i]->kernel.error);
    }
    for (std::size_t i = 0; i < profile.exchanges.size(); ++i) {
      if (!profile.exchanges[i].has_value()) continue;
      const auto part = static_cast<ExchangePart>(i);
      AddFit(table, profile.device, Name(part),
             part == ExchangePart::kDispatch ? "fp8" : "bfloat16", profile.exchanges[i]->error);
    }
  }
  return table.Text();
}

}  // namespace foretrain
