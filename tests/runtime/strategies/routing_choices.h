// Expert choices recorded in one run and replayed in others. Rounding can flip a close choice, so
// long trainings are comparable only with equal choices.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/run/routing.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

// A token of the run, wherever it is routed: step, block, router, sample, position.
using RoutedToken = std::tuple<std::int64_t, int, std::string, std::int64_t, std::int64_t>;
using RoutedTokens = std::map<RoutedToken, std::vector<std::int32_t>>;

class Choices : public RoutingScript {
 public:
  // Replays `laid_down`; nothing if it is empty.
  explicit Choices(RoutedTokens laid_down = {}) : laid_down_(std::move(laid_down)) {}

  // Prepares for the next run, with micro-batches of one sample.
  void Follow(const Plan& plan) { plan_ = plan; }

  bool Replay(const RoutingSite& site, std::span<std::int32_t> chosen) override;
  void Record(const RoutingSite& site, std::span<const std::int32_t> chosen) override;
  const RoutedTokens& recorded() const { return recorded_; }

 private:
  RoutedToken TokenOf(const RoutingSite& site, std::int64_t row) const;

  Plan plan_;
  const RoutedTokens laid_down_;
  RoutedTokens recorded_;
  std::mutex mutex_;
};

}  // namespace foretrain
