#include <cstdio>

#include "app/commands/commands.h"
#include "app/plan_flags.h"
#include "base/device_api.h"
#include "base/json.h"
#include "base/units.h"
#include "kernels/cpu/cpu_device.h"

namespace foretrain {
namespace {

// Why no GPU is used, in one sentence; empty where one is.
std::string WhyNoCuda() {
#if FORETRAIN_HAVE_CUDA
  return "the CUDA device is not part of this version";
#else
  return "this build has no CUDA device; training runs on the CPU";
#endif
}

class Devices final : public Command {
 public:
  std::string_view Name() const override { return "devices"; }
  std::string_view Summary() const override { return "Show what this machine can train on"; }

  void Declare(Arguments& arguments) override { DeclareJson(arguments); }

  Result<Exit> Run() override {
    const Machine machine = ThisMachine();
    const FtDeviceApi& cpu = CpuDeviceApi();
    FtMemory memory{};
    char why[256] = "";
    if (cpu.memory(0, &memory, why, sizeof why) != FT_OK) {
      return Fail(ErrorCode::kIo, std::string("cpu: ") + why);
    }
    if (json_) {
      JsonWriter json;
      json.BeginObject().Field("schema", 1).Name("devices").BeginArray().BeginObject();
      json.Field("name", "cpu").Field("model", machine.name).Field("cores", machine.cores);
      json.Field("memory_bytes", memory.total_bytes).Field("free_bytes", memory.free_bytes);
      json.EndObject().EndArray().Field("why_no_cuda", WhyNoCuda());
      std::puts(json.EndObject().Take().c_str());
      return Exit::kDone;
    }
    std::printf("cpu   %s, %d cores, %s free of %s: one rank is one thread\n", machine.name.c_str(),
                machine.cores, FormatBytes(memory.free_bytes).c_str(),
                FormatBytes(memory.total_bytes).c_str());
    std::printf("cuda  not used: %s\n", WhyNoCuda().c_str());
    return Exit::kDone;
  }
};

}  // namespace

std::unique_ptr<Command> MakeDevices() { return std::make_unique<Devices>(); }

}  // namespace foretrain
