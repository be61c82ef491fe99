// Samples the hardware counters of a run's devices (entries counters_* of base/device_api.h) into
// counters of the run. If a call fails, sampling ends with one sentence and the run continues.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "base/device_api.h"
#include "profiler/clock_fit.h"
#include "traces/run.h"

namespace foretrain {

// A device whose counters are sampled, and the rank that has its series.
struct SampledDevice {
  int device = 0;
  int rank = 0;
};

struct CounterOptions {
  std::vector<SampledDevice> devices{};              // empty: nothing is sampled
  std::int64_t interval_ns = 1'000'000;              // between samples
  std::function<void(std::vector<Counter>)> take{};  // gets the samples, on the draining thread
};

class CounterSampling {
 public:
  // Prepares the devices. `api` outlives this. Without devices nothing is ever called.
  //
  //   records  the device records its work, without which it samples nothing
  CounterSampling(const FtDeviceApi& api, CounterOptions options, bool records);
  CounterSampling(const CounterSampling&) = delete;
  CounterSampling& operator=(const CounterSampling&) = delete;

  // The window opens or closes.
  void Start();
  void Stop();
  // Hands on what was sampled since the last call, with times by `fit`. The first call after Stop
  // takes the rest; later ones do nothing.
  void Drain(const ClockFit& fit);

  // Reason why nothing is sampled, or nothing more; empty while all is well. Safe from any thread.
  std::string Problem() const;

 private:
  // Returns whether the call succeeded. The first that does not ends all further calls.
  template <class Entry, class... Arguments>
  bool Call(const char* ends, Entry entry, Arguments... arguments);

  const FtDeviceApi& api_;
  const CounterOptions options_;
  bool is_ready_ = false;  // the device may be called
  bool stopped_ = false;
  std::vector<FtCounterSample> samples_;
  mutable std::mutex mutex_;
  std::string problem_;  // guarded by mutex_
};

}  // namespace foretrain
