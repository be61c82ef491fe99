#include "runtime/parameters/model_tensors.h"

#include <set>
#include <utility>

#include "sim/program/blocks/parameters.h"

namespace foretrain {
namespace {

ParameterPlace Whole(std::string name, const ModelTensor& tensor, bool decays) {
  ParameterPlace place;
  place.name = std::move(name);
  place.rows = place.row_end = tensor.rows;
  place.cols = place.col_end = tensor.cols;
  place.decays = decays;
  return place;
}

}  // namespace

std::vector<ParameterPlace> TensorsOf(const ModelSpec& model, const Plan& plan) {
  Plan whole;
  whole.method = plan.method;
  whole.lora_rank = plan.lora_rank;
  whole.lora_alpha = plan.lora_alpha;
  std::vector<ParameterPlace> places;
  std::set<std::string> listed;
  const auto add = [&](BlockKind kind, const std::string& prefix) {
    for (const BlockParameter& parameter : ParametersOf(model, whole, kind)) {
      for (const ModelTensor& part : parameter.parts) {
        std::string name = prefix + part.name;
        if (!listed.insert(name).second) continue;
        places.push_back(Whole(std::move(name), part, parameter.decays));
      }
    }
  };
  add(BlockKind::kEmbedding, "");
  for (std::int64_t layer = 0; layer < model.AllLayers(); ++layer) {
    add(KindOfLayer(model, layer), "layers." + std::to_string(layer) + ".");
  }
  add(BlockKind::kHead, "");
  return places;
}

bool IsAdapter(const std::string& name) { return name.find(".lora_") != std::string::npos; }

}  // namespace foretrain
