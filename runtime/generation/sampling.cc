#include "runtime/generation/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/numeric/number_formats.h"
#include "base/numeric/random.h"

namespace foretrain {
namespace {

// Uniform in [0, 1), with 53 bits.
double Uniform(std::uint64_t seed, std::int64_t position) {
  const CounterRandom random(seed, "generate");
  return std::ldexp(static_cast<double>(random.Bits(static_cast<std::uint64_t>(position)) >> 11U),
                    -53);
}

}  // namespace

// The tokens are sorted once. Weights are exp((logit - max) / temperature), so none overflows and
// the first is 1. The sum over the kept ones normalizes them.
Result<std::int32_t> ChooseToken(std::span<const float> logits, const Sampling& sampling,
                                 std::int64_t position) {
  FT_CHECK(!logits.empty());
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (IsFinite(logits[id])) continue;
    return Fail(ErrorCode::kNotFinite,
                fmt::format("position {}: the logit of token {} is {}; the weights hold such "
                            "values, or values that overflow",
                            position, id, logits[id]));
  }
  if (sampling.temperature == 0) {
    return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) -
                                     logits.begin());
  }
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto logit = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
  std::stable_sort(ids.begin(), ids.end(),
                   [&](std::int32_t a, std::int32_t b) { return logit(a) > logit(b); });
  if (sampling.top_k > 0 && sampling.top_k < static_cast<std::int64_t>(ids.size())) {
    ids.resize(static_cast<std::size_t>(sampling.top_k));
  }
  std::vector<double> up_to;  // sum of the weights of the tokens up to each
  double sum = 0;
  for (const std::int32_t id : ids) {
    sum += std::exp((double{logit(id)} - double{logit(ids.front())}) / sampling.temperature);
    up_to.push_back(sum);
  }
  const auto reached = std::lower_bound(up_to.begin(), up_to.end(), sampling.top_p * sum);
  const auto last = reached == up_to.end() ? up_to.end() - 1 : reached;
  const double drawn = Uniform(sampling.seed, position) * *last;
  const auto chosen = std::upper_bound(up_to.begin(), last, drawn);
  return ids[static_cast<std::size_t>(chosen - up_to.begin())];
}

}  // namespace foretrain
