// Layers of each pipeline stage so that no stage takes longer than it must: the embedding weighs
// little, a large head as much as several layers.
#pragma once

#include <vector>

namespace foretrain {

// Layers of each of `stages` stages with the shortest longest stage, by the seconds of forward and
// backward of one micro-batch: embedding with the first, head with the last. Of equals one near the
// even deal. Each stage has a layer at least. O(stages^2 + layers log(layers)).
std::vector<int> BalanceLayers(int layers, int stages, double embedding_s, double layer_s,
                               double head_s);

}  // namespace foretrain
