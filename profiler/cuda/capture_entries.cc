#include "profiler/cuda/capture_entries.h"

#if FORETRAIN_HAVE_CUPTI
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <iterator>
#include <string>

#include "profiler/cuda/cuda_capture.h"

namespace foretrain {
namespace {

bool LoadThisCupti(CuptiTable& table, char* why, std::size_t n) {
  static const std::string versioned = "libcupti.so." + std::to_string(CUPTI_API_VERSION / 10'000);
  const char* const names[] = {versioned.c_str(), "libcupti.so"};
  return LoadCupti(names, std::size(names), table, why, n);
}

// The error as a number. Also clears the runtime's last error, which the thread's next launch would
// report otherwise.
int Taken(cudaError_t error) {
  if (error != cudaSuccess) static_cast<void>(cudaGetLastError());
  return static_cast<int>(error);
}

CudaCapture& TheCapture() {
  // Never destroyed: CUPTI's threads may outlive static objects.
  static CudaCapture& capture = *new CudaCapture(
      {&LoadThisCupti, [](const char* name) -> const char* { return std::getenv(name); },
       [] { return Taken(cudaProfilerStart()); }, [] { return Taken(cudaProfilerStop()); }});
  return capture;
}

// The table has plain functions, so these pass the calls on to the process's one capture.
FtStatus Open(std::int32_t level, char* why, std::size_t n) {
  return TheCapture().Open(level, why, n);
}
FtStatus Start(char* why, std::size_t n) { return TheCapture().Start(why, n); }
FtStatus Stop(char* why, std::size_t n) { return TheCapture().Stop(why, n); }
FtStatus Clock(std::int64_t* now_ns, char* why, std::size_t n) {
  return TheCapture().Clock(now_ns, why, n);
}
std::int32_t WantsNames() { return TheCapture().WantsNames() ? 1 : 0; }
FtStatus Push(const FtOpTag* tag) { return TheCapture().Push(*tag); }
FtStatus Pop() { return TheCapture().Pop(); }
FtStatus Drain(std::int32_t idle, FtActivity* out, std::int64_t capacity, std::int64_t* count,
               std::int64_t* dropped, char* why, std::size_t n) {
  return TheCapture().Drain(idle != 0, out, capacity, count, dropped, why, n);
}

}  // namespace

void SetCudaCaptureEntries(FtDeviceApi& api) {
  api.capture_open = &Open;
  api.capture_start = &Start;
  api.capture_stop = &Stop;
  api.capture_clock = &Clock;
  api.capture_wants_names = &WantsNames;
  api.capture_push = &Push;
  api.capture_pop = &Pop;
  api.capture_drain = &Drain;
}

}  // namespace foretrain

#else

namespace foretrain {

void SetCudaCaptureEntries(FtDeviceApi&) {}

}  // namespace foretrain

#endif
