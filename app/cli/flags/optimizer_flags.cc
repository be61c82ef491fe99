#include "app/cli/flags/optimizer_flags.h"

#include <fmt/format.h>

#include "app/cli/flags/bounded_numbers.h"

namespace foretrain {
namespace {

constexpr double kMaxBeta = 0.9999999;  // at 1 a moment would take nothing of a gradient

void Set(const std::optional<double>& given, float& value) {
  if (given) value = static_cast<float>(*given);
}

}  // namespace

void OptimizerFlags::Declare(Arguments& arguments) {
  arguments.Parsed("--weight-decay", "X",
                   "Weight decay of matrices, times the learning rate; norms and biases have none",
                   Into(weight_decay_, 0, 1e6), "0.1");
  arguments.Parsed("--beta1", "X", "Decay of the first moment; the momentum",
                   Into(beta1_, 0, kMaxBeta), "0.9");
  arguments.Parsed("--beta2", "X", "Decay of AdamW's second moment, or of Lion's moment",
                   Into(beta2_, 0, kMaxBeta), "0.95, with lion 0.99");
  arguments.Parsed("--epsilon", "X", "AdamW's epsilon", Into(epsilon_, 1e-30, 1), "1e-8");
}

OptimizerSettings OptimizerFlags::SettingsOf(OptimizerKind optimizer) const {
  OptimizerSettings settings;
  if (optimizer == OptimizerKind::kLion) settings.beta2 = 0.99F;
  Set(weight_decay_, settings.weight_decay);
  Set(beta1_, settings.beta1);
  Set(beta2_, settings.beta2);
  Set(epsilon_, settings.epsilon);
  return settings;
}

std::string Describe(const OptimizerSettings& settings) {
  return fmt::format("decay {}, beta {} {}, epsilon {}", settings.weight_decay, settings.beta1,
                     settings.beta2, settings.epsilon);
}

}  // namespace foretrain
