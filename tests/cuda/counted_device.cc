#include "tests/cuda/counted_device.h"

#include <utility>

#include "tests/cuda/plugin.h"

namespace foretrain {
namespace {

std::map<FtKernel, ptx::Counts> counts_of;

// Sum over all kernels that have ended.
ptx::Counts AllCounts() {
  using Get = void (*)(ptx::Counts*);
  static const auto get = reinterpret_cast<Get>(FunctionOfRuntime("cudaFakeCounts"));
  ptx::Counts all;
  get(&all);
  return all;
}

template <auto entry, class Arguments>
FtStatus Counted(FtQueue* queue, const Arguments* arguments, FtKernel kernel) {
  const FtDeviceApi& device = CudaPlugin();
  device.queue_synchronize(queue);
  const ptx::Counts before = AllCounts();
  const FtStatus status = (device.*entry)(queue, arguments);
  device.queue_synchronize(queue);
  counts_of[kernel] += AllCounts() - before;
  return status;
}

}  // namespace

const FtDeviceApi& CountedCudaPlugin() {
  static const FtDeviceApi counted = [] {
    reinterpret_cast<void (*)()>(FunctionOfRuntime("cudaFakeCountSectors"))();
    FtDeviceApi api = CudaPlugin();
#define FT_COUNTED(NAME, entry, Arguments)                           \
  api.entry = [](FtQueue* queue, const Arguments* g) {               \
    return Counted<&FtDeviceApi::entry>(queue, g, FT_KERNEL_##NAME); \
  };
    FT_KERNEL_ENTRIES(FT_COUNTED)
#undef FT_COUNTED
    return api;
  }();
  return counted;
}

std::map<FtKernel, ptx::Counts> TakeCounts() { return std::exchange(counts_of, {}); }

}  // namespace foretrain
