// Chooses a token by its logits.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"

namespace foretrain {

// How tokens are chosen. Limits apply in the order of the fields, as in the transformers library.
struct Sampling {
  double temperature = 0;  // divides the logits; 0: the token with the largest logit
  std::int64_t top_k = 0;  // only so many tokens with the largest logits; 0: all
  double top_p = 1;        // only the most probable tokens that reach this probability together
  std::uint64_t seed = 0;
};

// The token chosen for position `position`, which selects the random number: equal arguments give
// equal tokens. Of equal logits the smallest id is first.
//
//   logits    one for each id, at least one
//   sampling  temperature >= 0, top_k >= 0, top_p in (0, 1]
//
// Errors: kNotFinite, naming the first id whose logit is infinite or NaN. O(vocab log vocab).
Result<std::int32_t> ChooseToken(std::span<const float> logits, const Sampling& sampling,
                                 std::int64_t position);

}  // namespace foretrain
