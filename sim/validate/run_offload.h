// Maps a table's words for offload to fields of a plan.
#pragma once

#include <string_view>

#include "base/result.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

// Sets the offload fields of `plan` from words joined by "; ":
//
//   none, ""                         nothing
//   opt-m, opt-v, master             offload_optimizer host; streamed to the device for the update
//   gradients, parameters            offload_gradients or offload_parameters host
//   activations ..., activation ...  offload_activations host
//   residual                         same with full recomputation, which saves only the residual;
//                                    else nothing, because no plan offloads only the residual
//   full CPU offload ...             optimizer and parameters; the host computes the update
//   quants                           nothing: no plan has these copies
//
// Errors: kInvalidArgument: any other word.
Result<void> SetOffload(std::string_view words, Plan& plan);

}  // namespace foretrain
