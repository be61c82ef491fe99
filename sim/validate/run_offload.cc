#include "sim/validate/run_offload.h"

#include <algorithm>

#include "base/text.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

// Sets the fields for one word. "quants" are copies that no plan has.
Result<void> SetOne(std::string_view word, Plan& plan) {
  if (word.empty() || word == "none" || word == "quants") return {};
  if (word == "opt-m" || word == "opt-v" || word == "master") {
    plan.offload_optimizer = OffloadTarget::kHost;
    plan.stream_optimizer = true;
  } else if (word == "gradients") {
    plan.offload_gradients = OffloadTarget::kHost;
  } else if (word == "parameters") {
    plan.offload_parameters = OffloadTarget::kHost;
  } else if (word == "residual") {
    // The residual holds inputs of layers only. With full recomputation, these are all saved
    // activations.
    if (plan.recompute == RecomputeKind::kFull) plan.offload_activations = OffloadTarget::kHost;
  } else if (word.starts_with("activation")) {
    plan.offload_activations = OffloadTarget::kHost;
  } else if (word.starts_with("full CPU offload")) {
    plan.offload_optimizer = plan.offload_parameters = OffloadTarget::kHost;
  } else {
    return Refuse(
        "offload \"{}\": must be none, opt-m, opt-v, master, gradients, parameters, residual, "
        "activations or quants, joined by \"; \"",
        Printable(word));
  }
  return {};
}

}  // namespace

// Plan rules require that offloaded gradients of several replicas are reduced after each
// micro-batch.
Result<void> SetOffload(std::string_view words, Plan& plan) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(';'), words.size());
    FT_TRY(SetOne(Trim(words.substr(0, end)), plan));
    words.remove_prefix(std::min(words.size(), end + 1));
  }
  const bool offloaded = plan.offload_gradients != OffloadTarget::kNone;
  if (offloaded && plan.DataParallel() > 1) plan.reduction_time = ReductionTime::kMicroBatch;
  if (plan.offload_optimizer != OffloadTarget::kNone) plan.moments = MomentFormat::kFp32;
  return {};
}

}  // namespace foretrain
