// One rank while it is written down: buffers, blocks, bindings. Knows no strategy.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/program/lower/block_registry.h"
#include "sim/program/lower/skeleton.h"
#include "sim/program/lower/tensor_table.h"
#include "sim/program/lower/transfer_blocks.h"
#include "sim/program/program.h"

namespace foretrain {

class RankBuilder {
 public:
  // All three outlive the builder.
  RankBuilder(const LowerContext& context, BlockRegistry& blocks, RankProgram& rank)
      : context_(context), blocks_(blocks), rank_(rank) {}

  const LowerContext& Context() const { return context_; }
  TensorTable& Tensors() { return tensors_; }
  RankProgram& Rank() { return rank_; }
  // The bucket, with its buffers, that the key of a transfer or an update names.
  const Bucket& BucketOf(const InstructionKey& key) const {
    return rank_.buckets[static_cast<std::size_t>(key.part)];
  }

  int NewBuffer(std::int64_t bytes, Category category, Space space = Space::kDevice,
                NumberFormat format = NumberFormat::kFp32);
  // The tensor `name`: where the table has a place for it, as rings do, or a new buffer that the
  // table then has.
  int Make(const TensorName& name, std::int64_t bytes, Category category,
           NumberFormat format = NumberFormat::kFp32);
  // A buffer that lives for the whole run.
  int NewState(std::int64_t bytes, Category category, Space space = Space::kDevice,
               NumberFormat format = NumberFormat::kFp32);
  NumberFormat FormatOf(const Binding& binding) const {
    return rank_.buffers[static_cast<std::size_t>(binding.buffer)].format;
  }
  Binding Whole(int buffer) const;
  // Elements in the buffer's format, within it (FT_CHECK).
  Binding Part(int buffer, std::int64_t first_element, std::int64_t elements) const;

  // Number of the block called `key`, made by `make` when it is new.
  int FindBlock(const std::string& key, const std::function<Block()>& make) {
    return blocks_.Find(key, make);
  }
  int FindCollective(const CollectiveSpec& spec);
  const std::vector<TensorSlot>& SlotsOf(int block) const { return blocks_[block].slots; }

  // Whether the instructions from here on work for the next step.
  void SetAhead(bool ahead) { ahead_ = ahead; }
  bool IsAhead() const { return ahead_; }

  // The next instruction, with one binding a slot of the block.
  void Add(const InstructionKey& key, int block, const std::vector<Binding>& bindings);

 private:
  const LowerContext& context_;
  BlockRegistry& blocks_;
  RankProgram& rank_;
  TensorTable tensors_;
  bool ahead_ = false;
};

}  // namespace foretrain
