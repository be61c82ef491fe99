#include "runtime/run/loss_spikes.h"

#include <cmath>
#include <string>

#include "base/checked.h"

namespace foretrain {
namespace {

constexpr std::size_t kFewest = 16;
constexpr double kDeviations = 6, kRatio = 1.5;

}  // namespace

LossSpikes::LossSpikes(std::span<const double> before) {
  const std::size_t kept = std::min(before.size(), kMost);
  losses_.assign(before.end() - static_cast<std::ptrdiff_t>(kept), before.end());
}

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

bool SpikeGuard::Skips(std::int64_t step, float loss) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (step == newest_) return skips_newest_;
  if (step + 1 == newest_) return skips_previous_;
  FT_CHECK(step > newest_);
  skips_previous_ = skips_newest_ && step == newest_ + 1;
  newest_ = step;
  skips_newest_ = spikes_.Add(loss).has_value();
  return skips_newest_;
}

Result<void> CheckSkipsSpikes(const Plan& plan) {
  if (plan.clip_norm <= 0) {
    return Fail(ErrorCode::kInvalidArgument,
                "--on-spike skip: nothing holds an update back without the gradient's norm; add "
                "--clip NORM (--clip 1e30 clips nothing)");
  }
  const char* const other = plan.optimizer == OptimizerKind::kMuon ? "--optimizer muon"
                            : plan.post_validation                 ? "--post-validation"
                            : plan.delayed_update                  ? "--delayed-update"
                            : plan.StepsOverlap()                  ? "steps that overlap"
                                                                   : nullptr;
  if (other == nullptr && plan.loss_scale > 0) {
    return Fail(ErrorCode::kUnsupported,
                "--on-spike skip with --loss-scale: the scale would take the skipped step for an "
                "overflow; use --on-spike warn");
  }
  if (other == nullptr) return {};
  return Fail(ErrorCode::kUnsupported, std::string("--on-spike skip with ") + other +
                                           ": its updates do not wait for the loss of their step; "
                                           "use --on-spike warn");
}

}  // namespace foretrain
