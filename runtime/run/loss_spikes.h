// Losses that are far above those before them: a sign of a learning rate that is too high, of bad
// data, or of a faulty machine.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

namespace foretrain {

class LossSpikes {
 public:
  // Takes the loss of the next step. Returns the mean of the losses before it if it is a spike:
  // more than half above that mean, and more than six standard deviations. The last 128 steps
  // count; the first 16 are never spikes. A loss that is not finite is no spike and is left out.
  std::optional<double> Add(double loss);

 private:
  std::deque<double> losses_;
};

}  // namespace foretrain
