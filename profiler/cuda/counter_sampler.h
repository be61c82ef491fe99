// Samples hardware counters of CUDA devices by CUPTI's PM sampling: the GPU itself reads them at a
// fixed interval, whatever runs, and no kernel is repeated or delayed.
//
//   Open ─ chip ─► CounterConfig ─► Enable, SetConfig        Start ─► GPU ─ samples ─► its buffer
//                                                            Drain ─► decode ─► values ─► caller
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/device_api.h"
#include "profiler/cuda/counter_config.h"

namespace foretrain {

#if FT_HAVE_PM_SAMPLING

// CUPTI stamps samples with "CPU based" times and does not say of which clock [1]. Converts one to
// CLOCK_MONOTONIC, the clock of all other records: the host clock that is nearest to it is meant,
// which must be less than an hour away. False if there is none. All times in ns.
//
// [1] CUPTI documentation, "CUPTI PM Sampling API", section Usage
bool ToMonotonic(std::int64_t monotonic_now_ns, std::int64_t realtime_now_ns,
                 std::int64_t& time_ns);

// One device. Its object at CUPTI lives as long as this.
class DeviceSampler {
 public:
  DeviceSampler(const SamplingTable& table, std::int32_t device)
      : table_(table), device_(device), config_(table) {}
  ~DeviceSampler();
  DeviceSampler(const DeviceSampler&) = delete;
  DeviceSampler& operator=(const DeviceSampler&) = delete;

  // If a call is false, `why` holds a sentence without full stop.
  bool Open(std::int64_t interval_ns, char* why, std::size_t n);
  bool Start(char* why, std::size_t n);
  bool Stop(char* why, std::size_t n);
  // Appends all samples that the GPU has taken.
  bool Drain(std::vector<FtCounterSample>& out, char* why, std::size_t n);

 private:
  bool Configure(const char* chip, std::int64_t interval_ns, char* why, std::size_t n);
  bool MakeImage(char* why, std::size_t n);
  bool ClearImage(char* why, std::size_t n);
  bool Read(std::vector<FtCounterSample>& out, char* why, std::size_t n);

  const SamplingTable& table_;
  const std::int32_t device_;
  CounterConfig config_;
  CUpti_PmSampling_Object* object_ = nullptr;  // null until Open
  bool running_ = false;
  std::vector<std::uint8_t> image_;  // decoded samples, in CUPTI's format
  std::vector<double> values_;
};

// All devices of a process. One thread at a time.
class CounterSampler {
 public:
  // Once in a process: CUPTI keeps its objects, and ending them could end the recording of kernels
  // too. `library`: of LoadCupti.
  FtStatus Open(void* library, std::span<const std::int32_t> devices, std::int64_t interval_ns,
                char* why, std::size_t n) noexcept;
  FtStatus Start(char* why, std::size_t n) noexcept;
  FtStatus Stop(char* why, std::size_t n) noexcept;
  FtStatus Drain(FtCounterSample* out, std::int64_t capacity, std::int64_t* count, char* why,
                 std::size_t n) noexcept;

 private:
  SamplingTable table_;
  bool was_opened_ = false;
  std::vector<std::unique_ptr<DeviceSampler>> devices_;  // empty if Open failed
  std::vector<FtCounterSample> waiting_;                 // decoded and not yet handed out
};

#else

// Headers of CUDA before 12.6.
class CounterSampler {
 public:
  FtStatus Open(void* library, std::span<const std::int32_t> devices, std::int64_t interval_ns,
                char* why, std::size_t n) noexcept;
  FtStatus Start(char*, std::size_t) noexcept { return FT_UNSUPPORTED; }
  FtStatus Stop(char*, std::size_t) noexcept { return FT_UNSUPPORTED; }
  FtStatus Drain(FtCounterSample*, std::int64_t, std::int64_t* count, char*, std::size_t) noexcept {
    *count = 0;
    return FT_UNSUPPORTED;
  }
};

#endif

}  // namespace foretrain
