#include "tests/runtime/strategies/quantized_base.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace foretrain {

TensorSource QuantizedBase(const ModelSpec& model, const Plan& plan,
                           const TrainingOptions& options) {
  Plan still = TinyPlan();
  still.method = TrainingMethod::kQlora;
  still.tp = plan.tp;
  TrainingOptions first;
  first.steps = 1;
  first.seed = options.seed;
  const auto tensors = std::make_shared<const TensorMap>(TrainTiny(model, still, first).parameters);
  return [tensors, fresh = InitialWeights(model, options.seed)](
             const ParameterPlace& place, std::int64_t row, std::int64_t col,
             std::span<float> out) -> Result<void> {
    if (place.name.find(".lora_") != std::string::npos) return fresh(place, row, col, out);
    const Tensor& tensor = tensors->at(place.name);
    std::copy_n(tensor.values.begin() + row * tensor.cols + col, out.size(), out.begin());
    return {};
  };
}

}  // namespace foretrain
