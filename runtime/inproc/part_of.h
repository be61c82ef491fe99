// Division of an all-reduce among its members.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/checked.h"

namespace foretrain {

struct Part {
  std::int64_t begin = 0;  // elements
  std::int64_t size = 0;
};

// The part that `member` sums: whole cache lines of fp32, so that no two members write to one line.
inline Part PartOf(std::int64_t elements, std::int64_t members, std::int64_t member) {
  constexpr std::int64_t kGrain = 16;
  const std::int64_t each = CeilDiv(CeilDiv(elements, members), kGrain) * kGrain;
  const std::int64_t begin = std::min(elements, each * member);
  return {begin, std::min(elements, begin + each) - begin};
}

}  // namespace foretrain
