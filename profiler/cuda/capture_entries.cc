#include "profiler/cuda/capture_entries.h"

#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <span>
#include <string>

#include "profiler/cuda/ranges.h"
#if FORETRAIN_HAVE_CUPTI
#include "profiler/cuda/cuda_capture.h"
#endif

namespace foretrain {
namespace {

#if FORETRAIN_HAVE_CUPTI
using Recorder = CudaCapture;

bool LoadThisCupti(CuptiTable& table, char* why, std::size_t n) {
  static const std::string versioned = "libcupti.so." + std::to_string(CUDART_VERSION / 1000);
  const char* const names[] = {versioned.c_str(), "libcupti.so"};
  return LoadCupti(names, std::size(names), table, why, n);
}

Recorder& TheRecorder() {
  // Never destroyed: CUPTI's threads may outlive static objects.
  static Recorder& recorder = *new Recorder(
      {&LoadThisCupti, [](const char* name) -> const char* { return std::getenv(name); }});
  return recorder;
}
#else
// Windows and ranges for other tools need no CUPTI.
struct Recorder {
  static FtStatus Open(std::int32_t, char* why, std::size_t n) {
    std::snprintf(why, n, "this plugin was built without CUPTI's headers");
    return FT_UNSUPPORTED;
  }
  static FtStatus Start(char*, std::size_t) { return FT_OK; }
  static void Stop() {}
  static FtStatus Clock(std::int64_t*, char*, std::size_t) { return FT_UNSUPPORTED; }
  static FtStatus Push(const FtOpTag&) { return FT_OK; }
  static FtStatus Pop() { return FT_OK; }
  static void HandsOut(const void*) {}
  struct Counters {
    static FtStatus Start(char*, std::size_t) { return FT_UNSUPPORTED; }
    static FtStatus Stop(char*, std::size_t) { return FT_UNSUPPORTED; }
    static FtStatus Drain(FtCounterSample*, std::int64_t, std::int64_t* count, char*, std::size_t) {
      *count = 0;
      return FT_UNSUPPORTED;
    }
  };
  static FtStatus OpenCounters(std::span<const std::int32_t>, std::int64_t, char* why,
                               std::size_t n) {
    return Open(0, why, n);
  }
  static Counters counters() { return {}; }
  static FtStatus Drain(bool, FtActivity*, std::int64_t, std::int64_t* count, std::int64_t* dropped,
                        char*, std::size_t) {
    *count = *dropped = 0;
    return FT_OK;
  }
};

Recorder& TheRecorder() {
  static Recorder recorder;
  return recorder;
}
#endif

// Never destroyed, because a tool's domain must outlive the launching threads.
Ranges& TheRanges() {
  static Ranges& ranges = *new Ranges;
  return ranges;
}

// Clears the runtime's last error too, which the thread's next launch would report otherwise.
FtStatus Told(cudaError_t error, const char* what, char* why, std::size_t n) {
  if (error == cudaSuccess) return FT_OK;
  static_cast<void>(cudaGetLastError());
  std::snprintf(why, n, "%s failed with %d", what, static_cast<int>(error));
  return FT_FAILED;
}

FtStatus Open(std::int32_t level, char* why, std::size_t n) {
  TheRanges().Open();
  return TheRecorder().Open(level, why, n);
}
// cudaProfilerStart opens a window for other tools; without one the call does nothing.
FtStatus Start(char* why, std::size_t n) {
  const FtStatus status = TheRecorder().Start(why, n);
  return status == FT_OK ? Told(cudaProfilerStart(), "cudaProfilerStart", why, n) : status;
}
FtStatus Stop(char* why, std::size_t n) {
  TheRecorder().Stop();
  return Told(cudaProfilerStop(), "cudaProfilerStop", why, n);
}
FtStatus Clock(std::int64_t* now_ns, char* why, std::size_t n) {
  return TheRecorder().Clock(now_ns, why, n);
}
std::int32_t WantsNames() { return TheRanges().IsShown() ? 1 : 0; }
FtStatus Push(const FtOpTag* tag) {
  TheRanges().Push(tag->name);
  return TheRecorder().Push(*tag);
}
FtStatus Pop() {
  TheRanges().Pop();
  return TheRecorder().Pop();
}
FtStatus Drain(std::int32_t idle, FtActivity* out, std::int64_t capacity, std::int64_t* count,
               std::int64_t* dropped, char* why, std::size_t n) {
  return TheRecorder().Drain(idle != 0, out, capacity, count, dropped, why, n);
}

// Counting the devices initializes the driver, which CUPTI needs to name a device's chip.
FtStatus OpenCounters(const std::int32_t* devices, std::int32_t count, std::int64_t interval_ns,
                      char* why, std::size_t n) {
  int all = 0;
  const FtStatus status = Told(cudaGetDeviceCount(&all), "cudaGetDeviceCount", why, n);
  if (status != FT_OK) return status;
  return TheRecorder().OpenCounters({devices, static_cast<std::size_t>(count)}, interval_ns, why,
                                    n);
}
FtStatus StartCounters(char* why, std::size_t n) { return TheRecorder().counters().Start(why, n); }
FtStatus StopCounters(char* why, std::size_t n) { return TheRecorder().counters().Stop(why, n); }
FtStatus DrainCounters(FtCounterSample* out, std::int64_t capacity, std::int64_t* count, char* why,
                       std::size_t n) {
  return TheRecorder().counters().Drain(out, capacity, count, why, n);
}

void* (*native_queue)(FtQueue*) = nullptr;  // the device's own

// A caller asks for the stream once for each op that a library computes, on the op's thread.
void* NativeQueue(FtQueue* queue) {
  void* const stream = native_queue(queue);
  TheRecorder().HandsOut(stream);
  return stream;
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
  api.counters_open = &OpenCounters;
  api.counters_start = &StartCounters;
  api.counters_stop = &StopCounters;
  api.counters_drain = &DrainCounters;
  native_queue = api.native_queue;
  api.native_queue = &NativeQueue;
}

}  // namespace foretrain
