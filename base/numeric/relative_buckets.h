// Buckets of distances between tokens, each with a learned bias of attention (T5: Raffel et al.
// 2020, s. 2.1). Near distances have a bucket each. Farther ones share buckets that widen with the
// logarithm of the distance, up to max_distance; the last bucket takes the rest.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace foretrain {

// Bucket in [0, buckets) of `distance` = key position - query position.
//
//   bidirectional  half of the buckets are for later keys; else those share the bucket of 0
//   buckets        at least 2, and even if bidirectional
//   max_distance   above the number of near buckets: buckets / 2, or / 4 if bidirectional
//
// fp32 throughout, in the order of transformers' T5Attention, because a logarithm that is just
// below a whole number falls into the bucket before.
inline std::int32_t RelativeBucket(std::int64_t distance, std::int32_t buckets,
                                   std::int32_t max_distance, bool bidirectional) {
  std::int32_t first = 0;
  if (bidirectional) {
    buckets /= 2;
    if (distance > 0) first = buckets;
    distance = std::abs(distance);
  } else {
    distance = std::max<std::int64_t>(0, -distance);
  }
  const std::int32_t near = buckets / 2;
  if (distance < near) return first + static_cast<std::int32_t>(distance);
  const float ratio = static_cast<float>(distance) / static_cast<float>(near);
  const auto range =
      static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(near)));
  const float steps = std::log(ratio) / range * static_cast<float>(buckets - near);
  return first + std::min(buckets - 1, near + static_cast<std::int32_t>(steps));
}

}  // namespace foretrain
