#include "app/report/gpu_report.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "base/table.h"
#include "base/units.h"

namespace foretrain {
namespace {

constexpr std::size_t kColumns = 11;  // of a table, about 120 characters

// By rank, then by series.
using MeansByRank = std::map<int, std::map<std::string_view, double>>;

MeansByRank ByRank(std::span<const GpuMean> means) {
  MeansByRank ranks;
  for (const GpuMean& mean : means) ranks[mean.rank][mean.series.name] = mean.mean;
  return ranks;
}

// The main series that any rank has, in their order.
std::vector<GpuSeries> ColumnsOf(const MeansByRank& ranks) {
  std::vector<GpuSeries> columns;
  for (const GpuSeries& series : AllGpuSeries()) {
    bool any = false;
    for (const auto& [rank, values] : ranks) any = any || values.contains(series.name);
    if (series.main && any) columns.push_back(series);
  }
  return columns;
}

// "gpu_sm_activity" becomes "sm_activity".
std::string_view KeyOf(std::string_view series) {
  constexpr std::string_view kPrefix = "gpu_";
  return series.starts_with(kPrefix) ? series.substr(kPrefix.size()) : series;
}

}  // namespace

// Units are in the cells, since a rate may be in MB/s on one rank and in GB/s on another.
std::string GpuMeansText(std::span<const GpuMean> means) {
  const MeansByRank ranks = ByRank(means);
  const std::vector<GpuSeries> all = ColumnsOf(ranks);
  std::string text;
  for (std::size_t first = 0; first < all.size(); first += kColumns) {
    const std::span<const GpuSeries> columns =
        std::span(all).subspan(first, std::min(kColumns, all.size() - first));
    std::vector<std::string> titles{">rank"};
    for (const GpuSeries& series : columns) titles.push_back(">" + std::string(series.title));
    Table table(titles);
    for (const auto& [rank, values] : ranks) {
      std::vector<std::string> row{std::to_string(rank)};
      for (const GpuSeries& series : columns) {
        const auto value = values.find(series.name);
        row.push_back(value == values.end() ? "-" : FormatReading(series.unit, value->second));
      }
      table.AddRow(std::move(row));
    }
    text += (text.empty() ? "" : "\n") + table.Text(2);
  }
  return text;
}

void WriteGpus(JsonWriter& json, std::span<const GpuMean> means, std::span<const GpuFault> faults) {
  if (!means.empty()) {
    json.Name("gpus").BeginArray();
    for (const auto& [rank, values] : ByRank(means)) {
      json.BeginObject().Field("rank", rank);
      for (const auto& [series, value] : values) json.Field(KeyOf(series), value);
      json.EndObject();
    }
    json.EndArray();
  }
  if (faults.empty()) return;
  json.Name("gpu_faults").BeginArray();
  for (const GpuFault& fault : faults) {
    const FaultText text = TextOf(fault);
    const bool xid = fault.kind == GpuFaultKind::kXid;
    json.BeginObject().Field("rank", fault.rank);
    json.Field("error", xid                                           ? "xid"
                        : fault.kind == GpuFaultKind::kUncorrectedEcc ? "uncorrected_ecc"
                                                                      : "corrected_ecc");
    if (xid) json.Field("xid", fault.xid);
    json.Field("count", fault.count).Field("first_s", SecondsFromNs(fault.first_ns));
    json.Field("meaning", text.meaning).Field("remedy", text.remedy).EndObject();
  }
  json.EndArray();
}

}  // namespace foretrain
