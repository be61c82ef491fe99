#include "runtime/device/cuda_driver.h"

#include <dlfcn.h>

#include <array>
#include <cstddef>

namespace foretrain {
namespace {

// Values of CUdevice_attribute, which are stable.
enum Attribute : int {
  kClockKhz = 13,
  kMultiprocessors = 16,
  kMemoryClockKhz = 36,
  kMemoryBusBits = 37,
  kL2Bytes = 38,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
};

// The driver's library, closed on destruction.
class Library {
 public:
  explicit Library(const std::string& file)
      : handle_(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {}
  ~Library() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  bool open() const { return handle_ != nullptr; }
  template <class Function>
  bool Find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(dlsym(handle_, name));
    return function != nullptr;
  }

 private:
  void* handle_;
};

// The driver's functions, with CUresult, CUdevice and the enums as int, which they are in its ABI.
// Zero is success.
struct Calls {
  int (*init)(unsigned) = nullptr;
  int (*version)(int*) = nullptr;
  int (*count)(int*) = nullptr;
  int (*get)(int*, int) = nullptr;
  int (*name)(char*, int, int) = nullptr;
  int (*attribute)(int*, int, int) = nullptr;
  int (*memory)(std::size_t*, int) = nullptr;
  int (*error_string)(int, const char**) = nullptr;

  bool Load(const Library& library) {
    return library.Find("cuInit", init) && library.Find("cuDriverGetVersion", version) &&
           library.Find("cuDeviceGetCount", count) && library.Find("cuDeviceGet", get) &&
           library.Find("cuDeviceGetName", name) &&
           library.Find("cuDeviceGetAttribute", attribute) &&
           library.Find("cuDeviceTotalMem_v2", memory) &&
           library.Find("cuGetErrorString", error_string);
  }

  Result<void> Check(int status, const std::string& what) const {
    if (status == 0) return {};
    const char* text = nullptr;
    if (error_string(status, &text) != 0 || text == nullptr) text = "an unknown error";
    return Fail(ErrorCode::kUnsupported, "the NVIDIA driver, " + what + ": " + text);
  }
};

// `ordinal` is CUDA's number of the device; the driver's functions take the handle that it gives
// for it.
Result<GpuFacts> FactsOf(const Calls& calls, int ordinal) {
  const std::string what = "device " + std::to_string(ordinal);
  int device = 0;
  FT_TRY(calls.Check(calls.get(&device, ordinal), what));
  GpuFacts gpu;
  std::array<char, 256> name{};
  FT_TRY(calls.Check(calls.name(name.data(), static_cast<int>(name.size()), device), what));
  gpu.name = name.data();
  std::size_t bytes = 0;
  FT_TRY(calls.Check(calls.memory(&bytes, device), what));
  gpu.memory_bytes = static_cast<std::int64_t>(bytes);
  // Attributes that the driver does not know stay 0.
  const auto ask = [&](Attribute attribute) {
    int value = 0;
    return calls.attribute(&value, attribute, device) == 0 ? value : 0;
  };
  constexpr int kKhzPerMhz = 1000;
  gpu.capability_major = ask(kCapabilityMajor);
  gpu.capability_minor = ask(kCapabilityMinor);
  gpu.multiprocessors = ask(kMultiprocessors);
  gpu.clock_mhz = ask(kClockKhz) / kKhzPerMhz;
  gpu.memory_clock_mhz = ask(kMemoryClockKhz) / kKhzPerMhz;
  gpu.memory_bus_bits = ask(kMemoryBusBits);
  gpu.l2_bytes = ask(kL2Bytes);
  return gpu;
}

}  // namespace

Result<CudaDriver> AskCudaDriver(const std::string& file) {
  const Library library(file);
  if (!library.open()) {
    return Fail(ErrorCode::kUnsupported, "there is no NVIDIA driver (" + file + " was not found)");
  }
  Calls calls;
  if (!calls.Load(library)) {
    return Fail(ErrorCode::kUnsupported, file + " is no NVIDIA driver that foretrain knows");
  }
  FT_TRY(calls.Check(calls.init(0), "start"));
  CudaDriver driver;
  FT_TRY(calls.Check(calls.version(&driver.version), "version"));
  int count = 0;
  FT_TRY(calls.Check(calls.count(&count), "number of devices"));
  for (int i = 0; i < count; ++i) {
    FT_ASSIGN(GpuFacts gpu, FactsOf(calls, i));
    driver.gpus.push_back(std::move(gpu));
  }
  return driver;
}

// Access is asked for each ordered pair, because the driver reports it by direction. One pair
// without access is enough for false.
bool GpusReadEachOther(int gpus, const std::string& file) {
  const Library library(file);
  Calls calls;
  int (*can_access)(int*, int, int) = nullptr;
  if (!library.open() || !calls.Load(library) ||
      !library.Find("cuDeviceCanAccessPeer", can_access) || calls.init(0) != 0) {
    return false;
  }
  for (int reader = 0; reader < gpus; ++reader) {
    for (int other = 0; other < gpus; ++other) {
      int from = 0, to = 0, can = 0;
      if (reader == other) continue;
      if (calls.get(&from, reader) != 0 || calls.get(&to, other) != 0) return false;
      if (can_access(&can, from, to) != 0 || can == 0) return false;
    }
  }
  return true;
}

std::string CudaVersionText(int version) {
  if (version <= 0) return "none";
  // The driver encodes 12.4 as 12040.
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace foretrain
