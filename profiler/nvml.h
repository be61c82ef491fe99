// NVIDIA's management library, loaded where a driver is installed: what the GPUs of this machine
// are called and how they are joined. Its functions are declared here, because toolkits leave its
// header out; the names and numbers are those of its reference manual, whose ABI is kept.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace foretrain {

// How two GPUs reach each other, as `nvidia-smi topo -m` names it, from near to far.
enum class GpuPath : std::uint8_t {
  kSelf,        // X
  kNvlink,      // NV#: so many NVLinks, straight or through switches
  kBoard,       // PIX: on one board
  kSwitch,      // PIX: at most one PCIe switch
  kSwitches,    // PXB: several, without a host bridge
  kHostBridge,  // PHB: a host bridge of the CPU
  kNode,        // NODE: several host bridges of one NUMA node
  kSystem,      // SYS: the link between NUMA nodes
  kUnknown,     // ?: the library did not say
};
struct GpuLink {
  GpuPath path = GpuPath::kUnknown;
  int nvlinks = 0;  // of kNvlink

  bool operator==(const GpuLink&) const = default;
};
std::string Name(const GpuLink& link);  // "NV18", "PIX", ...

struct NvmlGpu {
  std::string name;    // "NVIDIA H200"
  std::string bus_id;  // "00000000:1B:00.0"
};

struct NvmlDevice;  // the library's handle

// The library, open until this goes. Calls may come from any thread.
class Nvml {
 public:
  // Loads `file` and starts the library. Errors: kUnsupported, it is missing, lacks a function, or
  // does not start, in one sentence. 1 to 20 ms where there is a driver.
  static Result<std::unique_ptr<Nvml>> Open(const std::string& file = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  Result<std::string> DriverVersion() const;
  // In the library's order, by bus id: that of CUDA with CUDA_DEVICE_ORDER=PCI_BUS_ID.
  Result<std::vector<NvmlGpu>> Gpus() const;
  // [gpu][gpu], as Gpus() counts them. What the library does not tell of a pair is kUnknown.
  Result<std::vector<std::vector<GpuLink>>> Links() const;
  // Handle of a GPU, for functions looked up by Find.
  Result<NvmlDevice*> Device(int gpu) const;
  // A function of the library; null where it has none of that name.
  void* Find(const char* name) const;
  // "what: the library's own words".
  Error Failed(const std::string& what, int status) const;

 private:
  struct Functions;
  Nvml(void* library, std::unique_ptr<Functions> functions);

  void* library_;
  std::unique_ptr<Functions> functions_;
};

}  // namespace foretrain
