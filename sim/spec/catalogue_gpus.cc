// The catalogue of accelerators.
#include <cmath>

#include "base/text.h"
#include "base/units.h"
#include "sim/spec/catalogue.h"
#include "sim/spec/catalogue_rows.h"
#include "sim/spec/refuse.h"

namespace foretrain {
namespace {

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;

// The cell in units of `unit`; 0 where it is empty.
Result<void> Read(const CsvReader& row, std::string_view column, double unit, double& value) {
  FT_ASSIGN(const double number, row.Number(column, 0));
  value = number * unit;
  return {};
}

Result<void> ReadBytes(const CsvReader& row, std::string_view column, std::int64_t unit,
                       std::int64_t& bytes) {
  FT_ASSIGN(const double number, row.Number(column, 0));
  if (number > 1e6) return Refuse("{}: {} must be at most 1000000", row.Place(column), number);
  bytes = std::llround(number * static_cast<double>(unit));
  return {};
}

Result<DeviceSpec> ReadDevice(const CsvReader& row) {
  DeviceSpec device;
  device.name = row.Text("gpu");
  if (device.name.empty() || Printable(device.name, 64) != device.name) {
    return Refuse("{}: must be 1 to 64 bytes of printable text", row.Place("gpu"));
  }
  device.source = row.Text("source");
  FT_TRY(Read(row, "fp32_tflops", kTera, device.fp32_flop_per_s));
  FT_TRY(Read(row, "tf32_tflops", kTera, device.tf32_flop_per_s));
  FT_TRY(Read(row, "bf16_tflops", kTera, device.bf16_flop_per_s));
  FT_TRY(Read(row, "fp16_tflops", kTera, device.fp16_flop_per_s));
  FT_TRY(Read(row, "fp8_tflops", kTera, device.fp8_flop_per_s));
  FT_TRY(ReadBytes(row, "mem_gb", kGiB, device.memory_bytes));
  FT_TRY(Read(row, "mem_gb_per_s", kGiga, device.memory_bytes_per_s));
  FT_TRY(Read(row, "gpu_link_gb_per_s_per_direction", kGiga, device.link_bytes_per_s));
  FT_TRY(Read(row, "pcie_gb_per_s_per_direction", kGiga, device.pcie_bytes_per_s));
  return device;
}

std::string WhyUnusable(const DeviceSpec& device) {
  if (device.memory_bytes == 0) return "its memory size is not known";
  if (device.memory_bytes_per_s == 0) return "its memory rate is not known";
  if (device.bf16_flop_per_s == 0 && device.fp16_flop_per_s == 0) {
    return "its bf16 and fp16 rates are not known";
  }
  return "";
}

Result<GpuEntry> ReadGpu(const CsvReader& row) {
  GpuEntry gpu;
  gpu.aliases = Aliases(row);
  gpu.architecture = row.Text("arch");
  FT_ASSIGN(gpu.device, ReadDevice(row));
  if (!row.Text("gpu_link_devices").empty()) {
    FT_ASSIGN(const std::int64_t joined, row.Count("gpu_link_devices", 1, 1 << 20));
    gpu.link_devices = static_cast<int>(joined);
  }
  FT_TRY(ReadBytes(row, "l2_mb", kMiB, gpu.l2_bytes));
  if (!row.Text("sm_count").empty()) {
    FT_ASSIGN(const std::int64_t count, row.Count("sm_count", 1, 1 << 20));
    gpu.multiprocessors = static_cast<int>(count);
  }
  gpu.compute_capability = row.Text("compute_capability");
  FT_TRY(Read(row, "measured_matmul_bf16_tflops", kTera, gpu.measured_bf16_flop_per_s));
  gpu.notes = row.Text("notes");
  gpu.unusable = WhyUnusable(gpu.device);
  return gpu;
}

}  // namespace

Result<std::vector<GpuEntry>> ParseGpus(std::string_view text, std::string_view file) {
  FT_ASSIGN(const CsvTable table, ParseCsv(text, file));
  FT_TRY(
      RequireColumns(table, {"name", "gpu", "bf16_tflops", "fp16_tflops", "mem_gb", "mem_gb_per_s",
                             "gpu_link_gb_per_s_per_direction", "pcie_gb_per_s_per_direction"}));
  std::vector<GpuEntry> gpus;
  UniqueNames names;
  for (const CsvRow& row : table.rows) {
    const CsvReader reader(table, row);
    FT_ASSIGN(std::string name, names.Add(reader));
    FT_ASSIGN(GpuEntry gpu, ReadGpu(reader));
    gpu.name = std::move(name);
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

}  // namespace foretrain
