#include "sim/program/lower/layout/stage.h"

#include <algorithm>

#include "base/result.h"
#include "sim/config/schedule/placement.h"

namespace foretrain {

std::size_t Stage::Local(int block) const {
  const auto found = std::lower_bound(blocks.begin(), blocks.end(), block);
  FT_CHECK(found != blocks.end() && *found == block);
  return static_cast<std::size_t>(found - blocks.begin());
}

const Chunk& Stage::ChunkOf(int block) const {
  const auto holds = [block](const Chunk& chunk) {
    return chunk.first_block <= block && block <= chunk.last_block;
  };
  const auto found = std::find_if(chunks.begin(), chunks.end(), holds);
  FT_CHECK(found != chunks.end());
  return *found;
}

// O(stages): block numbers follow from the layers of the stages before.
Chunk BlocksOfStage(const ModelSpec& model, const Plan& plan, int stage) {
  const int layers = static_cast<int>(model.AllLayers());
  const int stages = Placement(plan).stages();
  const auto layers_of = [&](int s) {
    if (!plan.stage_layers.empty()) return plan.stage_layers[static_cast<std::size_t>(s)];
    return layers / stages + (s < layers % stages ? 1 : 0);
  };
  Chunk chunk{1, 0};
  for (int s = 0; s < stage; ++s) chunk.first_block += layers_of(s);
  chunk.last_block = chunk.first_block + layers_of(stage) - 1;
  if (stage == 0) chunk.first_block = 0;
  if (stage == stages - 1) ++chunk.last_block;
  return chunk;
}

// `blocks` is sorted, because chunks of some schedules are not in the order of the model.
Stage StageOf(const ModelSpec& model, const Plan& plan, int pp) {
  const Placement placement(plan);
  Stage stage;
  stage.layers = static_cast<int>(model.AllLayers());
  stage.encoder_layers = static_cast<int>(model.encoder_layers);
  stage.dense_layers =
      static_cast<int>(model.experts > 0 ? model.first_dense_layers : model.AllLayers());
  stage.expert_every = static_cast<int>(model.expert_every);
  for (int c = 0; c < placement.chunks(); ++c) {
    Chunk chunk = BlocksOfStage(model, plan, placement.StageOf(pp, c));
    chunk.direction = placement.DirectionOf(c);
    for (int block = chunk.first_block; block <= chunk.last_block; ++block) {
      stage.blocks.push_back(block);
    }
    stage.chunks.push_back(chunk);
  }
  std::sort(stage.blocks.begin(), stage.blocks.end());
  stage.tied = HasTiedCopy(model);
  stage.tied_copy = TiedCopyOf(model);
  stage.shared_table = stage.tied && stage.HoldsEmbedding() && stage.HoldsHead();
  return stage;
}

}  // namespace foretrain
