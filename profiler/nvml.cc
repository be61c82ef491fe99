#include "profiler/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <utility>

namespace foretrain {
namespace {

// Values of nvml.h, which the build does not need.
constexpr int kSuccess = 0;
constexpr int kMaxNvlinks = 18;   // NVML_NVLINK_MAX_LINKS
constexpr int kActive = 1;        // NVML_FEATURE_ENABLED
constexpr int kSwitchDevice = 2;  // NVML_NVLINK_DEVICE_TYPE_SWITCH

struct PciInfo {  // nvmlPciInfo_t
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

// Values of nvmlGpuTopologyLevel_t.
GpuPath PathOfLevel(int level) {
  for (const auto& [known, path] :
       {std::pair{0, GpuPath::kBoard}, std::pair{10, GpuPath::kSwitch},
        std::pair{20, GpuPath::kSwitches}, std::pair{30, GpuPath::kHostBridge},
        std::pair{40, GpuPath::kNode}, std::pair{50, GpuPath::kSystem}}) {
    if (known == level) return path;
  }
  return GpuPath::kUnknown;
}

// Remote ends of one GPU's active NVLinks.
struct Nvlinks {
  int to_switches = 0;
  std::vector<std::string> to_gpus;  // bus ids
};

}  // namespace

struct Nvml::Functions {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, NvmlDevice**) = nullptr;
  int (*name)(NvmlDevice*, char*, unsigned) = nullptr;
  int (*pci)(NvmlDevice*, PciInfo*) = nullptr;
  int (*ancestor)(NvmlDevice*, NvmlDevice*, int*) = nullptr;
  int (*link_state)(NvmlDevice*, unsigned, int*) = nullptr;
  int (*link_pci)(NvmlDevice*, unsigned, PciInfo*) = nullptr;
  int (*link_type)(NvmlDevice*, unsigned, int*) = nullptr;  // null before driver 470

  // Looks up all functions. Returns the name of the first missing one, or null if all exist.
  const char* Load(void* library) {
    const char* missing = nullptr;
    const auto find = [&](const char* symbol, auto& function) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
      if (function == nullptr && missing == nullptr) missing = symbol;
    };
    find("nvmlInit_v2", init);
    find("nvmlShutdown", shutdown);
    find("nvmlErrorString", error_string);
    find("nvmlSystemGetDriverVersion", driver_version);
    find("nvmlDeviceGetCount_v2", count);
    find("nvmlDeviceGetHandleByIndex_v2", handle);
    find("nvmlDeviceGetName", name);
    find("nvmlDeviceGetPciInfo_v3", pci);
    find("nvmlDeviceGetTopologyCommonAncestor", ancestor);
    find("nvmlDeviceGetNvLinkState", link_state);
    find("nvmlDeviceGetNvLinkRemotePciInfo_v2", link_pci);
    link_type = reinterpret_cast<decltype(link_type)>(
        dlsym(library, "nvmlDeviceGetNvLinkRemoteDeviceType"));
    return missing;
  }

  // Without the type of the remote end (old drivers), a link counts as direct to the GPU at its bus
  // id.
  Nvlinks LinksOf(NvmlDevice* gpu) const {
    Nvlinks links;
    for (unsigned link = 0; link < kMaxNvlinks; ++link) {
      int state = 0, type = 0;
      if (link_state(gpu, link, &state) != kSuccess || state != kActive) continue;
      const bool known = link_type != nullptr && link_type(gpu, link, &type) == kSuccess;
      PciInfo remote{};
      if (known && type == kSwitchDevice) {
        ++links.to_switches;
      } else if (link_pci(gpu, link, &remote) == kSuccess) {
        links.to_gpus.emplace_back(remote.bus_id);
      }
    }
    return links;
  }
};

// The abbreviations of `nvidia-smi topo -m`.
std::string Name(const GpuLink& link) {
  constexpr std::array kNames{"X", "NV", "PIX", "PIX", "PXB", "PHB", "NODE", "SYS", "?"};
  const std::string name = kNames[static_cast<std::size_t>(link.path)];
  return link.path == GpuPath::kNvlink ? name + std::to_string(link.nvlinks) : name;
}

Nvml::Nvml(void* library, std::unique_ptr<Functions> functions)
    : library_(library), functions_(std::move(functions)) {}

// The functions are part of the library, so it is closed last.
Nvml::~Nvml() {
  functions_->shutdown();
  dlclose(library_);
}

// The library is closed again on every error path.
Result<std::unique_ptr<Nvml>> Nvml::Open(const std::string& file) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Fail(ErrorCode::kUnsupported, "NVML is not here (" + file + " was not found)");
  }
  auto functions = std::make_unique<Functions>();
  if (const char* const missing = functions->Load(library); missing != nullptr) {
    dlclose(library);
    return Fail(ErrorCode::kUnsupported,
                file + " is too old: it has no " + std::string(missing) + "; update the driver");
  }
  if (const int status = functions->init(); status != kSuccess) {
    const std::string text = functions->error_string(status);
    dlclose(library);
    return Fail(ErrorCode::kUnsupported, "NVML does not start: " + text);
  }
  return std::unique_ptr<Nvml>(new Nvml(library, std::move(functions)));
}

Error Nvml::Failed(const std::string& what, int status) const {
  return {ErrorCode::kUnsupported, "NVML, " + what + ": " + functions_->error_string(status)};
}

// For functions that only some callers need.
void* Nvml::Symbol(const char* name) const { return dlsym(library_, name); }

Result<std::string> Nvml::DriverVersion() const {
  std::array<char, 96> version{};
  const int status = functions_->driver_version(version.data(), version.size());
  if (status != kSuccess) return tl::unexpected<Error>(Failed("driver version", status));
  return std::string(version.data());
}

// NVML owns the handle, which is valid until shutdown.
Result<NvmlDevice*> Nvml::Device(int gpu) const {
  NvmlDevice* device = nullptr;
  const int status = functions_->handle(static_cast<unsigned>(gpu), &device);
  if (status != kSuccess) {
    return tl::unexpected<Error>(Failed("GPU " + std::to_string(gpu), status));
  }
  return device;
}

// One failing GPU fails the call: a partial list would shift the indices.
Result<std::vector<NvmlGpu>> Nvml::Gpus() const {
  unsigned count = 0;
  if (const int status = functions_->count(&count); status != kSuccess) {
    return tl::unexpected<Error>(Failed("number of GPUs", status));
  }
  std::vector<NvmlGpu> gpus;
  for (unsigned i = 0; i < count; ++i) {
    FT_ASSIGN(NvmlDevice* const device, Device(static_cast<int>(i)));
    std::array<char, 96> name{};
    PciInfo pci{};
    int status = functions_->name(device, name.data(), name.size());
    if (status == kSuccess) status = functions_->pci(device, &pci);
    if (status != kSuccess) {
      return tl::unexpected<Error>(Failed("GPU " + std::to_string(i), status));
    }
    gpus.push_back({name.data(), pci.bus_id});
  }
  return gpus;
}

// NVLinks are counted from both sides: direct ones by the other GPU's bus id, switched ones as the
// smaller number of the two GPUs. Other pairs get their PCIe path.
Result<std::vector<std::vector<GpuLink>>> Nvml::Links() const {
  FT_ASSIGN(const std::vector<NvmlGpu> gpus, Gpus());
  std::vector<NvmlDevice*> devices;
  std::vector<Nvlinks> nvlinks;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    FT_ASSIGN(NvmlDevice* const device, Device(static_cast<int>(i)));
    devices.push_back(device);
    nvlinks.push_back(functions_->LinksOf(device));
  }
  std::vector<std::vector<GpuLink>> matrix(gpus.size(), std::vector<GpuLink>(gpus.size()));
  for (std::size_t a = 0; a < gpus.size(); ++a) {
    for (std::size_t b = 0; b < gpus.size(); ++b) {
      GpuLink& link = matrix[a][b];
      const auto& ends = nvlinks[a].to_gpus;
      const auto straight = std::count(ends.begin(), ends.end(), gpus[b].bus_id);
      const int switched = std::min(nvlinks[a].to_switches, nvlinks[b].to_switches);
      int level = 0;
      if (a == b) {
        link = {GpuPath::kSelf, 0};
      } else if (straight > 0 || switched > 0) {
        link = {GpuPath::kNvlink, straight > 0 ? static_cast<int>(straight) : switched};
      } else if (functions_->ancestor(devices[a], devices[b], &level) == kSuccess) {
        link = {PathOfLevel(level), 0};
      }
    }
  }
  return matrix;
}

}  // namespace foretrain
