// The job of a training run: what its options ask for, with everything that they leave to the
// machine and the profile.
#pragma once

#include "app/forecast/forecasting.h"
#include "app/training/training_options.h"
#include "base/device_api.h"
#include "base/result.h"
#include "runtime/data/token_data.h"
#include "runtime/processes/process_group.h"
#include "runtime/run/trainer.h"

namespace foretrain {

// The CPU, unless the options name a device.
const FtDeviceApi& DeviceOf(const TrainingOptions& options);

// The job, still without its program, checkpoints and evaluation. Errors: those of the files of
// weights.
Result<TrainJob> JobOf(const ForecastContext& context, const Plan& plan,
                       const TrainingOptions& options);

// Compares build, program, data and settings with those of rank 0's process: processes that differ
// would train on in silence, each another model. Errors: kInvalidArgument, naming what differs;
// those of ProcessGroup::Agree. O(tokens).
//
//   evaluation  held-out data; null: none
Result<void> AgreeOnJob(ProcessGroup& group, const TrainJob& job, const TrainingOptions& options,
                        const TokenData& data, const TokenData* evaluation);

}  // namespace foretrain
