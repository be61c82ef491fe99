// Turns a skeleton into a rank's instructions: picks the block of each key and binds its tensors to
// buffers. Leaves out order, lives and addresses: Link.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/program/lower/skeleton.h"
#include "sim/program/program.h"

namespace foretrain {

// The blocks of a program, each made once.
class BlockRegistry {
 public:
  // Number of the block called `key`, made by `make` when it is new.
  int Find(const std::string& key, const std::function<Block()>& make);
  std::vector<Block> Take() { return std::move(blocks_); }
  const Block& operator[](int block) const { return blocks_[static_cast<std::size_t>(block)]; }

 private:
  std::map<std::string, int> numbers_;
  std::vector<Block> blocks_;
};

// `rank` has its coordinates; fills step, bindings, buffers, buckets and parameters.
void EmitRank(const LowerContext& context, const Skeleton& skeleton, BlockRegistry& registry,
              RankProgram& rank);

}  // namespace foretrain
