// The choices of experts of one run, recorded and laid down in others: rounding turns a close one
// over, so that long trainings compare only where all make the same.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/routing.h"
#include "sim/spec/plan.h"

namespace foretrain {

// A token of the run, wherever it is dealt to experts: step, block, router, sample, position.
using RoutedToken = std::tuple<std::int64_t, int, std::string, std::int64_t, std::int64_t>;
using RoutedTokens = std::map<RoutedToken, std::vector<std::int32_t>>;

class Choices : public RoutingScript {
 public:
  // Lays `laid_down` down; nothing, where that is empty.
  explicit Choices(RoutedTokens laid_down = {}) : laid_down_(std::move(laid_down)) {}

  // Of the run that comes, whose micro-batches are one sample each.
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
