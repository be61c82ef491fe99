#include "profiler/gpu_monitor.h"

#include <dlfcn.h>

#include <array>
#include <chrono>
#include <utility>

#include "profiler/nvml.h"

namespace foretrain {
namespace {

// Constants of NVML and the driver, from their documentation.
constexpr int kSuccess = 0;
constexpr unsigned kSmClock = 1, kMemoryClock = 2;
constexpr unsigned kGpuSensor = 0;
using Gpu = NvmlDevice*;

struct LibraryClose {
  void operator()(void* library) const { dlclose(library); }
};
using LibraryHandle = std::unique_ptr<void, LibraryClose>;

// RTLD_LOCAL: the driver's symbols stay private.
Result<LibraryHandle> Load(const std::string& name) {
  LibraryHandle library(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (library == nullptr) return Fail(ErrorCode::kUnsupported, name + " was not found");
  return library;
}

template <class Function>
bool Find(const LibraryHandle& library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library.get(), name));
  return function != nullptr;
}

// The error for a library that is too old.
Error Lacks(const std::string& library, const char* name) {
  return {ErrorCode::kUnsupported, library + " has no function " + name};
}

// PCI bus id of a CUDA device. CUDA numbers devices in its own order and hides some by
// CUDA_VISIBLE_DEVICES; NVML knows all, so the bus id joins the two.
Result<std::string> BusIdOf(const std::string& driver, int device) {
  FT_ASSIGN(const LibraryHandle library, Load(driver));
  int (*init)(unsigned) = nullptr;
  int (*get)(int*, int) = nullptr;
  int (*bus_id)(char*, int, int) = nullptr;
  if (!Find(library, "cuInit", init)) return tl::unexpected<Error>(Lacks(driver, "cuInit"));
  if (!Find(library, "cuDeviceGet", get)) {
    return tl::unexpected<Error>(Lacks(driver, "cuDeviceGet"));
  }
  if (!Find(library, "cuDeviceGetPCIBusId", bus_id)) {
    return tl::unexpected<Error>(Lacks(driver, "cuDeviceGetPCIBusId"));
  }
  int handle = 0;
  std::array<char, 32> text{};
  if (init(0) != kSuccess || get(&handle, device) != kSuccess ||
      bus_id(text.data(), static_cast<int>(text.size()), handle) != kSuccess) {
    return Fail(ErrorCode::kUnsupported,
                driver + " does not tell where device " + std::to_string(device) + " is");
  }
  return std::string(text.data());
}

}  // namespace

// NVML functions for the monitor's readings.
class GpuMonitor::Library {
 public:
  // Only the lookup by bus id is required; a missing reading leaves its series out.
  static Result<std::unique_ptr<Library>> Open(const std::string& name) {
    std::unique_ptr<Library> out(new Library);
    FT_ASSIGN(out->nvml_, Nvml::Open(name));
    if (!out->Find("nvmlDeviceGetHandleByPciBusId_v2", out->by_bus_id_)) {
      return tl::unexpected<Error>(Lacks(name, "nvmlDeviceGetHandleByPciBusId_v2"));
    }
    out->FindReadings();
    return out;
  }

  Result<Gpu> GpuAt(const std::string& bus_id) const {
    Gpu gpu = nullptr;
    if (const int status = by_bus_id_(bus_id.c_str(), &gpu); status != kSuccess) {
      return tl::unexpected<Error>(nvml_->Failed("the GPU at " + bus_id, status));
    }
    return gpu;
  }

  // A series is left out if the driver lacks its function or the GPU does not answer.
  void Read(Gpu gpu, int rank, std::int64_t time_ns, std::vector<Counter>& out) const {
    unsigned value = 0;
    // The call in the last argument has filled `value` before `add` reads it.
    const auto add = [&](const char* name, double unit, int result) {
      if (result == kSuccess) out.push_back({name, rank, -1, time_ns, unit * value});
    };
    if (clock_ != nullptr) {
      add("gpu_sm_clock_hz", 1e6, clock_(gpu, kSmClock, &value));
      add("gpu_memory_clock_hz", 1e6, clock_(gpu, kMemoryClock, &value));
    }
    if (power_ != nullptr) add("gpu_power_w", 1e-3, power_(gpu, &value));
    if (temperature_ != nullptr) {
      add("gpu_temperature_c", 1, temperature_(gpu, kGpuSensor, &value));
    }
    if (reasons_ != nullptr) {
      unsigned long long bits = 0;
      if (reasons_(gpu, &bits) == kSuccess) {
        out.push_back({"gpu_throttle_reasons", rank, -1, time_ns, static_cast<double>(bits)});
      }
    }
    if (generation_ != nullptr) add("gpu_pcie_generation", 1, generation_(gpu, &value));
    if (width_ != nullptr) add("gpu_pcie_width", 1, width_(gpu, &value));
  }

 private:
  using ReadOne = int (*)(Gpu, unsigned*);

  Library() = default;

  template <class Function>
  bool Find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(nvml_->Find(name));
    return function != nullptr;
  }

  // All readings are optional.
  void FindReadings() {
    Find("nvmlDeviceGetClockInfo", clock_);
    Find("nvmlDeviceGetPowerUsage", power_);
    Find("nvmlDeviceGetTemperature", temperature_);
    // Name in drivers from 535 on, then the older name.
    if (!Find("nvmlDeviceGetCurrentClocksEventReasons", reasons_)) {
      Find("nvmlDeviceGetCurrentClocksThrottleReasons", reasons_);
    }
    Find("nvmlDeviceGetCurrPcieLinkGeneration", generation_);
    Find("nvmlDeviceGetCurrPcieLinkWidth", width_);
  }

  std::unique_ptr<Nvml> nvml_;
  int (*by_bus_id_)(const char*, Gpu*) = nullptr;
  int (*clock_)(Gpu, unsigned, unsigned*) = nullptr;
  ReadOne power_ = nullptr;
  int (*temperature_)(Gpu, unsigned, unsigned*) = nullptr;
  int (*reasons_)(Gpu, unsigned long long*) = nullptr;
  ReadOne generation_ = nullptr, width_ = nullptr;
};

GpuMonitor::GpuMonitor(std::unique_ptr<Library> library, std::vector<MonitoredRank> ranks,
                       std::vector<NvmlDevice*> gpus)
    : library_(std::move(library)), ranks_(std::move(ranks)), gpus_(std::move(gpus)) {}

GpuMonitor::~GpuMonitor() { Stop(); }

// All GPUs are looked up before the thread starts, so that errors are reported once.
Result<std::unique_ptr<GpuMonitor>> GpuMonitor::Open(const MonitorLibraries& libraries,
                                                     std::vector<MonitoredRank> ranks) {
  FT_ASSIGN(auto library, Library::Open(libraries.monitor));
  std::vector<NvmlDevice*> gpus;
  for (const MonitoredRank& rank : ranks) {
    FT_ASSIGN(const std::string bus_id, BusIdOf(libraries.driver, rank.device));
    FT_ASSIGN(const Gpu gpu, library->GpuAt(bus_id));
    gpus.push_back(gpu);
  }
  return std::unique_ptr<GpuMonitor>(
      new GpuMonitor(std::move(library), std::move(ranks), std::move(gpus)));
}

// All readings of all GPUs get the same time, so that they can be joined later.
std::vector<Counter> GpuMonitor::Read(std::int64_t time_ns) const {
  std::vector<Counter> counters;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    library_->Read(gpus_[i], ranks_[i].rank, time_ns, counters);
  }
  return counters;
}

// Readings run without the lock, because `take` may block; only the wait for the next one holds it.
void GpuMonitor::Start(std::function<std::int64_t()> now,
                       std::function<void(std::vector<Counter>)> take, std::int64_t interval_ns) {
  thread_ = std::thread([this, now = std::move(now), take = std::move(take), interval_ns] {
    std::unique_lock<std::mutex> lock(mutex_);
    do {
      lock.unlock();
      take(Read(now()));
      lock.lock();
    } while (!woken_.wait_for(lock, std::chrono::nanoseconds(interval_ns),
                              [this] { return stopping_; }));
  });
}

// Wakes the thread and waits for it: after the return `take` is not called any more. Calling it
// twice does no harm.
void GpuMonitor::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  woken_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace foretrain
