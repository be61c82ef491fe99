#include "app/training/evaluation/training_data.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "runtime/tokenizer/tokenizer.h"

namespace foretrain {
namespace {

// The tokens of a file, made by the tokenizer if there is one.
Result<TokenFile> ReadTokens(const TrainingOptions& options, const std::string& path) {
  PosixFileSystem files;
  FT_ASSIGN(TokenFile file, ReadTokenFile(files, path));
  if (options.tokenizer.empty()) return file;
  if (file.width != 1) {
    return Fail(ErrorCode::kInvalidArgument,
                "--tokenizer: " + path + " has tokens already; leave --tokenizer out");
  }
  FT_ASSIGN(const auto tokenizer, Tokenizer::Open(files, options.tokenizer));
  return TokenFileOf(tokenizer->Encode(file.content, /*adds_special=*/false));
}

// Cuts the last `fraction` of the tokens off `file` and returns them.
TokenFile CutTail(TokenFile& file, double fraction) {
  const auto kept =
      static_cast<std::int64_t>(static_cast<double>(file.tokens()) * (1.0 - fraction));
  const auto cut = static_cast<std::size_t>(file.offset + kept * file.width);
  TokenFile tail{file.content.substr(cut), /*offset=*/0, file.width};
  file.content.resize(cut);
  return tail;
}

// Different batches in the tokens: a target is the token after its id.
Result<void> CheckBatches(const TokenData& data, const Plan& plan, std::int64_t batches) {
  const std::int64_t batch = plan.global_batch * plan.sequence;
  const std::int64_t most = (data.tokens() - 1) / batch;
  if (batches <= most) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("--eval-batches: {} batches of {} tokens are more than the {} tokens to "
                          "evaluate on have; use --eval-batches {} or more data",
                          batches, batch, data.tokens(), most));
}

}  // namespace

Result<TrainingData> OpenTrainingData(const TrainingOptions& options, const ModelSpec& model,
                                      const Plan& plan) {
  const EvaluationOptions& evaluation = options.evaluation;
  TrainingData data;
  if (options.data.empty()) {
    FT_ASSIGN(data.training,
              TokenData::FromText(options.text, options.data_name, model.vocab, plan));
    return data;
  }
  FT_ASSIGN(TokenFile tokens, ReadTokens(options, options.data));
  TokenFile held_out;
  if (evaluation.fraction > 0) held_out = CutTail(tokens, evaluation.fraction);
  if (!evaluation.data.empty()) {
    FT_ASSIGN(held_out, ReadTokens(options, evaluation.data));
  }
  FT_ASSIGN(data.training, TokenData::FromFile(std::move(tokens), options.data, model.vocab, plan));
  if (!evaluation.Asked()) return data;
  const std::string name =
      evaluation.data.empty() ? "the held-out part of " + options.data : evaluation.data;
  FT_ASSIGN(data.evaluation, TokenData::FromFile(std::move(held_out), name, model.vocab, plan));
  FT_TRY(CheckBatches(*data.evaluation, plan, evaluation.batches));
  return data;
}

}  // namespace foretrain
