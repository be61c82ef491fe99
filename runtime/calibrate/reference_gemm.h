// One GEMM by which the machine itself is measured, so that a forecast made on another day, or
// beside other work, can be told from a wrong one. Leaves out the forecast.
#pragma once

#include "base/device_api.h"
#include "base/result.h"
#include "runtime/calibrate/samples.h"
#include "runtime/run_clock.h"
#include "sim/cost/device_profile.h"

namespace foretrain {

inline constexpr std::int64_t kReferenceGemmSize = 512;

// Times the reference GEMM, 512 x 512 x 512 in fp32, on `ranks` threads at once.
//
//   ranks    threads that each multiply matrices of their own, as many as the run has ranks; >= 1
//   seconds  for how long; > 0. At least one multiplication a thread is timed.
//
// Returns the spread of one multiplication's time over all threads. Errors: the device's.
Result<Spread> MeasureReferenceGemm(const FtDeviceApi& api, int device, RunClock& clock, int ranks,
                                    double seconds);

// The reference GEMM's time in the profile with `ranks` busy ranks: straight between measured
// numbers, that of the nearest beyond them; 0 where none was measured.
double ReferenceSeconds(const DeviceProfile& profile, int ranks);

// How much slower the machine is now than when the profile was measured: time now over time then,
// with `ranks` busy ranks, both as means over a stretch of time; 1 where the profile has no
// reference. Takes `seconds`.
Result<double> MeasureDrift(const FtDeviceApi& api, int device, RunClock& clock,
                            const DeviceProfile& profile, int ranks, double seconds = 0.3);

}  // namespace foretrain
