// Training through the plugin compared with the CPU's kernels.
#pragma once

#include "sim/config/plan/plan.h"
#include "sim/config/plan/preset.h"

namespace foretrain {

// Largest difference of a loss, relative. The kernels add the same fp32 products in another order;
// 16-bit numbers are rounded in another.
constexpr double kFp32OnCudaTolerance = 1e-6, kBf16OnCudaTolerance = 1e-3;

// Trains two steps on both.
void ExpectTrainsAsOnTheCpu(const ModelSpec& model, const Plan& plan, double tolerance);

// The same with the preset's plan at toy size on two ranks. Skips the test if there is none.
void ExpectPresetTrainsAsOnTheCpu(const Preset& preset, Precision precision, double tolerance);

}  // namespace foretrain
