// The blocks of a program. Each is made once and shared by all ranks.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/program/ir/op.h"

namespace foretrain {

class BlockRegistry {
 public:
  // Number of the block called `key`; `make` makes it if it is new.
  int Find(const std::string& key, const std::function<Block()>& make);
  std::vector<Block> Take() { return std::move(blocks_); }
  // Exchanges the blocks for `blocks`. Find must not be called until they are given back.
  void Swap(std::vector<Block>& blocks) { blocks_.swap(blocks); }
  const Block& operator[](int block) const { return blocks_[static_cast<std::size_t>(block)]; }

 private:
  std::map<std::string, int> numbers_;
  std::vector<Block> blocks_;
};

}  // namespace foretrain
