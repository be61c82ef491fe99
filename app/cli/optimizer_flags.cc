#include "app/cli/optimizer_flags.h"

#include <fmt/format.h>

#include "base/text.h"

namespace foretrain {
namespace {

// Reads a number of [low, high].
template <class Number>
Arguments::ReadText Into(Number& value, double low, double high) {
  return [&value, low, high](const std::string& name, const std::string& text) -> Result<void> {
    FT_ASSIGN(value, ParseNumber(name, text, low, high));
    return {};
  };
}

constexpr double kMaxBeta = 0.9999999;  // at 1 a moment would take nothing of a gradient

}  // namespace

void DeclareOptimizer(Arguments& arguments, OptimizerSettings& settings) {
  arguments.Parsed("--weight-decay", "X",
                   "Weight decay, times the learning rate, of matrices; none of norms and biases",
                   Into(settings.weight_decay, 0, 1e6), "0.1");
  arguments.Parsed("--beta1", "X", "Decay of the first moment; the momentum",
                   Into(settings.beta1, 0, kMaxBeta), "0.9");
  arguments.Parsed("--beta2", "X",
                   "Decay of AdamW's second moment, or of Lion's moment; default: 0.95 for adamw, "
                   "0.99 for lion",
                   Into(settings.beta2, 0, kMaxBeta));
  arguments.Parsed("--epsilon", "X", "AdamW's epsilon", Into(settings.epsilon, 1e-30, 1), "1e-8");
}

std::string Describe(const OptimizerSettings& settings) {
  return fmt::format("decay {}, beta {} {}, epsilon {}", settings.weight_decay, settings.beta1,
                     settings.beta2 ? fmt::format("{}", *settings.beta2) : "-", settings.epsilon);
}

}  // namespace foretrain
