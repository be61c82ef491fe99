// Writes one rank: buffers, blocks and bindings. Knows no strategy.
#pragma once

#include <cstdint>

#include "sim/program/ir/program.h"
#include "sim/program/lower/rank/block_registry.h"
#include "sim/program/lower/rank/skeleton.h"
#include "sim/program/lower/rank/step_description.h"
#include "sim/program/lower/rank/tensor_table.h"

namespace foretrain {

class RankBuilder {
 public:
  // All three outlive the builder.
  RankBuilder(const LowerContext& context, BlockRegistry& blocks, RankProgram& rank)
      : context_(context), blocks_(blocks), rank_(rank) {}

  const LowerContext& Context() const { return context_; }
  TensorTable& Tensors() { return tensors_; }
  const TensorTable& Tensors() const { return tensors_; }
  RankProgram& Rank() { return rank_; }
  const RankProgram& Rank() const { return rank_; }

  // A buffer that lives for the whole run.
  int NewState(std::int64_t bytes, Category category, Space space = Space::kDevice,
               NumberFormat format = NumberFormat::kFp32);
  // Sets whether the following instructions belong to the next step's batch.
  void SetAhead(bool ahead) { ahead_ = ahead; }

  // Appends an instruction: looks up the tensors that it uses, makes new ones, and drops those that
  // end.
  void Add(const InstructionKey& key, const StepDescription& step);

 private:
  Binding Bind(const TensorUse& use);
  int BufferOf(const TensorUse& use);
  int NewBuffer(std::int64_t bytes, Category category, Space space = Space::kDevice,
                NumberFormat format = NumberFormat::kFp32);
  // Buffer of tensor `name`: its place in the table, as rings have, or a new buffer that enters the
  // table.
  int Make(const TensorName& name, const TensorShape& shape);

  const LowerContext& context_;
  BlockRegistry& blocks_;
  RankProgram& rank_;
  TensorTable tensors_;
  bool ahead_ = false;
};

}  // namespace foretrain
