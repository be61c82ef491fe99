#include "sim/search/space/balance.h"

#include <algorithm>
#include <cmath>

#include "base/result.h"

namespace foretrain {
namespace {

// Maximum number of layers in a stage of `limit_s` seconds whose other blocks take `other_s`; at
// least one. The factor absorbs rounding.
int LayersWithin(double limit_s, double other_s, double layer_s, int layers) {
  const double fit = std::floor((limit_s - other_s) / layer_s * (1 + 1e-12));
  return static_cast<int>(std::clamp(fit, 1.0, static_cast<double>(layers)));
}

}  // namespace

// Minimizes the longest stage by bisection over its possible lengths, which are few: a number of
// layers plus the blocks of one end. Then distributes the layers as evenly as that limit allows.
std::vector<int> BalanceLayers(int layers, int stages, double embedding_s, double layer_s,
                               double head_s) {
  FT_CHECK(stages >= 1 && layers >= stages && layer_s > 0);
  const auto other_s = [&](int stage) {
    return (stage == 0 ? embedding_s : 0) + (stage == stages - 1 ? head_s : 0);
  };
  // The longest stage has one of these lengths: some layers plus the other blocks of its position.
  std::vector<double> limits;
  for (int stage : {0, stages / 2, stages - 1}) {
    for (int n = 1; n <= layers; ++n) limits.push_back(other_s(stage) + n * layer_s);
  }
  std::sort(limits.begin(), limits.end());
  const auto fits = [&](double limit_s) {
    int held = 0;
    for (int stage = 0; stage < stages; ++stage) {
      if (other_s(stage) + layer_s > limit_s * (1 + 1e-12)) return false;
      held += LayersWithin(limit_s, other_s(stage), layer_s, layers);
    }
    return held >= layers;
  };
  const double limit_s = *std::partition_point(limits.begin(), limits.end(),
                                               [&](double limit) { return !fits(limit); });
  // Front stages first, leaving one layer for each later stage.
  std::vector<int> out;
  int left = layers;
  for (int stage = 0; stage < stages; ++stage) {
    const int behind = stages - 1 - stage;
    const int fair = (left + behind) / (behind + 1);
    int max = LayersWithin(limit_s, other_s(stage), layer_s, layers);
    // Layers that the later stages can take.
    int rest = 0;
    for (int next = stage + 1; next < stages; ++next) {
      rest += LayersWithin(limit_s, other_s(next), layer_s, layers);
    }
    max = std::min({max, left - behind, std::max(fair, left - rest)});
    out.push_back(max);
    left -= max;
  }
  FT_CHECK(left == 0);
  return out;
}

}  // namespace foretrain
