#include <array>
#include <cstdint>
#include <cstdio>

#include "app/commands/commands.h"
#include "app/plan_flags.h"
#include "base/device_api.h"
#include "base/json.h"
#include "base/units.h"
#include "kernels/cpu/cpu_device.h"
#include "runtime/cuda_plugin.h"
#include "runtime/device_status.h"

namespace foretrain {
namespace {

// Free and total memory of one device, or why they are not known.
Result<FtMemory> MemoryOf(const FtDeviceApi& api, std::int32_t device) {
  FtMemory memory{};
  std::array<char, 256> why{};
  FT_TRY(Checked(api.memory(device, &memory, why.data(), why.size()), api.name, why.data()));
  return memory;
}

class Devices final : public Command {
 public:
  std::string_view Name() const override { return "devices"; }
  std::string_view Summary() const override { return "Show what this machine can train on"; }

  void Declare(Arguments& arguments) override { DeclareJson(arguments); }

  Result<Exit> Run() override {
    const Machine machine = ThisMachine();
    FT_ASSIGN(const FtMemory memory, MemoryOf(CpuDeviceApi(), 0));
    const CudaDevice cuda = LoadCudaDevice(UsualPluginPlaces());
    if (json_) return PrintJson(machine, memory, cuda);
    std::printf("cpu   %s, %d cores, %s free of %s: one rank is one thread\n", machine.name.c_str(),
                machine.cores, FormatBytes(memory.free_bytes).c_str(),
                FormatBytes(memory.total_bytes).c_str());
    if (cuda.api == nullptr) std::printf("cuda  not used: %s\n", cuda.why.c_str());
    for (std::int32_t device = 0; device < cuda.count; ++device) {
      FT_ASSIGN(const FtMemory of_device, MemoryOf(*cuda.api, device));
      std::printf("cuda  device %d, %s free of %s: asked for by --device cuda\n", device,
                  FormatBytes(of_device.free_bytes).c_str(),
                  FormatBytes(of_device.total_bytes).c_str());
    }
    return Exit::kDone;
  }

 private:
  static Result<Exit> PrintJson(const Machine& machine, const FtMemory& memory,
                                const CudaDevice& cuda) {
    JsonWriter json;
    json.BeginObject().Field("schema", 1).Name("devices").BeginArray().BeginObject();
    json.Field("name", "cpu").Field("model", machine.name).Field("cores", machine.cores);
    json.Field("memory_bytes", memory.total_bytes).Field("free_bytes", memory.free_bytes);
    json.EndObject();
    for (std::int32_t device = 0; device < cuda.count; ++device) {
      FT_ASSIGN(const FtMemory of_device, MemoryOf(*cuda.api, device));
      json.BeginObject().Field("name", "cuda").Field("device", device);
      json.Field("memory_bytes", of_device.total_bytes).Field("free_bytes", of_device.free_bytes);
      json.EndObject();
    }
    json.EndArray();
    if (cuda.api == nullptr) json.Field("why_no_cuda", cuda.why);
    std::puts(json.EndObject().Take().c_str());
    return Exit::kDone;
  }
};

}  // namespace

std::unique_ptr<Command> MakeDevices() { return std::make_unique<Devices>(); }

}  // namespace foretrain
