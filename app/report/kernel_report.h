// The output of `validate --kernels`: scores by device, kind and format, as text or JSON.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/cost/measured/kernel_profile.h"
#include "sim/validate/kernels/score_kernels.h"

namespace foretrain {

// Scores of one table's rows; `left_out` are those of forecasts without the row's own device, empty
// if they were not made. `reasons` counts the rows without a forecast by reason.
struct KernelReport {
  std::vector<KernelScore> scores, left_out;
  std::vector<std::pair<std::string, int>> reasons;
};

// `tables` and `predictions` are parallel.
KernelReport ReportOf(std::span<const TimingTable> tables,
                      std::span<const std::vector<KernelPrediction>> predictions,
                      std::span<const std::vector<KernelPrediction>> without_device);

std::string KernelReportText(const KernelReport& report);
std::string KernelReportJson(const KernelReport& report);

// Errors of the profiles' own fits, one line for each device, kind and format.
std::string KernelFitText(std::span<const KernelProfile> profiles);

}  // namespace foretrain
