#include "tests/runtime/whole_tensors.h"

#include "base/numeric/random.h"
#include "runtime/parameters/model_tensors.h"

namespace foretrain {
namespace {

Tensor EmptyTensor(const ParameterPlace& place) {
  return {place.rows, place.cols,
          std::vector<float>(static_cast<std::size_t>(place.rows * place.cols))};
}

}  // namespace

TensorMap RandomTensors(const ModelSpec& model, const Plan& plan) {
  TensorMap tensors;
  for (const ParameterPlace& place : TensorsOf(model, plan)) {
    Tensor& tensor = tensors[place.name] = EmptyTensor(place);
    CounterRandom(3, place.name).FillNormal(0, 0.0F, 1.0F, tensor.values);
  }
  return tensors;
}

Result<TensorMap> ReadTensors(const ModelSpec& model, const TensorSource& source,
                              const Plan& plan) {
  TensorMap tensors;
  for (const ParameterPlace& place : TensorsOf(model, plan)) {
    Tensor& tensor = tensors[place.name] = EmptyTensor(place);
    const auto cols = static_cast<std::size_t>(place.cols);
    for (std::int64_t row = 0; row < place.rows; ++row) {
      FT_TRY(source(place, row, 0,
                    std::span(tensor.values).subspan(static_cast<std::size_t>(row) * cols, cols)));
    }
  }
  return tensors;
}

}  // namespace foretrain
