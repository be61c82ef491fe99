// Counts the layers of each kind and the parameters of the whole model.
#include "sim/program/blocks/parameters.h"

namespace foretrain {
namespace {

// True if head parameter `index` is the choice bias of an MTP layer's router.
bool IsChoiceBiasOfMtp(const ModelSpec& m, std::size_t index) {
  for (int depth = 0; depth < m.predict_ahead; ++depth) {
    const int bias = MtpIndex(depth, int{kMtpLayer} + kChoiceBias);
    if (index == static_cast<std::size_t>(bias)) return true;
  }
  return false;
}

}  // namespace

std::vector<LayerCount> LayerCounts(const ModelSpec& model) {
  if (model.HasEncoder()) {
    return {{BlockKind::kLayer, model.encoder_layers},
            {BlockKind::kFirstDecoderLayer, 1},
            {BlockKind::kDecoderLayer, model.layers - 1}};
  }
  const std::int64_t dense = model.DenseLayers();
  return {{BlockKind::kLayer, dense}, {BlockKind::kExpertLayer, model.layers - dense}};
}

ParameterCounts CountParameters(const ModelSpec& model, const Plan& plan) {
  ParameterCounts counts;
  Plan whole = plan;
  whole.ep = 1;
  whole.vocab_multiple = 1;
  std::vector<LayerCount> kinds = LayerCounts(model);
  for (const BlockKind end : {BlockKind::kEmbedding, BlockKind::kHead}) kinds.push_back({end, 1});
  for (const auto& [kind, copies] : kinds) {
    if (copies == 0) continue;
    const auto list = ParametersOf(model, whole, kind);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const BlockParameter& parameter = list[i];
      // The router's choice bias is set by load balancing and never by a gradient, so it is no
      // trained parameter.
      const bool untrained = (IsLayer(kind) && i == kChoiceBias) ||
                             (kind == BlockKind::kHead && IsChoiceBiasOfMtp(model, i));
      if (parameter.parts.empty() || untrained) continue;
      const bool again =
          kind == BlockKind::kHead && parameter.parts.front().name == kTokenTableName;
      if (again) continue;
      const std::int64_t elements = copies * ElementsOf(parameter, /*tp=*/1);
      counts.all += elements;
      if (!parameter.frozen) counts.trained += elements;
    }
  }
  return counts;
}

}  // namespace foretrain
