// Values of the options that state a goal of the whole training: --tokens and --deadline.
#pragma once

#include <string>

#include "base/result.h"

namespace foretrain {

// "15T", "300B", "2.5M": a count with a decimal suffix. "60d", "36h": seconds.
// Errors: kInvalidArgument, naming `option`.
Result<double> ParseTokens(const std::string& option, const std::string& text);
Result<double> ParseDuration(const std::string& option, const std::string& text);

}  // namespace foretrain
