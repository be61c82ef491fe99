// Builds the Error of a refused input. For sources only: it includes fmt, which headers do not.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "base/result.h"

namespace foretrain {

// `return Refuse("heads {}: must be ...", heads);` returns kInvalidArgument from a function with
// any Result<T>.
template <class... Args>
[[nodiscard]] tl::unexpected<Error> Refuse(fmt::format_string<Args...> format, Args&&... args) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace foretrain
