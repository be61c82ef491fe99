#include "tests/runtime/program_builder.h"

#include <numeric>
#include <utility>

namespace foretrain {

ProgramBuilder::ProgramBuilder(int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  program_.plan.dp = ranks;
  program_.groups.push_back(all);
  for (int rank = 0; rank < ranks; ++rank) {
    RankProgram& made = program_.ranks.emplace_back();
    made.rank = rank;
    made.dp = rank;
    made.groups.fill(0);
    made.groups[static_cast<std::size_t>(GroupKind::kNone)] = -1;
    made.groups[static_cast<std::size_t>(GroupKind::kNext)] = -1;
    made.groups[static_cast<std::size_t>(GroupKind::kPrev)] = -1;
    if (rank + 1 < ranks) {
      made.groups[static_cast<std::size_t>(GroupKind::kNext)] =
          static_cast<std::int32_t>(program_.groups.size());
      program_.groups.push_back({rank, rank + 1});
    }
    if (rank > 0) {
      made.groups[static_cast<std::size_t>(GroupKind::kPrev)] = rank;
    }
  }
}

std::int32_t ProgramBuilder::Buffer(int rank, std::int64_t floats, bool persistent,
                                    Category category) {
  foretrain::Buffer buffer;
  buffer.bytes = floats * 4;
  buffer.persistent = persistent;
  buffer.category = category;
  auto& buffers = program_.ranks[static_cast<std::size_t>(rank)].buffers;
  buffers.push_back(buffer);
  return static_cast<std::int32_t>(buffers.size()) - 1;
}

Op& ProgramBuilder::Add(int rank, OpKind kind, Queue queue, std::initializer_list<Tensor> tensors,
                        const std::string& name) {
  RankProgram& at = program_.ranks[static_cast<std::size_t>(rank)];
  Block block;
  Op op;
  op.kind = kind;
  op.queue = queue;
  op.op_class = IsCommunication(kind)        ? OpClass::kDpComm
                : queue == Queue::kHost      ? OpClass::kHost
                : kind == OpKind::kLoadBatch ? OpClass::kCopy
                                             : OpClass::kGemm;
  op.operand_count = static_cast<std::int32_t>(tensors.size());
  op.name = name.empty() ? std::string(Name(kind)) + "." + std::to_string(at.step.size()) : name;
  block.name = op.name;

  Instruction instruction;
  instruction.key.micro_batch = static_cast<int>(at.step.size());
  instruction.block = static_cast<std::int32_t>(program_.blocks.size());
  instruction.first_binding = static_cast<std::int32_t>(at.bindings.size());
  for (const Tensor& tensor : tensors) {
    if (tensor.buffer < 0) {
      block.operands.push_back({kNoSlot, Access::kRead});
      continue;
    }
    const foretrain::Buffer& buffer = at.buffers[static_cast<std::size_t>(tensor.buffer)];
    const std::int64_t bytes = tensor.size == 0 ? buffer.bytes : tensor.size * 4;
    block.operands.push_back({static_cast<std::int16_t>(block.slots.size()), tensor.access});
    block.slots.push_back(
        {"t" + std::to_string(block.slots.size()), bytes, buffer.category, SlotRole::kOther, 0});
    at.bindings.push_back({tensor.buffer, tensor.begin * 4, bytes});
  }
  block.ops.push_back(std::move(op));
  at.step.push_back(instruction);
  program_.blocks.push_back(std::move(block));
  return program_.blocks.back().ops.back();
}

Op& ProgramBuilder::Opaque(int rank, Queue queue, double seconds,
                           std::initializer_list<Tensor> tensors, const std::string& name) {
  Op& op = Add(rank, OpKind::kOpaque, queue, tensors, name);
  op.duration_s = seconds;
  return op;
}

Op& ProgramBuilder::AllReduce(int rank, Queue queue, std::int32_t buffer, std::int64_t elements,
                              const std::string& name) {
  Op& op = Add(rank, OpKind::kAllReduce, queue,
               {{buffer, Access::kReadWrite}, {buffer, Access::kReadWrite}}, name);
  op.group = GroupKind::kWorld;
  op.shape.elements = elements;
  return op;
}

Op& ProgramBuilder::ReadLoss(int rank, std::int32_t buffer) {
  return Add(rank, OpKind::kHostRead, Queue::kHost, {{buffer, Access::kRead}}, "read");
}

void ProgramBuilder::After(int rank, std::int32_t earlier) {
  program_.ranks[static_cast<std::size_t>(rank)].step.back().after = earlier;
}

std::shared_ptr<const Program> ProgramBuilder::Take() {
  Link(program_);
  return std::make_shared<const Program>(std::move(program_));
}

}  // namespace foretrain
