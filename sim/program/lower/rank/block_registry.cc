#include "sim/program/lower/rank/block_registry.h"

namespace foretrain {

// Keys name every size that a block depends on, so equal keys mean equal blocks and `make` runs
// once for each.
int BlockRegistry::Find(const std::string& key, const std::function<Block()>& make) {
  const auto [found, is_new] = numbers_.try_emplace(key, static_cast<int>(blocks_.size()));
  if (is_new) blocks_.push_back(make());
  return found->second;
}

}  // namespace foretrain
