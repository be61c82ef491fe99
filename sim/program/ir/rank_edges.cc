#include "sim/program/ir/rank_edges.h"

#include <algorithm>
#include <tuple>

namespace foretrain {

void SortEdges(RankProgram& rank) {
  const auto order = [](const Edge& edge) { return std::tuple(edge.to, edge.from, edge.distance); };
  std::sort(rank.edges.begin(), rank.edges.end(),
            [&](const Edge& a, const Edge& b) { return order(a) < order(b); });
  const auto same = [&](const Edge& a, const Edge& b) { return order(a) == order(b); };
  rank.edges.erase(std::unique(rank.edges.begin(), rank.edges.end(), same), rank.edges.end());
}

}  // namespace foretrain
