// Losses that are far above those before them: a sign of a learning rate that is too high, of bad
// data, or of a faulty machine. A step with such a loss can be skipped.
//
//   loss, summed over all ranks ──► SpikeGuard ──► squared norm of the gradient = -infinity
//                                                  ──► no update changes anything
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

class LossSpikes {
 public:
  // `before` are the losses of earlier steps, in order, as Losses returned them.
  explicit LossSpikes(std::span<const double> before = {});

  // Takes the loss of the next step. Returns the mean of the losses before it if it is a spike:
  // more than half above that mean, and more than six standard deviations. The last 128 steps
  // count; the first 16 are never spikes. A loss that is not finite is no spike and is left out.
  std::optional<double> Add(double loss);

  std::vector<double> Losses() const { return {losses_.begin(), losses_.end()}; }

  static constexpr std::size_t kMost = 128;  // losses that count

 private:
  std::deque<double> losses_;
};

// Squared norm of a step that is skipped. Updates change nothing if the norm is not finite, and no
// sum of squares is negative.
inline constexpr float kSkippedNorm = -std::numeric_limits<float>::infinity();

// Says which steps are skipped, to all ranks of a process alike. Ranks of other processes come to
// the same answers, because all have the same losses. Safe from any thread.
class SpikeGuard {
 public:
  explicit SpikeGuard(std::span<const double> before = {}) : spikes_(before) {}

  // True if the loss of `step` is a spike. Each rank asks once a step; no rank asks for a step
  // before all ranks have asked for the step before the last one.
  bool Skips(std::int64_t step, float loss);

 private:
  std::mutex mutex_;
  LossSpikes spikes_;            // guarded by mutex_, as all below
  std::int64_t newest_ = -1;     // step
  bool skips_newest_ = false;    // answer for it
  bool skips_previous_ = false;  // answer for the step before it
};

// Whether steps of the plan can be skipped. Errors: kInvalidArgument, without a gradient norm
// nothing holds an update back; kUnsupported, an update that does not wait for the loss.
Result<void> CheckSkipsSpikes(const Plan& plan);

}  // namespace foretrain
