// Kernels of the tests' CUDA runtime: what nvcc's host code registers, and launches.
#include <cstdio>

#include "tests/plugins/cuda/cudart/device.h"

namespace foretrain::cudart {
namespace {

constexpr std::size_t kSharedWithoutRequest = std::size_t{48} << 10;

struct Function {
  std::string name;               // mangled
  std::size_t dynamic_bytes = 0;  // granted by cudaFuncSetAttribute
};
std::mutex mutex;
// By the address of the host function; guarded by mutex. Never destroyed, as is the next: the
// report at exit reads them.
auto& functions = *new std::map<const void*, Function>;
auto& launched = *new std::map<std::string, Launched>;  // by kernel; guarded by mutex

std::atomic<bool> counts_sectors = false;

struct Configuration {
  dim3 grid, block;
  std::size_t dynamic_bytes = 0;
  cudaStream_t stream = nullptr;
};
thread_local std::vector<Configuration> configurations;

// Arguments outlive the call that launches, as the work is done later.
struct Arguments {
  Arguments(const ptx::Kernel& kernel, void** from) {
    for (std::size_t i = 0; i < kernel.parameter_bytes.size(); ++i) {
      const auto* const bytes = static_cast<const std::byte*>(from[i]);
      values.emplace_back(bytes, bytes + kernel.parameter_bytes[i]);
    }
    for (const auto& value : values) pointers.push_back(value.data());
  }
  std::vector<std::vector<std::byte>> values;
  std::vector<const std::byte*> pointers;
};

int ErrorOf(simt::Fault fault) {
  switch (fault) {
    case simt::Fault::kMisaligned:
      return cudaErrorMisalignedAddress;
    case simt::Fault::kIllegalAddress:
      return cudaErrorIllegalAddress;
    default:
      return cudaErrorLaunchFailure;
  }
}

void Execute(const ptx::Kernel& kernel, dim3 grid, dim3 block, std::size_t dynamic_bytes, int gpu,
             const Arguments& arguments) {
  std::atomic<int>& error = GpuOf(gpu).error;
  if (error != 0) return;
  const Settings& settings = TheSettings();
  ptx::Options options;
  options.order = settings.order;
  options.finds_races = settings.races;
  options.counts_sectors = counts_sectors;
  if (settings.mutant_entry == kernel.name) options.mutated_site = settings.mutant_site;
  options.memory_at = [gpu](std::uintptr_t address) { return MemoryAt(gpu, address); };
  ptx::Counts counts;
  const simt::Outcome outcome =
      ptx::Execute(kernel, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, dynamic_bytes,
                   arguments.pointers.data(), options, counts);
  {
    const std::lock_guard lock(mutex);
    launched[kernel.name].counts += counts;
  }
  if (outcome.fault == simt::Fault::kNone) return;
  Complain(outcome.sentence);
  error = ErrorOf(outcome.fault);
}

bool IsLaunchable(dim3 grid, dim3 block, const ptx::Kernel& kernel) {
  constexpr unsigned kMostBlocks = 65535;
  return grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= 0x7fffffff && grid.y <= kMostBlocks &&
         grid.z <= kMostBlocks && block.x > 0 && block.y > 0 && block.z > 0 &&
         std::size_t{block.x} * block.y * block.z <= kernel.max_threads && block.z <= 64;
}

cudaError_t LaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                         std::size_t dynamic_bytes, cudaStream_t handle) {
  if (const cudaError_t error = Begin("cudaLaunchKernel"); error != cudaSuccess) return error;
  Function launches;
  {
    const std::lock_guard lock(mutex);
    const auto found = functions.find(function);
    if (found == functions.end()) return Failed(cudaErrorInvalidDeviceFunction);
    launches = found->second;
    ++launched[launches.name].launches;
  }
  const ptx::Kernel* const kernel = ptx::FindKernel(launches.name);
  if (kernel == nullptr) {
    Complain("no translated PTX has the kernel " + launches.name);
    return Failed(cudaErrorInvalidDeviceFunction);
  }
  const auto stream = TheState().streams.Find(handle);
  if (handle == nullptr) Complain("a launch on the legacy stream: " + kernel->name);
  if (stream == nullptr || stream->gpu() != CurrentGpu()) {
    return Failed(cudaErrorInvalidResourceHandle);
  }
  if (!IsLaunchable(grid, block, *kernel)) return Failed(cudaErrorInvalidConfiguration);
  if (dynamic_bytes > launches.dynamic_bytes &&
      kernel->shared_bytes + dynamic_bytes > kSharedWithoutRequest) {
    return Failed(cudaErrorInvalidValue);
  }
  auto held = std::make_shared<Arguments>(*kernel, arguments);
  const ObservedCall call(FakeCall::kLaunchKernel, handle);
  return Give(handle, {[kernel, grid, block, dynamic_bytes, gpu = stream->gpu(), held] {
                         Execute(*kernel, grid, block, dynamic_bytes, gpu, *held);
                       },
                       {.kind = FakeWorkKind::kKernel,
                        .name = kernel->name.c_str(),
                        .grid = {grid.x, grid.y, grid.z},
                        .block = {block.x, block.y, block.z},
                        .registers = kRegisters,
                        .static_shared_bytes = kernel->shared_bytes,
                        .dynamic_shared_bytes = static_cast<unsigned>(dynamic_bytes)}});
}

}  // namespace

Launched LaunchedOf(const std::string& kernel) {
  const std::lock_guard lock(mutex);
  const auto found = launched.find(kernel);
  return found != launched.end() ? found->second : Launched{};
}

// The names are nvcc's.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {

// For tests: lets kernels count sectors from now on, which takes time.
void cudaFakeCountSectors() { counts_sectors = true; }

// For tests: the sum over all kernels that have ended.
void cudaFakeCounts(ptx::Counts* sum) {
  const std::lock_guard lock(mutex);
  *sum = {};
  for (const auto& [name, each] : launched) *sum += each.counts;
}

void** __cudaRegisterFatBinary(void* /*binary*/) {
  static void* handle;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void** /*handle*/) {}
void __cudaUnregisterFatBinary(void** /*handle*/) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
void __cudaRegisterFunction(void** /*handle*/, const char* function, char* /*name*/,
                            const char* device_name, int, uint3*, uint3*, dim3*, dim3*, int*) {
  const std::lock_guard lock(mutex);
  functions[function] = {ptx::NameIn(device_name)};
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t dynamic_bytes,
                                     struct CUstream_st* stream) {
  configurations.push_back({grid, block, dynamic_bytes, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* dynamic_bytes,
                                       void* stream) {
  const Configuration last = configurations.back();
  configurations.pop_back();
  *grid = last.grid;
  *block = last.block;
  *dynamic_bytes = last.dynamic_bytes;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  return cudaSuccess;
}

// From CUDA 13 on, host code launches by a handle; here it is the function's address.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               std::size_t dynamic_bytes, cudaStream_t stream) {
  return LaunchKernel(kernel, grid, block, arguments, dynamic_bytes, stream);
}
cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             std::size_t dynamic_bytes, cudaStream_t stream) {
  return LaunchKernel(function, grid, block, arguments, dynamic_bytes, stream);
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  if (const cudaError_t error = Begin(__func__); error != cudaSuccess) return error;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0) {
    return Failed(cudaErrorInvalidValue);
  }
  const std::lock_guard lock(mutex);
  const auto found = functions.find(function);
  if (found == functions.end()) return Failed(cudaErrorInvalidDeviceFunction);
  const ptx::Kernel* const kernel = ptx::FindKernel(found->second.name);
  const auto bytes = static_cast<std::size_t>(value);
  if (kernel == nullptr || bytes + kernel->shared_bytes > TheSettings().shared_bytes()) {
    return Failed(cudaErrorInvalidValue);
  }
  found->second.dynamic_bytes = bytes;
  return cudaSuccess;
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)

}  // namespace foretrain::cudart
