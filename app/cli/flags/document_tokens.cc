#include "app/cli/flags/document_tokens.h"

#include "app/cli/flags/bounded_numbers.h"

namespace foretrain {

void DocumentTokens::Declare(Arguments& arguments) {
  arguments.Parsed("--document-tokens", "N",
                   "Tokens of a document, for attention with --documents; default: a sample is "
                   "one document. `train` counts those of its data",
                   Into(tokens_, 1, INT32_MAX));
}

Result<void> DocumentTokens::CountIn(const Plan& plan, ForecastContext& context) const {
  if (tokens_ > 0 && !plan.documents) {
    return Fail(ErrorCode::kInvalidArgument,
                "--document-tokens " + std::to_string(tokens_) +
                    ": attention does not end at documents; give --documents too");
  }
  context.costs.SetDocumentTokens(static_cast<double>(tokens_));
  return {};
}

std::string DocumentTokens::ForText() const {
  return tokens_ > 0 ? " --document-tokens " + std::to_string(tokens_) : "";
}

}  // namespace foretrain
