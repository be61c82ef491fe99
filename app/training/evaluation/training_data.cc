#include "app/training/evaluation/training_data.h"

#include <fmt/format.h>

#include "base/io/file_system.h"

namespace foretrain {
namespace {

// Whole batches in the data. In a mixture a small source may repeat within them.
Result<void> CheckBatches(const TokenData& data, const Plan& plan, std::int64_t batches) {
  const std::int64_t most = data.samples() / plan.global_batch;
  if (batches <= most) return {};
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("--eval-batches: {} batches of {} tokens are more than the {} tokens to evaluate "
                  "on have; use --eval-batches {} or more data",
                  batches, plan.global_batch * plan.sequence, data.tokens(), most));
}

}  // namespace

Result<TrainingData> OpenTrainingData(const TrainingOptions& options, const ModelSpec& model,
                                      const Plan& plan) {
  if (options.document_end >= 0 && !plan.documents) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("--document-end {}: attention does not end at documents; give "
                            "--documents too",
                            options.document_end));
  }
  const EvaluationOptions& evaluation = options.evaluation;
  TrainingData data;
  if (options.data.empty()) {
    FT_ASSIGN(data.training, TokenData::FromText(options.text, options.data_name, model.vocab, plan,
                                                 options.document_end));
    return data;
  }
  PosixFileSystem files;
  const double kept = 1 - evaluation.fraction;
  const DataOptions training{.sources = options.data,
                             .tokenizer = options.tokenizer,
                             .shuffle = options.shuffle,
                             .seed = options.job.seed,
                             .share = {.end = kept},
                             .document_end = options.document_end};
  FT_ASSIGN(data.training, TokenData::Open(files, training, model.vocab, plan));
  if (!evaluation.Asked()) return data;
  DataOptions held_out{.sources = evaluation.data,
                       .tokenizer = options.tokenizer,
                       .document_end = options.document_end};
  if (evaluation.data.empty()) {
    held_out.sources = options.data;
    held_out.share = {.begin = kept};
  }
  FT_ASSIGN(data.evaluation, TokenData::Open(files, held_out, model.vocab, plan));
  FT_TRY(CheckBatches(*data.evaluation, plan, evaluation.batches));
  return data;
}

}  // namespace foretrain
