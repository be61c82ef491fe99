#include "runtime/generation/generator.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/data/batch_source.h"
#include "runtime/run/run_sink.h"
#include "sim/program/compile_generation.h"

namespace foretrain {
namespace {

// One sample: the tokens, then zeros. Attention is causal, so the zeros change nothing before them.
class OneSample final : public BatchSource {
 public:
  explicit OneSample(std::span<const std::int32_t> tokens) : tokens_(tokens) {}

  Result<void> Fill(const BatchRequest&, std::span<std::int32_t> ids,
                    std::span<std::int32_t> targets) override {
    std::fill(ids.begin(), ids.end(), 0);
    std::fill(targets.begin(), targets.end(), 0);
    std::copy_n(tokens_.begin(), std::min(tokens_.size(), ids.size()), ids.begin());
    return {};
  }

 private:
  std::span<const std::int32_t> tokens_;
};

}  // namespace

Result<std::unique_ptr<Generator>> Generator::Make(const ModelSpec& model, std::int64_t window,
                                                   const TensorSource& weights,
                                                   const FtDeviceApi& api, RunClock& clock) {
  FT_ASSIGN(Program program, CompileGeneration(model, window));
  ExecutorOptions options;
  options.record_spans = options.record_memory = false;
  FT_ASSIGN(auto executor, Executor::Make(std::make_shared<const Program>(std::move(program)), api,
                                          clock, options));
  FT_TRY(FillParameters(*executor, weights));
  return std::unique_ptr<Generator>(new Generator(std::move(executor)));
}

Result<std::span<const float>> Generator::Logits(std::span<const std::int32_t> tokens) {
  FT_CHECK(!tokens.empty());
  const Program& program = executor_->program();
  const std::int64_t vocab = program.model.vocab;
  const auto window = static_cast<std::size_t>(program.plan.sequence);
  for (const std::int32_t token : tokens) {
    if (token >= 0 && token < vocab) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("token {} is outside the model's vocabulary of {}; use the tokenizer "
                            "that the model was trained with",
                            token, vocab));
  }
  const auto last = tokens.last(std::min(tokens.size(), window));
  OneSample sample(last);
  RunSink unheard;
  FT_TRY(executor_->Run(/*steps=*/1, sample, unheard));
  logits_.resize(static_cast<std::size_t>(vocab));
  const std::int64_t row_bytes = 4 * vocab;
  const auto row = static_cast<std::int64_t>(last.size()) - 1;
  FT_TRY(executor_->Arena(0).ReadState(
      {HostLogitsOf(executor_->Rank(0)), row * row_bytes, row_bytes}, logits_.data()));
  return std::span<const float>(logits_);
}

}  // namespace foretrain
