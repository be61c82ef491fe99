// The option --document-tokens of commands that forecast attention which ends at documents.
#pragma once

#include <cstdint>
#include <string>

#include "app/cli/arguments.h"
#include "app/forecast/forecasting.h"

namespace foretrain {

class DocumentTokens {
 public:
  void Declare(Arguments& arguments);
  // Costs of the context count documents of so many tokens. Errors: kInvalidArgument, the option is
  // given and attention of the plan does not end at documents.
  Result<void> CountIn(const Plan& plan, ForecastContext& context) const;
  // " --document-tokens 800", or nothing.
  std::string ForText() const;

 private:
  std::int64_t tokens_ = 0;  // 0: not given
};

}  // namespace foretrain
