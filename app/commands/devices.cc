#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/flags/plan_flags.h"
#include "app/commands/commands.h"
#include "base/device_api.h"
#include "base/json/json.h"
#include "base/table.h"
#include "base/units.h"
#include "kernels/cpu/cpu_device.h"
#include "profiler/nvml.h"
#include "runtime/device/cuda_driver.h"
#include "runtime/device/cuda_plugin.h"
#include "runtime/device/device_status.h"

namespace foretrain {
namespace {

// Free and total memory of one device, or why they are not known.
Result<FtMemory> MemoryOf(const FtDeviceApi& api, std::int32_t device) {
  FtMemory memory{};
  std::array<char, 256> why{};
  FT_TRY(Checked(api.memory(device, &memory, why.data(), why.size()), api.name, why.data()));
  return memory;
}

// The GPUs as the driver and NVML describe them. Unknown values stay empty.
struct Gpus {
  std::optional<CudaDriver> driver;
  std::string driver_version;  // "580.159.03"
  std::vector<std::vector<GpuLink>> links;
};

// Each source is optional: without a driver or without NVML its fields stay empty, and the command
// still lists the CPU.
Gpus AskGpus() {
  Gpus gpus;
  if (auto driver = AskCudaDriver(); driver.has_value()) gpus.driver = std::move(*driver);
  const auto nvml = Nvml::Open();
  if (!nvml.has_value()) return gpus;
  if (auto version = (*nvml)->DriverVersion(); version.has_value()) gpus.driver_version = *version;
  if (auto links = (*nvml)->Links(); links.has_value()) gpus.links = std::move(*links);
  return gpus;
}

// Lists the CPU and every GPU that the plugin can use. The driver's facts and the plugin's devices
// are asked separately: a driver that works with a plugin that does not load is a usual fault, and
// the output shows both.
class Devices final : public Command {
 public:
  void Declare(Arguments& arguments) override { DeclareJson(arguments); }

  // One line for the CPU, one for each GPU or the reason why there is none, then driver and links.
  Result<Exit> Run() override {
    const Machine machine = ThisMachine();
    FT_ASSIGN(const FtMemory memory, MemoryOf(CpuDeviceApi(), 0));
    const CudaDevice cuda = LoadCudaDevice(UsualPluginPlaces());
    const Gpus gpus = AskGpus();  // cheap without a driver: looks for two files
    if (json_) return PrintJson(machine, memory, cuda, gpus);
    std::printf("cpu   %s, %d cores, %s free of %s: one rank is one thread\n", machine.name.c_str(),
                machine.cores, FormatBytes(memory.free_bytes).c_str(),
                FormatBytes(memory.total_bytes).c_str());
    if (cuda.api == nullptr) std::printf("cuda  not used: %s\n", cuda.why.c_str());
    for (std::int32_t device = 0; device < cuda.count; ++device) {
      FT_ASSIGN(const FtMemory of_device, MemoryOf(*cuda.api, device));
      std::printf("cuda  device %d, %s%s free of %s: asked for by --device cuda\n", device,
                  FactsText(gpus, device).c_str(), FormatBytes(of_device.free_bytes).c_str(),
                  FormatBytes(of_device.total_bytes).c_str());
    }
    if (gpus.driver.has_value()) {
      std::printf("      driver %s for CUDA up to %s; the plugin is built with CUDA %s\n",
                  gpus.driver_version.empty() ? "?" : gpus.driver_version.c_str(),
                  CudaVersionText(gpus.driver->version).c_str(),
                  CudaVersionText(cuda.runtime_version).c_str());
    }
    // One GPU has no links.
    if (gpus.links.size() > 1) std::printf("\n%s", LinksText(gpus.links).c_str());
    return Exit::kDone;
  }

 private:
  // "NVIDIA H200, compute capability 9.0, 132 multiprocessors at 1980 MHz, "
  static std::string FactsText(const Gpus& gpus, std::int32_t device) {
    const auto at = static_cast<std::size_t>(device);
    if (!gpus.driver.has_value() || at >= gpus.driver->gpus.size()) return "";
    const GpuFacts& gpu = gpus.driver->gpus[at];
    return fmt::format("{}, compute capability {}.{}, {} multiprocessors at {} MHz, ", gpu.name,
                       gpu.capability_major, gpu.capability_minor, gpu.multiprocessors,
                       gpu.clock_mhz);
  }

  // A square table: row i, column j is the path from GPU i to GPU j.
  static std::string LinksText(const std::vector<std::vector<GpuLink>>& links) {
    std::vector<std::string> titles{""};
    for (std::size_t i = 0; i < links.size(); ++i) titles.push_back(fmt::format(">GPU{}", i));
    Table table(titles);
    for (std::size_t i = 0; i < links.size(); ++i) {
      std::vector<std::string> cells{fmt::format("GPU{}", i)};
      for (const GpuLink& link : links[i]) cells.push_back(foretrain::Name(link));
      table.AddRow(std::move(cells));
    }
    return table.Text() +
           "NV#: that many NVLinks; PIX, PXB: one PCIe switch or several; PHB: a host bridge; "
           "NODE: "
           "bridges of a\nNUMA node; SYS: the link between NUMA nodes\n";
  }

  // `why_no_cuda` is present only if CUDA is not usable.
  static Result<Exit> PrintJson(const Machine& machine, const FtMemory& memory,
                                const CudaDevice& cuda, const Gpus& gpus) {
    JsonWriter json;
    json.BeginObject().Field("schema", 1).Name("devices").BeginArray().BeginObject();
    json.Field("name", "cpu").Field("model", machine.name).Field("cores", machine.cores);
    json.Field("memory_bytes", memory.total_bytes).Field("free_bytes", memory.free_bytes);
    json.EndObject();
    for (std::int32_t device = 0; device < cuda.count; ++device) {
      FT_ASSIGN(const FtMemory of_device, MemoryOf(*cuda.api, device));
      json.BeginObject().Field("name", "cuda").Field("device", device);
      json.Field("memory_bytes", of_device.total_bytes).Field("free_bytes", of_device.free_bytes);
      WriteFacts(json, gpus, device);
      json.EndObject();
    }
    json.EndArray();
    if (cuda.api == nullptr) json.Field("why_no_cuda", cuda.why);
    if (gpus.driver.has_value()) {
      json.Field("driver", gpus.driver_version);
      json.Field("driver_cuda", CudaVersionText(gpus.driver->version));
      json.Field("runtime_cuda", CudaVersionText(cuda.runtime_version));
    }
    json.Name("links").BeginArray();
    for (const auto& row : gpus.links) {
      json.BeginArray();
      for (const GpuLink& link : row) json.String(foretrain::Name(link));
      json.EndArray();
    }
    std::puts(json.EndArray().EndObject().Take().c_str());
    return Exit::kDone;
  }

  // Writes nothing for a GPU that the driver does not list.
  static void WriteFacts(JsonWriter& json, const Gpus& gpus, std::int32_t device) {
    const auto at = static_cast<std::size_t>(device);
    if (!gpus.driver.has_value() || at >= gpus.driver->gpus.size()) return;
    const GpuFacts& gpu = gpus.driver->gpus[at];
    json.Field("model", gpu.name);
    json.Field("compute_capability",
               fmt::format("{}.{}", gpu.capability_major, gpu.capability_minor));
    json.Field("multiprocessors", gpu.multiprocessors).Field("clock_mhz", gpu.clock_mhz);
    json.Field("memory_clock_mhz", gpu.memory_clock_mhz);
    json.Field("memory_bus_bits", gpu.memory_bus_bits).Field("l2_bytes", gpu.l2_bytes);
  }
};

}  // namespace

std::unique_ptr<Command> MakeDevices() { return std::make_unique<Devices>(); }

}  // namespace foretrain
