// Balances the layers of pipeline stages by time: the embedding weighs little, a large head as much
// as several layers.
#pragma once

#include <vector>

namespace foretrain {

// Number of layers of each of `stages` stages that minimizes the longest stage. Times are seconds
// of forward and backward of one micro-batch; the embedding is in the first stage, the head in the
// last. Among equals it picks one near the even split. Each stage has at least one layer.
// O(stages^2 + layers log(layers)).
std::vector<int> BalanceLayers(int layers, int stages, double embedding_s, double layer_s,
                               double head_s);

}  // namespace foretrain
