#include "sim/validate/kernels/score_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/table.h"
#include "sim/cost/measured/kernel_forecast.h"
#include "sim/cost/network/communication_cost.h"
#include "sim/cost/profile/derive_profile.h"

namespace foretrain {
namespace {

constexpr double kMsPerS = 1e3, kUsPerS = 1e6;

// One device of a table: its forecast, or why there is none.
struct DeviceForecast {
  std::optional<GpuEntry> gpu;  // `nullopt`: the catalogue lacks it
  std::optional<KernelForecast> forecast;
  std::string reason;
};

DeviceForecast ForecastOf(const std::string& name, std::span<const KernelProfile> profiles,
                          const Catalogue& catalogue,
                          const std::vector<Architecture>& architectures, bool leave_out) {
  const Result<GpuEntry> gpu = FindGpu(catalogue, name);
  if (!gpu.has_value()) return {std::nullopt, std::nullopt, gpu.error().message};
  const auto device = KernelDeviceOf(gpu->device, gpu->measured_bf16_flop_per_s, architectures);
  if (!device.has_value()) {
    return {*gpu, std::nullopt,
            fmt::format("the catalogue lacks peak, bandwidth or multiprocessors of {}",
                        gpu->device.name)};
  }
  return {*gpu, KernelForecast(*device, profiles, leave_out ? std::string_view(device->name) : ""),
          ""};
}

// A collective among all devices of one node, with the links that the catalogue states: by a kernel
// profile if one serves all its members, else by the model of fabrics.
Result<double> CollectiveSeconds(const DeviceForecast& device, const CollectiveRow& row) {
  const int members = static_cast<int>(row.shape.members);
  const auto bytes = static_cast<double>(row.shape.bytes);
  FT_ASSIGN(const ClusterSpec cluster, MakeCluster(*device.gpu, 1, members));
  std::vector<int> devices(static_cast<std::size_t>(members));
  std::iota(devices.begin(), devices.end(), 0);
  const GroupPlace place = PlaceOf(cluster, devices);
  if (device.forecast.has_value() && place.IsWithinLinks()) {
    const auto hot = device.forecast->CollectiveSeconds(row.kind, bytes, members);
    if (hot.has_value()) return *hot;
  }
  const Fabric fabric = MakeFabric(cluster, DeriveProfile(cluster).rates);
  return TimeOfCommunication(fabric, row.kind, bytes, place).seconds;
}

std::optional<double> Seconds(const KernelForecast& forecast, const TimingRow& row) {
  if (const auto* product = std::get_if<ProductRow>(&row.kernel)) {
    return forecast.ProductSeconds(product->format, product->shape, true);
  }
  if (const auto* attention = std::get_if<AttentionShape>(&row.kernel)) {
    return forecast.AttentionForwardSeconds(*attention);
  }
  if (const auto* experts = std::get_if<ExpertsRow>(&row.kernel)) {
    return forecast.ExpertsForwardSeconds(experts->format, experts->shape);
  }
  if (const auto* training = std::get_if<TrainingProduct>(&row.kernel)) {
    return forecast.TrainingProductSeconds(*training);
  }
  const auto& causal = std::get<TrainingAttentionRow>(row.kernel);
  return causal.forward ? forecast.TrainingAttentionForwardSeconds(causal.shape, true)
                        : forecast.AttentionBackwardSeconds(causal.shape);
}

KernelPrediction Predict(const DeviceForecast& device, const TimingRow& row) {
  if (!row.refusal.empty()) return {std::nullopt, row.refusal};
  if (!device.gpu.has_value()) return {std::nullopt, device.reason};
  if (const auto* collective = std::get_if<CollectiveRow>(&row.kernel)) {
    const Result<double> seconds = CollectiveSeconds(device, *collective);
    if (!seconds.has_value()) return {std::nullopt, seconds.error().message};
    return {*seconds, ""};
  }
  if (!device.forecast.has_value()) return {std::nullopt, device.reason};
  KernelPrediction out;
  if (const auto* exchange = std::get_if<ExchangeRow>(&row.kernel)) {
    const auto seconds = [&](ExchangePart part) {
      return device.forecast->ExchangeSeconds(part, exchange->ShapeOf(part));
    };
    out.seconds = seconds(ExchangePart::kDispatch);
    out.combine_seconds = seconds(ExchangePart::kCombine);
  } else {
    out.seconds = Seconds(*device.forecast, row);
  }
  if (!out.seconds) return {std::nullopt, "no profile measured " + row.kind + " " + row.format};
  return out;
}

std::string ForecastCells(const TimingTable& table, const TimingRow& row,
                          const KernelPrediction& prediction) {
  if (table.kind == TimingTableKind::kExchange) {
    if (!prediction.seconds || !prediction.combine_seconds) return ",";
    return fmt::format("{:.6g},{:.6g}", *prediction.seconds * kUsPerS,
                       *prediction.combine_seconds * kUsPerS);
  }
  if (!prediction.seconds.has_value()) return "";
  if (table.kind == TimingTableKind::kShares) {
    return fmt::format("{:.6g}", row.flop / (*prediction.seconds * row.peak_flop_per_s));
  }
  return fmt::format("{:.6g}", *prediction.seconds * kMsPerS);
}

// One time of a row.
struct Timed {
  std::string kind, format;
  double measured_s = 0;
  std::optional<double> forecast_s;
};

// Exchanges have two: dispatch in fp8 and combine in 16 bits.
std::vector<Timed> TimesOf(const TimingRow& row, const KernelPrediction& prediction) {
  const auto* exchange = std::get_if<ExchangeRow>(&row.kernel);
  if (exchange == nullptr) return {{row.kind, row.format, row.measured_s, prediction.seconds}};
  return {{"dispatch", "fp8", row.measured_s, prediction.seconds},
          {"combine", "bfloat16", exchange->combine_s, prediction.combine_seconds}};
}

struct Errors {
  int rows = 0, forecast = 0;
  std::vector<double> logs;

  void Add(const Timed& time) {
    ++rows;
    if (!time.forecast_s.has_value()) return;
    ++forecast;
    if (time.measured_s > 0) logs.push_back(std::log(*time.forecast_s / time.measured_s));
  }
};

KernelScore ScoreOf(std::string device, std::string kind, std::string format, Errors errors) {
  KernelScore out;
  out.device = std::move(device);
  out.kind = std::move(kind);
  out.format = std::move(format);
  out.rows = errors.rows;
  out.forecast = errors.forecast;
  out.scored = static_cast<int>(errors.logs.size());
  if (errors.logs.empty()) return out;
  std::sort(errors.logs.begin(), errors.logs.end());
  out.bias = errors.logs[errors.logs.size() / 2];
  for (double& log : errors.logs) log = std::abs(log);
  std::sort(errors.logs.begin(), errors.logs.end());
  out.median = errors.logs[errors.logs.size() / 2];
  out.p90 = errors.logs[errors.logs.size() * 9 / 10];
  return out;
}

}  // namespace

std::vector<KernelPrediction> PredictKernels(const TimingTable& table,
                                             std::span<const KernelProfile> profiles,
                                             const Catalogue& catalogue,
                                             const std::vector<Architecture>& architectures,
                                             bool leave_device_out) {
  std::map<std::string, DeviceForecast> devices;
  std::vector<KernelPrediction> out;
  for (const TimingRow& row : table.rows) {
    auto at = devices.find(row.device);
    if (at == devices.end()) {
      at = devices
               .emplace(row.device, ForecastOf(row.device, profiles, catalogue, architectures,
                                               leave_device_out))
               .first;
    }
    out.push_back(Predict(at->second, row));
  }
  return out;
}

std::vector<KernelScore> ScoreKernels(std::span<const TimingTable> tables,
                                      std::span<const std::vector<KernelPrediction>> predictions) {
  using Name = std::tuple<std::string, std::string, std::string>;  // device, kind, format
  std::map<Name, Errors> devices, all;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    for (std::size_t i = 0; i < tables[t].rows.size(); ++i) {
      const TimingRow& row = tables[t].rows[i];
      for (const Timed& time : TimesOf(row, predictions[t][i])) {
        devices[{row.device, time.kind, time.format}].Add(time);
        all[{"", time.kind, time.format}].Add(time);
      }
    }
  }
  std::vector<KernelScore> out;
  for (auto* part : {&devices, &all}) {
    for (auto& [name, errors] : *part) {
      out.push_back(
          ScoreOf(std::get<0>(name), std::get<1>(name), std::get<2>(name), std::move(errors)));
    }
  }
  return out;
}

std::string PredictedTable(const TimingTable& table,
                           std::span<const KernelPrediction> predictions) {
  std::string out;
  for (const std::string& column : table.csv.columns) out += CsvCell(column) + ",";
  switch (table.kind) {
    case TimingTableKind::kShares:
      out += "forecast_share\n";
      break;
    case TimingTableKind::kExchange:
      out += "forecast_dispatch_us,forecast_combine_us\n";
      break;
    default:
      out += "forecast_ms\n";
  }
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    for (const std::string& cell : table.csv.rows[i].cells) out += CsvCell(cell) + ",";
    out += ForecastCells(table, table.rows[i], predictions[i]) + "\n";
  }
  return out;
}

}  // namespace foretrain
