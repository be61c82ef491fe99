#include "sim/program/opaque.h"

#include <string>
#include <utility>

#include "sim/program/schedules/schedule.h"

namespace foretrain {
namespace {

// Blocks of the program, in this order.
enum BlockNumber : std::int32_t {
  kForwardBlock,
  kBackwardBlock,
  kInputBlock,
  kWeightBlock,
  kSendNextBlock,
  kSendPrevBlock,
  kRecvNextBlock,
  kRecvPrevBlock,
};

// Slots of the compute blocks; the ends of the pipeline leave some of them out.
enum SlotNumber : std::int16_t { kIn, kOut, kKept };

Block ComputeBlock(std::string name, const char* in, const char* out) {
  Block block;
  block.name = std::move(name);
  block.slots = {
      {in, kOpaqueUnitBytes, Category::kCommunication, SlotRole::kOther, kIn},
      {out, kOpaqueUnitBytes, Category::kCommunication, SlotRole::kOther, kOut},
      {"kept", kOpaqueUnitBytes, Category::kActivations, SlotRole::kSaved, 0},
  };
  return block;
}

void AddOp(Block& block, const char* name, double duration_s,
           const std::vector<Operand>& operands) {
  Op op;
  op.kind = OpKind::kOpaque;
  op.op_class = OpClass::kGemm;
  op.name = name;
  op.duration_s = duration_s;
  op.first_operand = static_cast<std::int32_t>(block.operands.size());
  op.operand_count = static_cast<std::int32_t>(operands.size());
  block.operands.insert(block.operands.end(), operands.begin(), operands.end());
  block.ops.push_back(std::move(op));
}

Block TransferBlock(bool sends, bool next) {
  Block block;
  block.name = std::string(sends ? "send." : "recv.") + (next ? "next" : "prev");
  block.slots = {{"tensor", kOpaqueUnitBytes, Category::kCommunication, SlotRole::kOther, 0}};
  AddOp(block, sends ? "send" : "recv", 0, {{0, sends ? Access::kRead : Access::kWrite}});
  Op& op = block.ops.back();
  op.kind = sends ? OpKind::kSend : OpKind::kRecv;
  op.op_class = OpClass::kPpComm;
  op.group = next ? GroupKind::kNext : GroupKind::kPrev;
  op.queue = sends ? (next ? Queue::kSendNext : Queue::kSendPrev)
                   : (next ? Queue::kRecvNext : Queue::kRecvPrev);
  op.shape.elements = kOpaqueUnitBytes / 4;
  return block;
}

std::vector<Block> MakeBlocks(const OpaqueTimes& times, bool early_input_gradient) {
  const Operand in{kIn, Access::kRead};
  const Operand out{kOut, Access::kWrite};
  const Operand kept{kKept, Access::kRead};
  Block forward = ComputeBlock("opaque.forward", "x", "y");
  AddOp(forward, "forward", times.forward_s, {in, out, {kKept, Access::kWrite}});
  Block backward = ComputeBlock("opaque.backward", "dy", "dx");
  if (early_input_gradient) {
    AddOp(backward, "input", times.input_s, {in, kept, out});
    AddOp(backward, "weight", times.weight_s, {kept});
  } else {
    AddOp(backward, "backward", times.input_s + times.weight_s, {in, kept, out});
  }
  Block input = ComputeBlock("opaque.backward_input", "dy", "dx");
  AddOp(input, "input", times.input_s, {in, kept, out});
  Block weight = ComputeBlock("opaque.backward_weight", "dy", "dx");
  AddOp(weight, "weight", times.weight_s, {kept});
  return {std::move(forward),         std::move(backward),        std::move(input),
          std::move(weight),          TransferBlock(true, true),  TransferBlock(true, false),
          TransferBlock(false, true), TransferBlock(false, false)};
}

// Writes down one rank: every slot with its receive before and its send behind it.
class Writer {
 public:
  Writer(int p, int m, RankProgram& rank)
      : is_first_(rank.pp == 0),
        is_last_(rank.pp == p - 1),
        rank_(rank),
        kept_(static_cast<std::size_t>(m)) {}

  void Add(const Slot& slot) {
    const int mb = slot.micro_batch;
    Binding& kept = kept_[static_cast<std::size_t>(mb)];
    const InstructionKey key{InstructionKind::kBlock, slot.pass, rank_.pp, mb, 0};
    if (slot.pass == Pass::kForward) {
      kept = NewBuffer(Category::kActivations);
      const Binding x = is_first_ ? Binding{} : Receive(slot.pass, kRecvPrevBlock, mb);
      const Binding y = is_last_ ? Binding{} : NewBuffer(Category::kCommunication);
      AppendInstruction(rank_, key, kForwardBlock, {x, y, kept});
      if (!is_last_) Transfer(InstructionKind::kSend, slot.pass, kSendNextBlock, mb, y);
    } else if (slot.pass == Pass::kBackwardWeight) {
      AppendInstruction(rank_, key, kWeightBlock, {{}, {}, kept});
    } else {
      const Binding dy = is_last_ ? Binding{} : Receive(slot.pass, kRecvNextBlock, mb);
      const Binding dx = is_first_ ? Binding{} : NewBuffer(Category::kCommunication);
      AppendInstruction(rank_, key, slot.pass == Pass::kBackward ? kBackwardBlock : kInputBlock,
                        {dy, dx, kept});
      if (!is_first_) Transfer(InstructionKind::kSend, slot.pass, kSendPrevBlock, mb, dx);
    }
  }

 private:
  Binding NewBuffer(Category category) {
    Buffer buffer;
    buffer.bytes = kOpaqueUnitBytes;
    buffer.category = category;
    rank_.buffers.push_back(buffer);
    return {static_cast<std::int32_t>(rank_.buffers.size()) - 1, 0, kOpaqueUnitBytes};
  }

  // A boundary tensor is named by the rank that makes it.
  void Transfer(InstructionKind kind, Pass pass, std::int32_t block, int mb,
                const Binding& tensor) {
    const bool forward = pass == Pass::kForward;
    const int received_from = forward ? rank_.pp - 1 : rank_.pp + 1;
    const int maker = kind == InstructionKind::kSend ? rank_.pp : received_from;
    AppendInstruction(rank_, {kind, pass, maker, mb, 0}, block, {tensor});
  }

  Binding Receive(Pass pass, std::int32_t block, int mb) {
    const Binding tensor = NewBuffer(Category::kCommunication);
    Transfer(InstructionKind::kRecv, pass, block, mb, tensor);
    return tensor;
  }

  bool is_first_;
  bool is_last_;
  RankProgram& rank_;
  std::vector<Binding> kept_;  // by micro-batch
};

}  // namespace

Program OpaquePipeline(ScheduleKind schedule, int p, int m, const OpaqueTimes& times,
                       bool early_input_gradient) {
  Program program;
  program.plan.pp = p;
  program.plan.sequence = 1;
  program.plan.micro_batch = 1;
  program.plan.global_batch = m;
  program.plan.schedule = schedule;
  program.blocks = MakeBlocks(times, early_input_gradient);
  for (int r = 0; r + 1 < p; ++r) program.groups.push_back({r, r + 1});
  for (int r = 0; r < p; ++r) {
    RankProgram& rank = program.ranks.emplace_back();
    rank.rank = r;
    rank.pp = r;
    rank.groups.fill(-1);
    if (r + 1 < p) rank.groups[static_cast<std::size_t>(GroupKind::kNext)] = r;
    if (r > 0) rank.groups[static_cast<std::size_t>(GroupKind::kPrev)] = r - 1;
    Writer writer(p, m, rank);
    for (const Slot& slot : MakeSlots(schedule, p, m, r)) writer.Add(slot);
  }
  Link(program);
  const Result<void> verified = Verify(program);
  FT_CHECK(verified.has_value());
  return program;
}

}  // namespace foretrain
