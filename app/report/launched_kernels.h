// The kernels of a run, by launch, as `analyze` lists them.
#pragma once

#include <string>

#include "traces/kernels/kernel_table.h"

namespace foretrain {

class JsonWriter;

// The longest kernels of all recorded steps and ranks with their launches and theoretical
// occupancy; "" without kernels.
std::string LaunchedKernelsText(const KernelTable& kernels);

// The key `kernels` into the open object: all rows, longest first. Nothing is written without
// kernels.
void WriteLaunchedKernels(JsonWriter& json, const KernelTable& kernels);

}  // namespace foretrain
