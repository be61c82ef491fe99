// Makes kernel profiles from tables of measured kernels: fits the models' constants, then residual
// fields on a few hundred anchors.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "sim/config/catalogue/catalogue.h"
#include "sim/cost/measured/kernel_profile.h"
#include "sim/cost/profile/architecture.h"
#include "sim/validate/kernels/timing_table.h"

namespace foretrain {

// One profile for each device of the tables, in the order of their names. The same rows give the
// same profiles, rounded as they are written.
//
// Anchors: 200 shapes of products, 250 of attention, 300 of experts, 150 of exchanges, spread over
// the shapes of the device, and all of collectives. `FitError` counts rows that were left out of
// the field one shape at a time. Of experts, a shape's loads are left out together, of exchanges
// its numbers of multiprocessors. Constants of training are fitted again without each row.
//
// Errors: kInvalidArgument, naming the device, if the catalogue lacks it or its peak, bandwidth or
// multiprocessors, or if the tables have no measured row. Minutes for 60,000 rows.
Result<std::vector<KernelProfile>> FitKernels(std::span<const TimingTable> tables,
                                              const Catalogue& catalogue,
                                              const std::vector<Architecture>& architectures);

}  // namespace foretrain
