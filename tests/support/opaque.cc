#include "tests/support/opaque.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "sim/config/schedule/placement.h"
#include "sim/program/ir/groups.h"
#include "sim/program/schedules/ring.h"
#include "sim/program/schedules/transfers.h"

namespace foretrain {
namespace {

// Index of each block in Program::blocks.
enum BlockNumber : std::int32_t {
  kForwardBlock,
  kBackwardBlock,
  kInputBlock,
  kWeightBlock,
  kPairForwardBlock,
  kPairBackwardBlock,
  kSendNextBlock,
  kSendPrevBlock,
  kRecvNextBlock,
  kRecvPrevBlock,
};

// Slots of the compute blocks; the ends of the pipeline leave some of them unbound. kPartnerIn is
// the input of a pair's second slot, which the pair's forward waits for too.
enum SlotNumber : std::int16_t { kIn, kOut, kKept, kPartnerIn };

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

// `times` are those of one chunk. A pair is two instructions: the first takes the time of both, the
// second takes none.
std::vector<Block> MakeBlocks(const SlotTimes& times, bool early_input_gradient) {
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
  Block pair_forward = ComputeBlock("opaque.pair.forward", "x", "y");
  pair_forward.slots.push_back(
      {"dy", kOpaqueUnitBytes, Category::kCommunication, SlotRole::kOther, kPartnerIn});
  AddOp(pair_forward, "pair", times.forward_s + times.input_s + times.weight_s,
        {in, {kPartnerIn, Access::kRead}, out, {kKept, Access::kWrite}});
  Block pair_backward = ComputeBlock("opaque.pair.backward", "dy", "dx");
  AddOp(pair_backward, "pair", 0, {in, kept, out});
  return {std::move(forward),         std::move(backward),        std::move(input),
          std::move(weight),          std::move(pair_forward),    std::move(pair_backward),
          TransferBlock(true, true),  TransferBlock(true, false), TransferBlock(false, true),
          TransferBlock(false, false)};
}

// Emits one rank: every slot with its receives before it and its send after it.
class Writer {
 public:
  Writer(const Placement& placement, const PipelineShape& shape, RankProgram& rank)
      : placement_(placement), shape_(shape), rank_(rank) {}

  void Add(const std::vector<SlotWithTransfers>& slots) {
    MakeRings(slots);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      for (const Transfer& transfer : slots[i].receives) {
        if (tensors_.count(Name(transfer)) == 0 || !rings_) {
          tensors_[Name(transfer)] = NewBuffer(Category::kCommunication);
        }
        AddTransfer(InstructionKind::kRecv, transfer);
      }
      const bool second = i > 0 && slots[i - 1].slot.paired;
      AddSlot(slots[i].slot, slots[i].slot.paired ? &slots[i + 1].slot : nullptr, second);
      if (slots[i].send) AddTransfer(InstructionKind::kSend, *slots[i].send);
    }
  }

  // If steps overlap, the tensors that a forward keeps and receives need buffers that outlive the
  // step. They lie in rings; a receive needs one more than the forwards in flight, since it may
  // arrive while the oldest is still in use.
  void MakeRings(const std::vector<SlotWithTransfers>& slots) {
    const auto is_for_next_step = [](const SlotWithTransfers& slot) {
      return slot.slot.for_next_step;
    };
    const auto receives_for_next_step = [](const SlotWithTransfers& slot) {
      return std::any_of(slot.receives.begin(), slot.receives.end(),
                         [](const Transfer& transfer) { return transfer.for_next_step; });
    };
    const auto lead = static_cast<int>(std::count_if(slots.begin(), slots.end(), is_for_next_step));
    rings_ = lead > 0 || std::any_of(slots.begin(), slots.end(), receives_for_next_step);
    if (!rings_) return;
    const int stage = placement_.StageOf(rank_.pp, 0);
    if (lead > 0) {
      for (const auto& [i, place] : MakeRing(lead + 1, Category::kActivations)) {
        kept_[{0, i}] = place;
      }
    }
    if (stage == 0) return;
    for (const auto& [i, place] : MakeRing(lead + 2, Category::kCommunication)) {
      tensors_[{true, stage - 1, i}] = place;
    }
  }

 private:
  // Names a tensor by (forward, stage that makes it, micro-batch).
  using TensorName = std::tuple<bool, int, int>;
  static TensorName Name(const Transfer& transfer) {
    return {transfer.pass == Pass::kForward, transfer.stage, transfer.micro_batch};
  }

  std::map<int, Binding> MakeRing(int life, Category category) {
    const Ring ring(shape_.m, life);
    std::vector<Binding> places;
    for (int i = 0; i < ring.Size(); ++i) {
      places.push_back(NewBuffer(category));
      rank_.buffers.back().persistent = true;
      rank_.buffers.back().holds = Holds::kMicroBatch;
    }
    std::map<int, Binding> by_micro_batch;
    for (int i = 0; i < shape_.m; ++i) {
      by_micro_batch[i] = places[static_cast<std::size_t>(ring.PlaceOf(i))];
    }
    return by_micro_batch;
  }

  Binding NewBuffer(Category category) {
    Buffer buffer;
    buffer.bytes = kOpaqueUnitBytes;
    buffer.category = category;
    rank_.buffers.push_back(buffer);
    return {static_cast<std::int32_t>(rank_.buffers.size()) - 1, 0, kOpaqueUnitBytes};
  }

  // The tensor that a slot reads: output of the stage before it or, for gradients, of the stage
  // after it. Empty at the ends of the model.
  Binding InputOf(const Slot& slot) const {
    const bool forward = slot.pass == Pass::kForward;
    const int maker = placement_.StageOf(rank_.pp, slot.chunk) + (forward ? -1 : 1);
    if (maker < 0 || maker == placement_.stages()) return {};
    return tensors_.at({forward, maker, slot.micro_batch});
  }

  // The first slot of a chunk and micro-batch creates the kept buffer, and all later ones use it.
  // The last stage's forward and the first stage's gradient have no output.
  void AddSlot(const Slot& slot, const Slot* partner, bool second) {
    const bool forward = slot.pass == Pass::kForward;
    const int stage = placement_.StageOf(rank_.pp, slot.chunk);
    const InstructionKey key{InstructionKind::kBlock, slot.pass, stage, slot.micro_batch, 0};
    const auto [found, is_new] = kept_.try_emplace({slot.chunk, slot.micro_batch});
    if (is_new) found->second = NewBuffer(Category::kActivations);
    const Binding& kept = found->second;
    if (slot.pass == Pass::kBackwardWeight) {
      AppendInstruction(rank_, key, kWeightBlock, {{}, {}, kept});
      return;
    }
    Binding out;
    if (stage != (forward ? placement_.stages() - 1 : 0)) {
      out = tensors_[{forward, stage, slot.micro_batch}] = NewBuffer(Category::kCommunication);
    }
    std::vector<Binding> bindings = {InputOf(slot), out, kept};
    std::int32_t block = slot.pass == Pass::kBackward ? kBackwardBlock : kInputBlock;
    if (forward) block = kForwardBlock;
    if (second) block = kPairBackwardBlock;
    if (partner != nullptr) {
      block = kPairForwardBlock;
      bindings.push_back(InputOf(*partner));
    }
    AppendInstruction(rank_, key, block, bindings).for_next_step = slot.for_next_step;
  }

  void AddTransfer(InstructionKind kind, const Transfer& transfer) {
    const bool sends = kind == InstructionKind::kSend;
    const std::int32_t block = sends ? (transfer.down ? kSendNextBlock : kSendPrevBlock)
                                     : (transfer.down ? kRecvPrevBlock : kRecvNextBlock);
    AppendInstruction(rank_, {kind, transfer.pass, transfer.stage, transfer.micro_batch, 0}, block,
                      {tensors_.at(Name(transfer))})
        .for_next_step = transfer.for_next_step;
  }

  const Placement& placement_;
  const PipelineShape& shape_;
  RankProgram& rank_;
  bool rings_ = false;
  std::map<TensorName, Binding> tensors_;
  std::map<std::pair<int, int>, Binding> kept_;  // by (chunk, micro-batch)
};

}  // namespace

Program OpaquePipeline(ScheduleKind schedule, const PipelineShape& shape, const SlotTimes& times,
                       bool early_input_gradient) {
  const Placement placement(schedule, shape.p, shape.vpp);
  Program program;
  program.plan.pp = shape.p;
  program.plan.vpp = shape.vpp;
  program.plan.sequence = 1;
  program.plan.micro_batch = 1;
  program.plan.global_batch = shape.m;
  program.plan.schedule = schedule;
  const int share = placement.ChunksOfShare();
  program.blocks =
      MakeBlocks({times.forward_s / share, times.input_s / share, times.weight_s / share},
                 early_input_gradient);
  for (int r = 0; r < shape.p; ++r) {
    RankProgram& rank = program.ranks.emplace_back();
    rank.rank = r;
    rank.pp = r;
    rank.groups.fill(-1);
    for (const GroupKind kind : {GroupKind::kNext, GroupKind::kPrev}) {
      std::vector<int> members = GroupMembers(program.plan, {.pp = r}, kind);
      if (members.empty()) continue;
      const auto found = std::find(program.groups.begin(), program.groups.end(), members);
      rank.groups[static_cast<std::size_t>(kind)] =
          static_cast<std::int32_t>(found - program.groups.begin());
      if (found == program.groups.end()) program.groups.push_back(std::move(members));
    }
    Writer(placement, shape, rank).Add(SlotsWithTransfers(schedule, shape, r));
  }
  Link(program);
  const Result<void> verified = Verify(program);
  FT_CHECK(verified.has_value());
  return program;
}

}  // namespace foretrain
