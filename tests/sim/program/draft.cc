#include "tests/sim/program/draft.h"

#include <numeric>
#include <utility>

namespace foretrain {
namespace {

std::size_t At(int index) { return static_cast<std::size_t>(index); }
std::size_t At(GroupKind kind) { return static_cast<std::size_t>(kind); }

}  // namespace

Draft::Draft(int ranks) {
  std::vector<int> all(At(ranks));
  std::iota(all.begin(), all.end(), 0);
  program.groups.push_back(all);
  for (int r = 0; r < ranks; ++r) {
    RankProgram& rank = program.ranks.emplace_back();
    rank.rank = rank.pp = r;
    rank.groups.fill(-1);
    rank.groups[At(GroupKind::kDp)] = 0;
    if (r > 0) rank.groups[At(GroupKind::kPrev)] = r;
    if (r + 1 < ranks) {
      rank.groups[At(GroupKind::kNext)] = r + 1;
      program.groups.push_back({r, r + 1});
    }
  }
}

int Draft::NewBuffer(int rank, std::int64_t bytes, Space space, bool persistent) {
  Buffer buffer;
  buffer.bytes = bytes;
  buffer.space = space;
  buffer.persistent = persistent;
  Rank(rank).buffers.push_back(buffer);
  return static_cast<int>(Rank(rank).buffers.size()) - 1;
}

int Draft::Temporary(int rank, std::int64_t bytes, Space space) {
  return NewBuffer(rank, bytes, space, false);
}
int Draft::State(int rank, std::int64_t bytes, Space space) {
  return NewBuffer(rank, bytes, space, true);
}

int Draft::Append(int rank, const InstructionKey& key, Op op, const std::vector<Touch>& touches) {
  RankProgram& to = Rank(rank);
  const int number = static_cast<int>(to.step.size());
  foretrain::Block block;
  if (op.name.empty()) op.name = "op" + std::to_string(number);
  block.name = op.name;
  op.operand_count = static_cast<std::int32_t>(touches.size());
  Instruction instruction;
  instruction.key = key;
  instruction.block = static_cast<std::int32_t>(program.blocks.size());
  instruction.first_binding = static_cast<std::int32_t>(to.bindings.size());
  for (const Touch& touch : touches) {
    block.operands.push_back({static_cast<std::int16_t>(block.slots.size()), touch.access});
    TensorSlot& slot = block.slots.emplace_back();
    slot.name = "t" + std::to_string(block.slots.size() - 1);
    slot.bytes = touch.bytes < 0 ? to.buffers[At(touch.buffer)].bytes - touch.offset : touch.bytes;
    to.bindings.push_back({touch.buffer, touch.offset, slot.bytes});
  }
  block.ops.push_back(std::move(op));
  program.blocks.push_back(std::move(block));
  to.step.push_back(instruction);
  return number;
}

int Draft::Count(int rank, InstructionKind kind, Pass pass) const {
  int count = 0;
  for (const Instruction& i : program.ranks[At(rank)].step) {
    count += i.key.kind == kind && i.key.pass == pass;
  }
  return count;
}

int Draft::Add(int rank, Queue queue, const std::vector<Touch>& touches) {
  Op op;
  op.queue = queue;
  const int number = static_cast<int>(Rank(rank).step.size());
  return Append(rank, {InstructionKind::kOptimizerStep, Pass::kNone, 0, number, 0}, op, touches);
}

int Draft::Block(int rank, Pass pass, int block, int micro_batch,
                 const std::vector<Touch>& touches) {
  return Append(rank, {InstructionKind::kBlock, pass, block, micro_batch, 0}, Op(), touches);
}

int Draft::Send(int rank, bool down, const Touch& touch) {
  Op op;
  op.kind = OpKind::kSend;
  op.op_class = OpClass::kPpComm;
  op.queue = down ? Queue::kSendNext : Queue::kSendPrev;
  op.group = down ? GroupKind::kNext : GroupKind::kPrev;
  op.name = "send";
  const Pass pass = down ? Pass::kForward : Pass::kBackward;
  const int k = Count(rank, InstructionKind::kSend, pass);
  return Append(rank, {InstructionKind::kSend, pass, 0, k, 0}, op, {touch});
}

int Draft::Recv(int rank, bool down, const Touch& touch) {
  Op op;
  op.kind = OpKind::kRecv;
  op.op_class = OpClass::kPpComm;
  op.queue = down ? Queue::kRecvPrev : Queue::kRecvNext;
  op.group = down ? GroupKind::kPrev : GroupKind::kNext;
  op.name = "recv";
  const Pass pass = down ? Pass::kForward : Pass::kBackward;
  const int k = Count(rank, InstructionKind::kRecv, pass);
  return Append(rank, {InstructionKind::kRecv, pass, 0, k, 0}, op, {touch});
}

int Draft::AllReduce(int rank, Queue queue, const Touch& touch) {
  Op op;
  op.kind = OpKind::kAllReduce;
  op.op_class = OpClass::kDpComm;
  op.queue = queue;
  op.group = GroupKind::kDp;
  op.name = "sum";
  const int k = Count(rank, InstructionKind::kAllReduce, Pass::kNone);
  return Append(rank, {InstructionKind::kAllReduce, Pass::kNone, 0, k, 0}, op, {touch});
}

void Draft::After(int rank, int instruction) { Rank(rank).step.back().after = instruction; }

Instruction& Draft::InstructionAt(int rank, int op) { return Rank(rank).step[At(op)]; }

foretrain::Op& Draft::OpAt(int rank, int op) {
  return program.blocks[At(InstructionAt(rank, op).block)].ops[0];
}

Buffer& Draft::BufferAt(int rank, int buffer) { return Rank(rank).buffers[At(buffer)]; }

std::string EdgeText(const RankProgram& rank) {
  std::string text;
  for (const Edge& edge : rank.edges) {
    text += (text.empty() ? "" : " ") + std::to_string(edge.from) +
            (edge.distance == 0 ? "" : "'") + ">" + std::to_string(edge.to);
  }
  return text;
}

}  // namespace foretrain
