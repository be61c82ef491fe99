#include "sim/validate/stage_layers.h"

#include <algorithm>

namespace foretrain {

std::vector<int> StageLayers(std::int64_t layers, int stages, bool end_blocks_count) {
  // Embedding and head count as one block each. Leftover blocks go to the stages after the first,
  // then the first and last stage lose the layer that embedding and head stand for.
  const std::int64_t blocks = layers + 2;
  const bool counted = end_blocks_count || stages == blocks;
  if (stages <= 1 || stages > blocks || layers % stages == 0 || !counted) return {};
  std::vector<int> out(static_cast<std::size_t>(stages), static_cast<int>(blocks / stages));
  for (std::int64_t i = 0; i < blocks % stages; ++i) ++out[static_cast<std::size_t>(1 + i)];
  for (int* end : {&out.front(), &out.back()}) *end -= 1;
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
  // The last stage may have the head alone.
  const bool has_gap = std::find(out.begin(), out.end() - 1, 0) != out.end() - 1;
  return has_gap ? std::vector<int>() : out;
}

}  // namespace foretrain
