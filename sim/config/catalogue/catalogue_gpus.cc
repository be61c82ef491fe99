// Reads the catalogue of accelerators from CSV.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "base/units.h"
#include "sim/config/catalogue/catalogue.h"
#include "sim/config/catalogue/catalogue_rows.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;

// Reads a cell in units of `unit`; 0 if it is empty.
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

// Reads a cell; leaves `value` alone if it is empty.
Result<void> ReadCount(const CsvReader& row, std::string_view column, std::int64_t low,
                       std::int64_t high, int& value) {
  if (row.Text(column).empty()) return {};
  FT_ASSIGN(const std::int64_t count, row.Count(column, low, high));
  value = static_cast<int>(count);
  return {};
}

// Reads how the devices of a node reach each other and the host.
Result<void> ReadLinks(const CsvReader& row, DeviceSpec& device) {
  FT_TRY(Read(row, "gpu_link_peer_gb_per_s", kGiga, device.link_peer_bytes_per_s));
  FT_TRY(ReadCount(row, "gpu_link_devices", 1, 1 << 20, device.link_devices));
  int reduces = 0, peer_access = 1;
  FT_TRY(ReadCount(row, "gpu_link_reduces", 0, 1, reduces));
  FT_TRY(ReadCount(row, "torus_axes", 0, 3, device.torus_axes));
  FT_TRY(ReadCount(row, "devices_per_pcie_switch", 1, 1 << 20, device.devices_per_pcie_switch));
  FT_TRY(ReadCount(row, "peer_access", 0, 1, peer_access));
  device.link_reduces = reduces == 1;
  device.peer_access = peer_access == 1;
  return {};
}

// The table uses the units of data sheets; everything is converted to flop, bytes and seconds here.
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
  FT_TRY(Read(row, "fp4_tflops", kTera, device.fp4_flop_per_s));
  int halves = 0;
  FT_TRY(ReadCount(row, "halves_fp32_sums", 0, 1, halves));
  device.halves_fp32_sums = halves == 1;
  FT_TRY(ReadBytes(row, "mem_gb", kGiB, device.memory_bytes));
  FT_TRY(Read(row, "mem_gb_per_s", kGiga, device.memory_bytes_per_s));
  FT_TRY(Read(row, "gpu_link_gb_per_s_per_direction", kGiga, device.link_bytes_per_s));
  FT_TRY(Read(row, "pcie_gb_per_s_per_direction", kGiga, device.pcie_bytes_per_s));
  FT_TRY(ReadLinks(row, device));
  return device;
}

// A forecast needs memory size, memory rate and a 16-bit compute rate. Everything else may be
// unknown.
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
  gpu.driver_name = row.Text("driver_name");
  gpu.architecture = row.Text("arch");
  FT_ASSIGN(gpu.device, ReadDevice(row));
  FT_TRY(ReadBytes(row, "l2_mb", kMiB, gpu.l2_bytes));
  FT_TRY(ReadCount(row, "sm_count", 1, 1 << 20, gpu.device.multiprocessors));
  FT_TRY(Read(row, "board_power_w", 1, gpu.device.power_w));
  gpu.compute_capability = row.Text("compute_capability");
  FT_TRY(Read(row, "measured_matmul_bf16_tflops", kTera, gpu.measured_bf16_flop_per_s));
  gpu.notes = row.Text("notes");
  gpu.unusable = WhyUnusable(gpu.device);
  return gpu;
}

// A node's values by device. Adapters and host memory may be unknown.
Result<ReferenceNode> ReadNode(const CsvReader& row) {
  ReferenceNode node;
  node.name = row.Text("node");
  FT_ASSIGN(const std::int64_t devices, row.Count("devices", 1, 1024));
  node.devices = static_cast<int>(devices);
  FT_TRY(ReadCount(row, "adapters", 1, 1024, node.adapters));
  FT_ASSIGN(const double gbit_per_s, row.Number("adapter_gbit_per_s", 0));
  constexpr double kBytesOfGbit = kGiga / 8;
  node.network_bytes_per_s =
      gbit_per_s * kBytesOfGbit * node.adapters / static_cast<double>(node.devices);
  std::int64_t host_bytes = 0;
  FT_TRY(ReadBytes(row, "host_gib", kGiB, host_bytes));
  node.host_bytes = host_bytes / node.devices;
  return node;
}

}  // namespace

// Devices with unknown rates stay in the list with a reason, so that a user learns why they cannot
// be used.
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

// A row for a GPU that does not exist would be a slip of the pen, so it is refused.
Result<void> AddReferenceNodes(std::string_view text, std::string_view file,
                               std::vector<GpuEntry>& gpus) {
  FT_ASSIGN(const CsvTable table, ParseCsv(text, file));
  FT_TRY(RequireColumns(
      table, {"gpu", "node", "devices", "adapters", "adapter_gbit_per_s", "host_gib", "source"}));
  for (const CsvRow& row : table.rows) {
    const CsvReader reader(table, row);
    const std::string_view name = reader.Text("gpu");
    const auto gpu = std::find_if(gpus.begin(), gpus.end(),
                                  [&](const GpuEntry& entry) { return entry.name == name; });
    if (gpu == gpus.end()) {
      return Refuse("{}: \"{}\" is no GPU of the table; give a name of its column `name`",
                    reader.Place("gpu"), Printable(name));
    }
    if (!gpu->node.name.empty()) {
      return Refuse("{}: {} has two rows; keep one", reader.Place("gpu"), name);
    }
    FT_ASSIGN(gpu->node, ReadNode(reader));
    if (gpu->node.name.empty()) {
      return Refuse("{}: is empty; name the node, such as DGX H100", reader.Place("node"));
    }
  }
  return {};
}

}  // namespace foretrain
