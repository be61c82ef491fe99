// What a table's words for offload mean in a plan.
#pragma once

#include <string_view>

#include "base/result.h"
#include "sim/spec/plan.h"

namespace foretrain {

// Sets the offload fields of `plan` from words joined by "; ":
//
//   none, ""                                nothing
//   opt-m, opt-v, master                    offload_optimizer host, streamed through the device,
//                                           which updates
//   gradients, parameters                   offload_gradients, offload_parameters host
//   activations ..., activation ...         offload_activations host
//   residual                                likewise with full recomputation, which keeps nothing
//                                           else; without it nothing: no plan has inputs alone away
//   full CPU offload ...                    optimizer and parameters; the host updates
//   quants                                  nothing: copies that no plan has
//
// Errors: kInvalidArgument, another word.
Result<void> SetOffload(std::string_view words, Plan& plan);

}  // namespace foretrain
