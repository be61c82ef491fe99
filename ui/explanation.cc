#include "ui/explanation.h"

#include <algorithm>

namespace foretrain {

// Ranks of one class share an entry. A rank without an entry of its own is looked up by the rank
// that stands for it.
const LiveAtPeak* LiveRanks::Of(int rank) const {
  const auto place = static_cast<std::size_t>(rank);
  const int wanted = rank >= 0 && place < stands_for.size() ? stands_for[place] : rank;
  const auto at = std::find_if(ranks.begin(), ranks.end(),
                               [wanted](const LiveAtPeak& of) { return of.rank == wanted; });
  return at == ranks.end() ? nullptr : &*at;
}

}  // namespace foretrain
