#include "profiler/gpu_monitor.h"

#include <dlfcn.h>

#include <array>
#include <chrono>
#include <iterator>
#include <utility>

#include "profiler/gpu_activity.h"
#include "profiler/gpu_events.h"
#include "profiler/nvml.h"

namespace foretrain {
namespace {

// Constants of NVML and the driver, from their documentation.
constexpr int kSuccess = 0;
constexpr unsigned kSmClock = 1, kMemoryClock = 2;
constexpr unsigned kGpuSensor = 0;
constexpr int kCorrected = 0, kUncorrected = 1;  // nvmlMemoryErrorType_t
constexpr int kSinceLoad = 0;                    // NVML_VOLATILE_ECC
struct Utilization {                             // nvmlUtilization_t, percentages
  unsigned gpu = 0, memory = 0;
};

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
Result<std::string> BusIdOfDevice(const std::string& driver, int device) {
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
    if (!out->nvml_->Find("nvmlDeviceGetHandleByPciBusId_v2", out->by_bus_id_)) {
      return tl::unexpected<Error>(Lacks(name, "nvmlDeviceGetHandleByPciBusId_v2"));
    }
    out->FindReadings();
    return out;
  }

  const Nvml& nvml() const { return *nvml_; }

  Result<NvmlDevice*> GpuAt(const std::string& bus_id) const {
    NvmlDevice* gpu = nullptr;
    if (const int status = by_bus_id_(bus_id.c_str(), &gpu); status != kSuccess) {
      return tl::unexpected<Error>(nvml_->Failed("the GPU at " + bus_id, status));
    }
    return gpu;
  }

  // A series is left out if the driver lacks its function or the GPU does not answer.
  void Read(NvmlDevice* gpu, int rank, std::int64_t time_ns, std::vector<Counter>& out) const {
    const auto put = [&](const char* name, double value) {
      out.push_back({name, rank, -1, time_ns, value});
    };
    unsigned value = 0;
    unsigned long long wide = 0;
    // The call in the last argument has filled `value` before `add` reads it; likewise `wide`.
    const auto add = [&](const char* name, double unit, int result) {
      if (result == kSuccess) put(name, unit * value);
    };
    const auto add_wide = [&](const char* name, int result) {
      if (result == kSuccess) put(name, static_cast<double>(wide));
    };
    if (clock_ != nullptr) {
      add("gpu_sm_clock_hz", 1e6, clock_(gpu, kSmClock, &value));
      add("gpu_memory_clock_hz", 1e6, clock_(gpu, kMemoryClock, &value));
    }
    if (power_ != nullptr) add("gpu_power_w", 1e-3, power_(gpu, &value));
    if (temperature_ != nullptr) {
      add("gpu_temperature_c", 1, temperature_(gpu, kGpuSensor, &value));
    }
    if (reasons_ != nullptr) add_wide("gpu_throttle_reasons", reasons_(gpu, &wide));
    if (generation_ != nullptr) add("gpu_pcie_generation", 1, generation_(gpu, &value));
    if (width_ != nullptr) add("gpu_pcie_width", 1, width_(gpu, &value));
    if (ecc_ != nullptr) {
      add_wide("gpu_ecc_corrected", ecc_(gpu, kCorrected, kSinceLoad, &wide));
      add_wide("gpu_ecc_uncorrected", ecc_(gpu, kUncorrected, kSinceLoad, &wide));
    }
  }

  void ReadUtilization(NvmlDevice* gpu, int rank, std::int64_t time_ns,
                       std::vector<Counter>& out) const {
    Utilization busy;
    if (utilization_ == nullptr || utilization_(gpu, &busy) != kSuccess) return;
    out.push_back({"gpu_busy_share", rank, -1, time_ns, busy.gpu / 100.0});
    out.push_back({"gpu_memory_busy_share", rank, -1, time_ns, busy.memory / 100.0});
  }

 private:
  using ReadOne = int (*)(NvmlDevice*, unsigned*);

  Library() = default;

  // All readings are optional.
  void FindReadings() {
    nvml_->Find("nvmlDeviceGetClockInfo", clock_);
    nvml_->Find("nvmlDeviceGetPowerUsage", power_);
    nvml_->Find("nvmlDeviceGetTemperature", temperature_);
    // Name in drivers from 535 on, then the older name.
    if (!nvml_->Find("nvmlDeviceGetCurrentClocksEventReasons", reasons_)) {
      nvml_->Find("nvmlDeviceGetCurrentClocksThrottleReasons", reasons_);
    }
    nvml_->Find("nvmlDeviceGetCurrPcieLinkGeneration", generation_);
    nvml_->Find("nvmlDeviceGetCurrPcieLinkWidth", width_);
    nvml_->Find("nvmlDeviceGetTotalEccErrors", ecc_);
    nvml_->Find("nvmlDeviceGetUtilizationRates", utilization_);
  }

  std::unique_ptr<Nvml> nvml_;
  int (*by_bus_id_)(const char*, NvmlDevice**) = nullptr;
  int (*clock_)(NvmlDevice*, unsigned, unsigned*) = nullptr;
  ReadOne power_ = nullptr;
  int (*temperature_)(NvmlDevice*, unsigned, unsigned*) = nullptr;
  int (*reasons_)(NvmlDevice*, unsigned long long*) = nullptr;
  ReadOne generation_ = nullptr, width_ = nullptr;
  int (*ecc_)(NvmlDevice*, int, int, unsigned long long*) = nullptr;
  int (*utilization_)(NvmlDevice*, Utilization*) = nullptr;
};

// A rank's GPU. Pointers are null if the GPU has no such counters or events.
struct GpuMonitor::Gpu {
  int rank = 0;
  std::string bus_id{};
  NvmlDevice* handle = nullptr;
  std::unique_ptr<GpuActivity> activity{};
  std::unique_ptr<GpuEvents> events{};
};

GpuMonitor::GpuMonitor(std::unique_ptr<Library> library, std::vector<Gpu> gpus)
    : library_(std::move(library)), gpus_(std::move(gpus)) {}

GpuMonitor::~GpuMonitor() { Stop(); }

// All GPUs are looked up before the thread starts, so that errors are reported once.
Result<std::unique_ptr<GpuMonitor>> GpuMonitor::Open(const MonitorLibraries& libraries,
                                                     std::vector<MonitoredRank> ranks) {
  FT_ASSIGN(auto library, Library::Open(libraries.monitor));
  std::vector<Gpu> gpus;
  for (const MonitoredRank& rank : ranks) {
    Gpu gpu{.rank = rank.rank};
    FT_ASSIGN(gpu.bus_id, BusIdOfDevice(libraries.driver, rank.device));
    FT_ASSIGN(gpu.handle, library->GpuAt(gpu.bus_id));
    gpu.activity = GpuActivity::Open(library->nvml(), gpu.handle);
    gpu.events = GpuEvents::Open(library->nvml(), gpu.handle);
    gpus.push_back(std::move(gpu));
  }
  return std::unique_ptr<GpuMonitor>(new GpuMonitor(std::move(library), std::move(gpus)));
}

std::string_view GpuMonitor::BusIdOf(int rank) const {
  for (const Gpu& gpu : gpus_) {
    if (gpu.rank == rank) return gpu.bus_id;
  }
  return {};
}

// All readings of all GPUs get the same time, so that they can be joined later.
std::vector<Counter> GpuMonitor::Read(std::int64_t time_ns) const {
  std::vector<Counter> counters;
  for (const Gpu& gpu : gpus_) {
    library_->Read(gpu.handle, gpu.rank, time_ns, counters);
    if (gpu.activity == nullptr) {
      library_->ReadUtilization(gpu.handle, gpu.rank, time_ns, counters);
    }
  }
  return counters;
}

std::vector<Counter> GpuMonitor::ReadActivity(std::int64_t time_ns) {
  std::vector<Counter> counters;
  for (const Gpu& gpu : gpus_) {
    if (gpu.activity != nullptr) gpu.activity->Read(gpu.rank, time_ns, counters);
  }
  return counters;
}

// Errors of one call are a nanosecond apart: the store keeps one point of a series for each time.
GpuMonitor::Events GpuMonitor::TakeEvents(std::int64_t time_ns) const {
  Events events;
  for (const Gpu& gpu : gpus_) {
    if (gpu.events == nullptr) continue;
    const GpuEvents::Taken taken = gpu.events->Take();
    events.memory_error = events.memory_error || taken.memory_error;
    std::int64_t at_ns = time_ns;
    for (const int xid : taken.xids) {
      events.xids.push_back({"gpu_xid", gpu.rank, -1, at_ns++, static_cast<double>(xid)});
    }
  }
  return events;
}

// Errors always. A memory error is counted at once, whether state is due or not.
std::vector<Counter> GpuMonitor::ReadAll(std::int64_t time_ns, bool activity, bool state) {
  Events events = TakeEvents(time_ns);
  std::vector<Counter> counters = std::move(events.xids);
  const auto add = [&counters](std::vector<Counter> more) {
    counters.insert(counters.end(), std::make_move_iterator(more.begin()),
                    std::make_move_iterator(more.end()));
  };
  if (activity) add(ReadActivity(time_ns));
  if (state || events.memory_error) add(Read(time_ns));
  return counters;
}

// Readings run without the lock, because `take` may block; only the wait for the next one holds it.
// The last reading has no activity: it may come too soon after the one before.
void GpuMonitor::Start(std::function<std::int64_t()> now,
                       std::function<void(std::vector<Counter>)> take, const MonitorPace& pace) {
  thread_ = std::thread([this, now = std::move(now), take = std::move(take), pace] {
    const auto read = [&](bool activity, bool state) {
      std::vector<Counter> counters = ReadAll(now(), activity, state);
      if (!counters.empty()) take(std::move(counters));
    };
    std::unique_lock<std::mutex> lock(mutex_);
    std::int64_t readings = 0;
    do {
      lock.unlock();
      const bool state = readings % pace.state_every == 0;
      read(/*activity=*/state || readings < pace.fine_readings, state);
      ++readings;
      lock.lock();
    } while (!woken_.wait_for(lock, std::chrono::nanoseconds(pace.interval_ns),
                              [this] { return stopping_; }));
    lock.unlock();
    read(/*activity=*/false, /*state=*/true);
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
