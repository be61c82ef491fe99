#include "runtime/device/cuda_plugin.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdlib>

namespace foretrain {
namespace {

constexpr const char* kFileName = "libforetrain_cuda.so";
constexpr const char* kFunction = "foretrain_cuda_device_api";
constexpr const char* kVersionFunction = "foretrain_cuda_runtime_version";

CudaDevice Without(std::string why) { return {nullptr, 0, std::move(why), 0}; }

std::string LoaderText() {
  const char* const text = dlerror();
  return text != nullptr ? text : "the loader gave no reason";
}

// The plugin is linked with CUDA's libraries, which take tenths of a second to load. Machines
// without a driver skip that.
bool HasDriver(const std::string& name) {
  void* const driver = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) return false;
  dlclose(driver);
  return true;
}

// The table's version is checked before any other entry is used: a plugin of another build may have
// another layout.
CudaDevice LoadFile(const std::string& file) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Without("the plugin does not load: " + LoaderText());
  using Function = const FtDeviceApi* (*)();
  const auto function = reinterpret_cast<Function>(dlsym(library, kFunction));
  const FtDeviceApi* const api = function != nullptr ? function() : nullptr;
  if (api == nullptr) {
    return Without(file + " is no plugin of foretrain: it has no function " + kFunction);
  }
  if (api->version != FT_DEVICE_API_VERSION) {
    return Without(file + " is of another build of foretrain: its table has version " +
                   std::to_string(api->version) + ", this one needs " +
                   std::to_string(FT_DEVICE_API_VERSION) + "; build both together");
  }
  std::array<char, 256> why{};
  std::int32_t count = 0;
  if (api->device_count(&count, why.data(), why.size()) != FT_OK || count < 1) {
    const std::string text = why.data();
    return Without("the driver shows no device: " + (text.empty() ? "it gave no reason" : text));
  }
  const auto version = reinterpret_cast<int (*)()>(dlsym(library, kVersionFunction));
  return {api, count, "", version != nullptr ? version() : 0};
}

}  // namespace

// The link /proc/self/exe names the executable however it was started. If it cannot be read, no
// place is searched.
PluginPlaces UsualPluginPlaces() {
  PluginPlaces places;
  std::array<char, PATH_MAX> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) return places;
  const std::string executable(path.data(), static_cast<std::size_t>(length));
  const std::string folder = executable.substr(0, executable.rfind('/'));
  places.files = {folder + "/" + kFileName, folder + "/../lib/" + kFileName};
  return places;
}

void LoadKernelsEagerly() { setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0); }

// The first file that exists decides. If it does not load, the next is not tried, since it may be
// of another build.
CudaDevice LoadCudaDevice(const PluginPlaces& places) {
  if (!places.driver.empty() && !HasDriver(places.driver)) {
    return Without("there is no NVIDIA driver (" + places.driver + " was not found)");
  }
  for (const std::string& file : places.files) {
    if (access(file.c_str(), F_OK) == 0) return LoadFile(file);
  }
  const std::string first = places.files.empty() ? kFileName : places.files.front();
  return Without("this build has no CUDA plugin (" + first +
                 " was not found); build preset gpu or native where nvcc is");
}

}  // namespace foretrain
