// A reference GEMM that measures the machine itself. It tells a wrong prediction from a machine
// that is slower today or busy with other work.
#pragma once

#include "base/device_api.h"
#include "base/result.h"
#include "runtime/calibrate/samples.h"
#include "runtime/run/run_clock.h"
#include "sim/cost/profile/device_profile.h"

namespace foretrain {

inline constexpr std::int64_t kReferenceGemmSize = 512;

// Times the reference GEMM, 512 x 512 x 512 in fp32, on `ranks` threads at once.
//
//   ranks    threads with matrices of their own, as many as the run has ranks; >= 1
//   seconds  duration; > 0. Each thread times at least one GEMM.
//
// Returns the spread of one GEMM's time over all threads. Errors: the device's.
Result<Spread> MeasureReferenceGemm(const FtDeviceApi& api, int device, RunClock& clock, int ranks,
                                    double seconds);

// Time of the reference GEMM in the profile with `ranks` busy ranks: interpolated between measured
// numbers of ranks, constant beyond them, 0 if none was measured.
double ReferenceSeconds(const DeviceProfile& profile, int ranks);

// Slowdown of the machine since the profile was measured: mean time now over mean time then, with
// `ranks` busy ranks. 1 if the profile has no reference. Takes `seconds`.
Result<double> MeasureDrift(const FtDeviceApi& api, int device, RunClock& clock,
                            const DeviceProfile& profile, int ranks, double seconds = 0.3);

}  // namespace foretrain
