#include "app/cli/goal_options.h"

#include <utility>

#include "base/text.h"

namespace foretrain {
namespace {

constexpr double kHour = 3600;  // seconds

// A number and the suffix after it.
Result<std::pair<double, std::string>> ParseWithSuffix(const std::string& option,
                                                       const std::string& text) {
  const std::size_t end = text.find_first_not_of("0123456789.eE+");
  FT_ASSIGN(const double number,
            ParseNumber(option, end == 0 ? text : text.substr(0, end), 0, 1e30));
  return std::pair{number, end == std::string::npos ? std::string() : text.substr(end)};
}

}  // namespace

// Errors: kInvalidArgument for 0 or an unknown suffix.
Result<double> ParseTokens(const std::string& option, const std::string& text) {
  FT_ASSIGN(const auto parsed, ParseWithSuffix(option, text));
  const auto& [number, suffix] = parsed;
  for (const auto& [name, factor] :
       {std::pair{"", 1.0}, std::pair{"k", 1e3}, std::pair{"M", 1e6}, std::pair{"B", 1e9},
        std::pair{"G", 1e9}, std::pair{"T", 1e12}}) {
    if (suffix == name && number > 0) return number * factor;
  }
  return Fail(ErrorCode::kInvalidArgument, option + ": \"" + Printable(text) +
                                               "\" is no number of tokens; write e.g. 300B or 15T");
}

// Days and hours alone: a training takes no minutes.
Result<double> ParseDuration(const std::string& option, const std::string& text) {
  FT_ASSIGN(const auto parsed, ParseWithSuffix(option, text));
  const auto& [number, suffix] = parsed;
  for (const auto& [name, factor] : {std::pair{"d", 24 * kHour}, std::pair{"h", kHour}}) {
    if (suffix == name && number > 0) return number * factor;
  }
  return Fail(ErrorCode::kInvalidArgument,
              option + ": \"" + Printable(text) + "\" is no time; write e.g. 60d or 36h");
}

}  // namespace foretrain
