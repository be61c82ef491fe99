// Continues tokens with a model, one token after the other. Choosing them: sampling.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/device_api.h"
#include "base/result.h"
#include "runtime/executor/executor.h"
#include "runtime/parameters/tensors.h"
#include "runtime/run/run_clock.h"
#include "sim/config/model/model_spec.h"

namespace foretrain {

// Runs the forward pass over a window of tokens for each new token. Nothing is kept from one token
// to the next (no cache of keys and values): a token costs a pass over the window.
class Generator {
 public:
  //   window      tokens of a pass, in [1, model.max_sequence]
  //   weights     of the model
  //   api, clock  outlive the generator
  //
  // Errors: those of CompileGeneration, of Executor::Make and of the weights.
  static Result<std::unique_ptr<Generator>> Make(const ModelSpec& model, std::int64_t window,
                                                 const TensorSource& weights,
                                                 const FtDeviceApi& api, RunClock& clock);

  // Logits of the token after `tokens`: one for each id, valid until the next call. Of more tokens
  // than the window only the last ones count, the first of them at position 0.
  //
  //   tokens  at least one, each in [0, vocab)
  //
  // Errors: kInvalidArgument, a token outside the vocabulary; those of Executor::Run.
  Result<std::span<const float>> Logits(std::span<const std::int32_t> tokens);

 private:
  explicit Generator(std::unique_ptr<Executor> executor) : executor_(std::move(executor)) {}

  const std::unique_ptr<Executor> executor_;
  std::vector<float> logits_;
};

}  // namespace foretrain
