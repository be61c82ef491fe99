#include <algorithm>
#include <cstddef>
#include <string>
#include <tuple>
#include <unordered_map>

#include "sim/program/ops/op_kinds.h"
#include "sim/program/verify/checks.h"

namespace foretrain {
namespace {

tl::unexpected<Error> Bad(const RankProgram& rank, const std::string& what) {
  return Fail(ErrorCode::kInvalidArgument, "rank " + std::to_string(rank.rank) + ": " + what);
}

template <class T>
bool Has(const std::vector<T>& items, std::int64_t index) {
  return index >= 0 && index < static_cast<std::int64_t>(items.size());
}

// Sizes are compared in 64 bits, because first_operand + operand_count of a malformed block may
// overflow.
Result<void> CheckBlock(const Block& block) {
  const auto bad = [&block](const std::string& what) {
    return Fail(ErrorCode::kInvalidArgument, "block " + block.name + ": " + what);
  };
  if (block.ops.size() >= static_cast<std::size_t>(kWholeInstruction)) {
    return bad(std::to_string(block.ops.size()) + " ops; a block has less than 4095");
  }
  for (const Op& op : block.ops) {
    const std::int64_t end = std::int64_t{op.first_operand} + op.operand_count;
    if (op.first_operand < 0 || op.operand_count < 0 ||
        end > static_cast<std::int64_t>(block.operands.size())) {
      return bad("op " + op.name + " has operands outside the block's");
    }
    FT_TRY(CheckOp(block, op));
  }
  for (const Operand& operand : block.operands) {
    if (operand.slot != kNoSlot && !Has(block.slots, operand.slot)) {
      return bad("an operand names slot " + std::to_string(operand.slot) + " of " +
                 std::to_string(block.slots.size()));
    }
  }
  return {};
}

// Limits of the fields that PackId packs into an op id.
bool IsPackable(const InstructionKey& key) {
  return key.block >= 0 && key.block < (1 << 13) && key.micro_batch >= 0 &&
         key.micro_batch < (1 << 18) && key.part >= 0 && key.part < (1 << 12);
}

// Every binding lies inside its buffer. An empty binding (an absent operand) may name no buffer.
Result<void> CheckBindings(const Program& program, const RankProgram& rank,
                           const Instruction& instruction) {
  const Block& block = program.blocks[static_cast<std::size_t>(instruction.block)];
  const std::string name = Describe(PackId(instruction.key));
  const auto slots = static_cast<std::int64_t>(block.slots.size());
  if (instruction.first_binding < 0 ||
      instruction.first_binding + slots > static_cast<std::int64_t>(rank.bindings.size())) {
    return Bad(rank, name + " has bindings outside the rank's");
  }
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    const Binding& binding =
        rank.bindings[static_cast<std::size_t>(instruction.first_binding + slot)];
    if (binding.bytes == 0) continue;
    const std::string what = name + " binds " + block.slots[static_cast<std::size_t>(slot)].name;
    if (!Has(rank.buffers, binding.buffer)) {
      return Bad(rank, what + " to buffer " + std::to_string(binding.buffer) + " of " +
                           std::to_string(rank.buffers.size()));
    }
    const std::int64_t size = rank.buffers[static_cast<std::size_t>(binding.buffer)].bytes;
    if (binding.bytes < 0 || binding.offset < 0 || binding.bytes > size ||
        binding.offset > size - binding.bytes) {
      return Bad(rank, what + " to bytes " + std::to_string(binding.offset) + " + " +
                           std::to_string(binding.bytes) + " of buffer " +
                           std::to_string(binding.buffer) + ", which has " + std::to_string(size));
    }
  }
  return {};
}

// Whether an op may touch memory of `space`: a copy only the spaces it names, an op on the host's
// processors pinned or host memory, any other op device memory.
bool MayTouch(const Op& op, int operand, Space space) {
  if (op.kind == OpKind::kOpaque) return true;
  if (op.kind == OpKind::kCopy) return space == (operand == 0 ? op.from : op.to);
  if (op.queue == Queue::kCpu) return space == Space::kPinned || space == Space::kHost;
  return space == Space::kDevice;
}

// Checks the space of every operand, and that both sides of a copy have the same size.
Result<void> CheckSpaces(const Program& program, const RankProgram& rank,
                         const Instruction& instruction) {
  const Block& block = program.blocks[static_cast<std::size_t>(instruction.block)];
  for (const Op& op : block.ops) {
    std::int64_t copied = -1;
    for (std::int32_t i = 0; i < op.operand_count; ++i) {
      const auto slot = block.operands[static_cast<std::size_t>(op.first_operand + i)].slot;
      if (slot == kNoSlot) continue;
      const Binding& binding =
          rank.bindings[static_cast<std::size_t>(instruction.first_binding + slot)];
      const bool unlike = op.kind == OpKind::kCopy && copied >= 0 && copied != binding.bytes;
      copied = binding.bytes;
      if (binding.bytes == 0) continue;
      const Space space = rank.buffers[static_cast<std::size_t>(binding.buffer)].space;
      if (!unlike && MayTouch(op, i, space)) continue;
      const std::string what = Describe(PackId(instruction.key)) + ", " + op.name;
      if (unlike) return Bad(rank, what + " copies between ranges of unequal size");
      return Bad(rank, what + " on " + std::string(Name(op.queue)) + " touches " +
                           block.slots[static_cast<std::size_t>(slot)].name + ", which lies in " +
                           std::string(Name(space)) + " memory");
    }
  }
  return {};
}

// Checks the tables in the order in which they are used: key, block, bindings, spaces, then the
// numbers that Link fills in.
Result<void> CheckInstructions(const Program& program, const RankProgram& rank) {
  std::unordered_map<OpId, std::size_t> seen;
  std::int32_t ops = 0;
  for (std::size_t i = 0; i < rank.step.size(); ++i) {
    const Instruction& instruction = rank.step[i];
    if (!IsPackable(instruction.key)) {
      return Bad(rank, "instruction " + std::to_string(i) + " has a key that no id can hold");
    }
    // Ids join forecast and measurement, so they must be unique in a step.
    const OpId id = PackId(instruction.key);
    if (!seen.try_emplace(id, i).second) {
      return Bad(rank, Describe(id) + " is in the step twice, at " + std::to_string(seen[id]) +
                           " and " + std::to_string(i));
    }
    if (!Has(program.blocks, instruction.block)) {
      return Bad(rank, Describe(id) + " names block " + std::to_string(instruction.block) + " of " +
                           std::to_string(program.blocks.size()));
    }
    FT_TRY(CheckBindings(program, rank, instruction));
    FT_TRY(CheckSpaces(program, rank, instruction));
    // Op numbers come from Link; a mismatch means the program was changed afterwards.
    if (instruction.first_op != ops) {
      return Bad(rank, Describe(id) + " has first op " + std::to_string(instruction.first_op) +
                           ", not " + std::to_string(ops) + ": link the program first");
    }
    if (instruction.after < -1 || instruction.after >= static_cast<std::int64_t>(i)) {
      return Bad(rank, Describe(id) + " waits for instruction " +
                           std::to_string(instruction.after) + ", which is not an earlier one");
    }
    ops += static_cast<std::int32_t>(
        program.blocks[static_cast<std::size_t>(instruction.block)].ops.size());
  }
  if (rank.op_count != ops) {
    return Bad(rank, "has " + std::to_string(ops) + " ops, not " + std::to_string(rank.op_count) +
                         ": link the program first");
  }
  return {};
}

// Members must be in ascending order, which is the order of summation on every rank.
Result<void> CheckGroups(const Program& program, const RankProgram& rank) {
  for (std::size_t kind = 0; kind < rank.groups.size(); ++kind) {
    const std::int32_t group = rank.groups[kind];
    if (group < 0) continue;
    const std::string name(Name(static_cast<GroupKind>(kind)));
    if (!Has(program.groups, group)) {
      return Bad(rank, "its group " + name + " is number " + std::to_string(group) + " of " +
                           std::to_string(program.groups.size()));
    }
    const std::vector<int>& members = program.groups[static_cast<std::size_t>(group)];
    if (!std::is_sorted(members.begin(), members.end())) {
      return Bad(rank, "members of its group " + name + " are not in ascending order");
    }
  }
  return {};
}

// Edges must be sorted by target: walkers consume them along with the ops.
Result<void> CheckEdges(const RankProgram& rank) {
  const auto is_op = [&rank](std::int32_t op) { return op >= 0 && op < rank.op_count; };
  for (std::size_t i = 0; i < rank.edges.size(); ++i) {
    const Edge& edge = rank.edges[i];
    const std::string name = "edge " + std::to_string(edge.from) + " -> " +
                             std::to_string(edge.to) + " of distance " +
                             std::to_string(edge.distance);
    if (!is_op(edge.from) || !is_op(edge.to) || edge.distance < 0 || edge.distance > 1) {
      return Bad(rank, name + " is not between ops of the step");
    }
    if (i == 0) continue;
    const Edge& before = rank.edges[i - 1];
    if (std::tie(edge.to, edge.from) < std::tie(before.to, before.from)) {
      return Bad(rank, name + " is out of order");
    }
  }
  return {};
}

}  // namespace

// Ranks must be in ascending order because Couple and the hash rely on it.
Result<void> CheckStructure(const Program& program) {
  for (const Block& block : program.blocks) FT_TRY(CheckBlock(block));
  for (std::size_t i = 0; i < program.ranks.size(); ++i) {
    const RankProgram& rank = program.ranks[i];
    if (i > 0 && rank.rank <= program.ranks[i - 1].rank) {
      return Bad(rank, "ranks are not in ascending order");
    }
    FT_TRY(CheckInstructions(program, rank));
    FT_TRY(CheckGroups(program, rank));
    FT_TRY(CheckEdges(rank));
  }
  return {};
}

}  // namespace foretrain
