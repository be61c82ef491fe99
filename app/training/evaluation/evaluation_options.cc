#include "app/training/evaluation/evaluation_options.h"

#include <fmt/format.h>

#include <utility>

#include "base/text.h"

namespace foretrain {

void DeclareEvaluation(Arguments& arguments, EvaluationOptions& options) {
  arguments.Option("--eval-data", options.data, "PATH[:WEIGHT],...",
                   "Also compute the loss on this data, between steps of the training");
  arguments.Parsed("--eval-fraction", "0..1",
                   "The same on this last part of --data, which is then kept from the training",
                   [&options](const std::string& name, const std::string& text) -> Result<void> {
                     FT_ASSIGN(options.fraction, ParseNumber(name, text, 0, 0.9));
                     return {};
                   });
  arguments.Option("--eval-every", options.every, "N",
                   "Steps between two evaluations; the last step is followed by one too");
  arguments.Option("--eval-batches", options.batches, "N",
                   "Batches of an evaluation, each as large as that of a step");
}

Result<void> CheckEvaluation(const EvaluationOptions& options) {
  for (const auto& [name, value] :
       {std::pair{"--eval-every", options.every}, std::pair{"--eval-batches", options.batches}}) {
    if (value >= 1) continue;
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: {} is below 1", name, value));
  }
  if (options.data.empty() || options.fraction == 0) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "--eval-fraction: --eval-data names the data already; leave one of the two out");
}

}  // namespace foretrain
