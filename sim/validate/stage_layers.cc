#include "sim/validate/stage_layers.h"

namespace foretrain {

std::vector<int> StageLayers(std::int64_t layers, int stages, bool end_blocks_count) {
  // Embedding and head count as one block each. Leftover blocks go to the stages after the first,
  // then the first and last stage lose the layer that embedding and head stand for.
  if (stages <= 1 || layers % stages == 0 || !end_blocks_count || layers < stages) return {};
  const std::int64_t blocks = layers + 2;
  std::vector<int> out(static_cast<std::size_t>(stages), static_cast<int>(blocks / stages));
  for (std::int64_t i = 0; i < blocks % stages; ++i) ++out[static_cast<std::size_t>(1 + i)];
  for (int* end : {&out.front(), &out.back()}) *end -= 1;
  for (int& count : out) {
    if (count < 1) return {};
  }
  return out;
}

std::vector<int> StageLayersByParameters(const ModelSpec& model, int stages) {
  if (stages <= 1) return {};
  const double layer = static_cast<double>(model.hidden) *
                       static_cast<double>(model.QkvWidth() + model.heads * model.head_dim +
                                           model.MlpUpWidth() + model.ffn_hidden);
  const double head = static_cast<double>(model.vocab) * static_cast<double>(model.hidden);
  const double all = layer * static_cast<double>(model.layers) + head;
  std::vector<int> out(static_cast<std::size_t>(stages), 0);
  std::size_t stage = 0;
  // A stage ends at the layer with which the sum of parameters passes its share.
  for (std::int64_t i = 1; i <= model.layers; ++i) {
    ++out[stage];
    const double share = all * static_cast<double>(stage + 1) / stages;
    if (layer * static_cast<double>(i) > share && stage + 1 < out.size()) ++stage;
  }
  for (const int count : out) {
    if (count < 1) return {};
  }
  return out;
}

}  // namespace foretrain
