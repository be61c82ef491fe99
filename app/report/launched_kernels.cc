#include "app/report/launched_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "base/table.h"
#include "base/units.h"
#include "sim/config/catalogue/catalogue.h"

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

// Dense products of `format`. 0: unknown, or no product takes it.
double PeakOf(const DeviceSpec& gpu, std::string_view format) {
  if (format == "bf16") return gpu.bf16_flop_per_s;
  if (format == "fp16") return gpu.fp16_flop_per_s;
  if (format == "fp8") return gpu.fp8_flop_per_s;
  // PyTorch may let tensor cores round inputs to tf32, which the trace does not say.
  if (format == "fp32") return std::max(gpu.fp32_flop_per_s, gpu.tf32_flop_per_s);
  return 0;
}

std::string Percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

// "412" for 4.12e14 in units of 1e12; "" for 0.
std::string Rate(double per_s, double unit) {
  return per_s > 0 ? fmt::format("{:.3g}", per_s / unit) : "";
}

}  // namespace

std::optional<double> RooflineShare(const KernelWork& work, const DeviceSpec& gpu) {
  const double peak = PeakOf(gpu, work.format);
  if (!work.IsKnown() || (work.flops > 0 && peak == 0) || gpu.memory_bytes_per_s == 0) return {};
  const double arithmetic = work.flops > 0 ? work.FlopPerSecond() / peak : 0.0;
  return std::max(arithmetic, work.BytesPerSecond() / gpu.memory_bytes_per_s);
}

std::optional<DeviceSpec> GpuOf(const KernelTable& kernels) {
  if (kernels.gpu.empty()) return std::nullopt;
  const auto catalogue = BuiltInCatalogue();
  if (!catalogue) return std::nullopt;
  const auto found = FindGpu(*catalogue, kernels.gpu);
  return found ? std::optional(found->device) : std::nullopt;
}

// The first kShown rows and one line for the rest, so that the column adds up to the device's time.
std::string LaunchedKernelsText(const KernelTable& kernels, const std::optional<DeviceSpec>& gpu) {
  const std::vector<const KernelRow*> rows = LongestFirst(kernels);
  if (rows.empty()) return "";
  const bool rates = std::any_of(rows.begin(), rows.end(),
                                 [](const KernelRow* row) { return row->work.IsKnown(); });
  std::vector<std::string> titles = {"kernel", ">calls", ">time"};
  if (rates) titles.insert(titles.end(), {">TFLOP/s", ">GB/s", ">of peak"});
  titles.insert(titles.end(), {"launch", "occupancy (limit)"});
  Table table(titles);
  table.LimitWidth("kernel", kNameWidth);
  table.Wrap("launch");
  const std::size_t shown = std::min(kShown, rows.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const KernelRow& row = *rows[i];
    const auto occupancy = TheoreticalOccupancy(row.launch, kernels.capability);
    std::vector<std::string> cells = {ShortKernelName(row.name), std::to_string(row.calls),
                                      FormatSeconds(SecondsFromNs(row.total_ns))};
    if (rates) {
      const auto share = gpu ? RooflineShare(row.work, *gpu) : std::nullopt;
      cells.insert(cells.end(),
                   {Rate(row.work.FlopPerSecond(), 1e12), Rate(row.work.BytesPerSecond(), 1e9),
                    share ? Percent(*share) : ""});
    }
    cells.insert(cells.end(), {Describe(row.launch), occupancy ? Describe(*occupancy) : ""});
    table.AddRow(cells);
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

void WriteLaunchedKernels(JsonWriter& json, const KernelTable& kernels,
                          const std::optional<DeviceSpec>& gpu) {
  if (kernels.rows.empty()) return;
  json.Name("kernels").BeginArray();
  for (const KernelRow* row : LongestFirst(kernels)) {
    json.BeginObject().Field("name", row->name).Field("calls", row->calls);
    json.Field("total_s", SecondsFromNs(row->total_ns));
    if (row->work.IsKnown()) {
      json.Field("flop_per_s", row->work.FlopPerSecond());
      json.Field("bytes_per_s", row->work.BytesPerSecond()).Field("format", row->work.format);
      const auto share = gpu ? RooflineShare(row->work, *gpu) : std::nullopt;
      if (share) json.Field("roofline_share", *share);
    }
    WriteLaunch(json, row->launch);
    if (const auto occupancy = TheoreticalOccupancy(row->launch, kernels.capability)) {
      json.Field("occupancy", occupancy->share).Field("occupancy_limit", Name(occupancy->limit));
    }
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace foretrain
