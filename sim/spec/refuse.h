// Builds the Error of an input that is refused. For the sources of this folder: it includes fmt,
// which headers do not.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "base/result.h"

namespace foretrain {

// `return Refuse("heads {}: must be ...", heads);` in a function that returns any Result<T>:
// kInvalidArgument.
template <class... Args>
[[nodiscard]] tl::unexpected<Error> Refuse(fmt::format_string<Args...> format, Args&&... args) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace foretrain
