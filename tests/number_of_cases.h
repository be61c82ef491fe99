// Numbers of cases that the environment sets, as tools/nightly does (tests/README.md).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace foretrain {

// The number in the environment variable `name`, at least 1; `otherwise` if it is not set.
inline std::int64_t CasesOr(const char* name, std::int64_t otherwise) {
  const char* const asked = std::getenv(name);
  return asked == nullptr ? otherwise : std::max<std::int64_t>(1, std::atoll(asked));
}

// Operations on each structure that threads share.
inline std::int64_t Operations() { return CasesOr("FORETRAIN_OPERATIONS", 10'000); }

}  // namespace foretrain
