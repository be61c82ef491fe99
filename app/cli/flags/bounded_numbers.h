// Readers of options whose value is a number within bounds, for Arguments::Parsed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "app/cli/arguments.h"
#include "base/text.h"

namespace foretrain {

// Reads a number of [low, high] into `value`, which outlives the parse. Errors: kInvalidArgument,
// naming the option and the bounds.
inline Arguments::ReadText Into(double& value, double low, double high) {
  return [&value, low, high](const std::string& name, const std::string& text) -> Result<void> {
    FT_ASSIGN(value, ParseNumber(name, text, low, high));
    return {};
  };
}
inline Arguments::ReadText Into(std::optional<double>& value, double low, double high) {
  return [&value, low, high](const std::string& name, const std::string& text) -> Result<void> {
    FT_ASSIGN(value, ParseNumber(name, text, low, high));
    return {};
  };
}
template <typename Integer>
Arguments::ReadText Into(Integer& value, std::int64_t low, std::int64_t high) {
  return [&value, low, high](const std::string& name, const std::string& text) -> Result<void> {
    FT_ASSIGN(const std::int64_t number, ParseInt(name, text, low, high));
    value = static_cast<Integer>(number);
    return {};
  };
}

}  // namespace foretrain
