// Reference for the mixture-of-experts kernels, written plainly in double precision like
// reference.h. Shapes are those of base/device_api.h.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/kernels/reference/reference.h"

namespace foretrain::reference {

struct RouteShape {
  std::int64_t experts = 0, per_token = 0, capacity = 0;
  bool softmax_first = false;
  std::int64_t pieces = 1, expert_groups = 1, group_limit = 0;
  std::int64_t balance_rows = 0;  // 0: all rows
};
struct RouteOutputs {
  Tensor probs, weights;                              // [rows, experts], [rows, per_token]
  std::vector<std::int32_t> chosen, places, sources;  // as in FtRoute
  std::vector<std::int32_t> counts, balance_counts;
};
RouteOutputs Route(const RouteShape& shape, const Tensor& logits);

// Mean over groups of rows of balance * experts / pairs * sum over experts of count * mean prob.
double BalanceLoss(const RouteShape& shape, double balance, const Tensor& probs,
                   const std::vector<std::int32_t>& balance_counts);

// Gradient with respect to the scores of sum(d_weights * weights) + BalanceLoss; counts are
// constants.
Tensor RouteBackward(const RouteShape& shape, double balance, const RouteOutputs& forward,
                     const Tensor& d_weights);

// Empty weights mean 1.
struct RowsShape {
  std::int64_t cols = 0, per_token = 0;
};
Tensor ExpertGather(const RowsShape& shape, const Tensor& x,
                    const std::vector<std::int32_t>& sources, const Tensor& weights);
Tensor ExpertCombine(const RowsShape& shape, const Tensor& x,
                     const std::vector<std::int32_t>& places, const Tensor& weights);
Tensor ExpertDots(const RowsShape& shape, const Tensor& dy, const Tensor& x,
                  const std::vector<std::int32_t>& places);

// `expert_of` gives the expert of each row.
struct GroupedShape {
  std::int64_t experts = 0, out = 0, in = 0;
};
Tensor GroupedForward(const GroupedShape& shape, const std::vector<std::int32_t>& expert_of,
                      const Tensor& x, const Tensor& w);
Tensor GroupedInput(const GroupedShape& shape, const std::vector<std::int32_t>& expert_of,
                    const Tensor& dy, const Tensor& w);
Tensor GroupedWeight(const GroupedShape& shape, const std::vector<std::int32_t>& expert_of,
                     const Tensor& dy, const Tensor& x);

}  // namespace foretrain::reference
