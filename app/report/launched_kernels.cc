#include "app/report/launched_kernels.h"

#include <algorithm>
#include <vector>

#include "base/json/json.h"
#include "base/table.h"
#include "base/units.h"

namespace foretrain {
namespace {

constexpr std::size_t kShown = 10;
constexpr int kNameWidth = 32;

std::vector<const KernelRow*> LongestFirst(const KernelTable& kernels) {
  std::vector<const KernelRow*> rows;
  for (const KernelRow& row : kernels.rows) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(), [](const KernelRow* a, const KernelRow* b) {
    return a->total_ns > b->total_ns;
  });
  return rows;
}

}  // namespace

// The first kShown rows and one line for the rest, so that the column adds up to the device's time.
std::string LaunchedKernelsText(const KernelTable& kernels) {
  const std::vector<const KernelRow*> rows = LongestFirst(kernels);
  if (rows.empty()) return "";
  Table table({"kernel", ">calls", ">time", "launch", "occupancy (limit)"});
  table.LimitWidth("kernel", kNameWidth);
  const std::size_t shown = std::min(kShown, rows.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const KernelRow& row = *rows[i];
    const auto occupancy = TheoreticalOccupancy(row.launch, kernels.capability);
    table.AddRow({ShortKernelName(row.name), std::to_string(row.calls),
                  FormatSeconds(SecondsFromNs(row.total_ns)), Describe(row.launch),
                  occupancy ? Describe(*occupancy) : ""});
  }
  std::int64_t calls = 0, total_ns = 0;
  for (std::size_t i = shown; i < rows.size(); ++i) {
    calls += rows[i]->calls;
    total_ns += rows[i]->total_ns;
  }
  if (shown < rows.size()) {
    table.AddRow({std::to_string(rows.size() - shown) + " others", std::to_string(calls),
                  FormatSeconds(SecondsFromNs(total_ns))});
  }
  return table.Text(2);
}

void WriteLaunchedKernels(JsonWriter& json, const KernelTable& kernels) {
  if (kernels.rows.empty()) return;
  json.Name("kernels").BeginArray();
  for (const KernelRow* row : LongestFirst(kernels)) {
    json.BeginObject().Field("name", row->name).Field("calls", row->calls);
    json.Field("total_s", SecondsFromNs(row->total_ns));
    WriteLaunch(json, row->launch);
    if (const auto occupancy = TheoreticalOccupancy(row->launch, kernels.capability)) {
      json.Field("occupancy", occupancy->share).Field("occupancy_limit", Name(occupancy->limit));
    }
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace foretrain
