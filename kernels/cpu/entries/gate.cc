// Row gates, and router balancing without a loss (load counts and the biases that follow them).
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/entries/entry.h"
#include "kernels/cpu/entries/families.h"

namespace foretrain {
namespace {

float Sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

// y = x * sigmoid(score), one score for each row; or added to y.
void GateForward(const FtGateForward& g) {
  for (std::int64_t row = 0; row < g.rows; ++row) {
    const float* x = static_cast<const float*>(g.x) + row * g.cols;
    float* y = static_cast<float*>(g.y) + row * g.cols;
    const float open = Sigmoid(g.scores[row]);
    for (std::int64_t c = 0; c < g.cols; ++c) {
      y[c] = g.accumulate != 0 ? y[c] + x[c] * open : x[c] * open;
    }
  }
}

// The gate's gradient is summed in fp64, because a row may have thousands of terms of both signs.
void GateBackward(const FtGateBackward& g) {
  for (std::int64_t row = 0; row < g.rows; ++row) {
    const float* dy = static_cast<const float*>(g.dy) + row * g.cols;
    const float* x = static_cast<const float*>(g.x) + row * g.cols;
    float* dx = static_cast<float*>(g.dx) + row * g.cols;
    const float open = Sigmoid(g.scores[row]);
    double dot = 0.0;
    for (std::int64_t c = 0; c < g.cols; ++c) {
      dot += static_cast<double>(dy[c]) * static_cast<double>(x[c]);
      dx[c] = dy[c] * open;
    }
    g.d_scores[row] = static_cast<float>(dot) * open * (1.0F - open);
  }
}

// Adds to the loads of earlier micro-batches. Counts are exact in fp32 up to 2^24.
void CountChoices(const FtCountChoices& g) {
  for (std::int64_t i = 0; i < g.rows * g.per_token; ++i) {
    const std::int32_t expert = g.chosen[i];
    if (expert >= 0 && expert < g.experts) g.loads[expert] += 1.0F;
  }
}

// The bias moves by a fixed rate toward balance, whatever the size of the imbalance. Loads restart
// at 0.
void BalanceBias(const FtBalanceBias& g) {
  double sum = 0.0;
  for (std::int64_t e = 0; e < g.experts; ++e) sum += static_cast<double>(g.loads[e]);
  const double mean = sum / static_cast<double>(g.experts);
  for (std::int64_t e = 0; e < g.experts; ++e) {
    const double load = static_cast<double>(g.loads[e]);
    if (load < mean) g.bias[e] += g.rate;
    if (load > mean) g.bias[e] -= g.rate;
  }
  std::fill_n(g.loads, g.experts, 0.0F);
}

}  // namespace

void SetGateEntries(FtDeviceApi& api) {
  Set<&FtDeviceApi::gate_forward, &GateForward>(api);
  Set<&FtDeviceApi::gate_backward, &GateBackward>(api);
  Set<&FtDeviceApi::count_choices, &CountChoices>(api);
  Set<&FtDeviceApi::balance_bias, &BalanceBias>(api);
}

}  // namespace foretrain
