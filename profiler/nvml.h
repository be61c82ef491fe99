// NVIDIA's management library (NVML), loaded if a driver is installed: names of this machine's GPUs
// and the links between them. Its functions are declared here, because toolkits omit its header;
// names and numbers follow its reference manual, whose ABI is stable.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace foretrain {

// Path between two GPUs, named as in `nvidia-smi topo -m`, from near to far.
enum class GpuPath : std::uint8_t {
  kSelf,        // X
  kNvlink,      // NV#: number of NVLinks, direct or through switches
  kBoard,       // PIX: on one board
  kSwitch,      // PIX: at most one PCIe switch
  kSwitches,    // PXB: several switches, no host bridge
  kHostBridge,  // PHB: a host bridge of the CPU
  kNode,        // NODE: several host bridges of one NUMA node
  kSystem,      // SYS: the link between NUMA nodes
  kUnknown,     // ?: not reported
};
struct GpuLink {
  GpuPath path = GpuPath::kUnknown;
  int nvlinks = 0;  // for kNvlink

  bool operator==(const GpuLink&) const = default;
};
std::string Name(const GpuLink& link);  // "NV18", "PIX", ...

struct NvmlGpu {
  std::string name;    // "NVIDIA H200"
  std::string bus_id;  // "00000000:1B:00.0"
};

struct NvmlDevice;  // the library's handle

// The library; it stays open as long as this object. Safe from any thread.
class Nvml {
 public:
  // Loads `file` and starts the library, in 1 to 20 ms. Errors: kUnsupported, in one sentence: it
  // is missing, lacks a function, or does not start.
  static Result<std::unique_ptr<Nvml>> Open(const std::string& file = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  Result<std::string> DriverVersion() const;
  // By bus id, in the library's order: CUDA's order if CUDA_DEVICE_ORDER=PCI_BUS_ID.
  Result<std::vector<NvmlGpu>> Gpus() const;
  // [gpu][gpu], in the order of Gpus(). kUnknown if the library reports nothing for a pair.
  Result<std::vector<std::vector<GpuLink>>> Links() const;
  // Handle of a GPU, for functions found by Find.
  Result<NvmlDevice*> Device(int gpu) const;
  // Sets `function` to the library's function of that name. False, and null, if it has none.
  template <class Function>
  bool Find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(Symbol(name));
    return function != nullptr;
  }
  // "what: the library's own text".
  Error Failed(const std::string& what, int status) const;

 private:
  struct Functions;
  Nvml(void* library, std::unique_ptr<Functions> functions);
  void* Symbol(const char* name) const;

  void* library_;
  std::unique_ptr<Functions> functions_;
};

}  // namespace foretrain
