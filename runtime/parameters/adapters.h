// Low-rank adapters (LoRA) of a model's weights: merged into them, or beside them for training.
// peft.h reads and writes them as files.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/parameters/tensors.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

// The change scale * B A of a weight [out, in].
struct LowRank {
  std::int64_t rank = 0;
  double scale = 0;
  std::vector<float> a;  // [rank, in]
  std::vector<float> b;  // [out, rank], rows in our order
};

// The adapter of a whole weight, `nullopt` if it has none. Safe from several threads.
using AdapterOf = std::function<Result<std::optional<LowRank>>(const ParameterPlace& weight)>;

// Adapters that `source` holds by our names, as a run with method lora trains them. q, k and v
// share one A, and so do gate and up.
AdapterOf AdaptersIn(const ModelSpec& model, const TensorSource& source, const Plan& plan);

// The weights of `base` with their adapters added. Sums in fp64, rounded to fp32 once. Keeps one
// weight's factors in memory.
TensorSource MergedWeights(const TensorSource& base, const AdapterOf& adapters);

// `base` with the plan's adapters set to `adapters`, for training with method lora. Where weights
// that share one A have different ones, their factors lie in different rows of it, and the rest of
// B is 0: the plan's rank must hold all of them. Rows that remain are initialized from `seed`, with
// B 0, so that the model is the same.
//
// Errors: kInvalidArgument, the plan's rank is too small (the one that is needed is named); those
// of `adapters`, which are all read here.
Result<TensorSource> WeightsWithAdapters(const TensorSource& base, const AdapterOf& adapters,
                                         const ModelSpec& model, const Plan& plan,
                                         std::uint64_t seed);

// The weights that share the factor A named `a`: "layers.3.attention.qkv.lora_A.weight" gives q, k
// and v. `plan`: with method lora or qlora.
std::vector<ParameterPlace> WeightsThatShare(const std::string& a,
                                             const std::vector<ParameterPlace>& tensors);

}  // namespace foretrain
