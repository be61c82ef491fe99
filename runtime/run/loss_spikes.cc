#include "runtime/run/loss_spikes.h"

#include <cmath>

namespace foretrain {
namespace {

constexpr std::size_t kFewest = 16, kMost = 128;
constexpr double kDeviations = 6, kRatio = 1.5;

}  // namespace

// The spread is of the losses before the new one, so that a spike cannot hide itself.
std::optional<double> LossSpikes::Add(double loss) {
  if (!std::isfinite(loss)) return std::nullopt;
  double sum = 0, squares = 0;
  for (const double before : losses_) sum += before;
  const double mean = losses_.empty() ? 0 : sum / static_cast<double>(losses_.size());
  for (const double before : losses_) squares += (before - mean) * (before - mean);
  const bool known = losses_.size() >= kFewest;
  const double deviation = known ? std::sqrt(squares / static_cast<double>(losses_.size())) : 0;
  losses_.push_back(loss);
  if (losses_.size() > kMost) losses_.pop_front();
  if (!known || loss <= kRatio * mean || loss <= mean + kDeviations * deviation) {
    return std::nullopt;
  }
  return mean;
}

}  // namespace foretrain
