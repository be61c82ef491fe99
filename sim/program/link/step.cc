#include "sim/program/link/step.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>
#include <utility>

namespace foretrain {
namespace {

constexpr std::uint8_t kNoLane = 255;

template <class T>
const T& At(const std::vector<T>& items, std::int64_t index) {
  FT_CHECK(index >= 0 && index < static_cast<std::int64_t>(items.size()));
  return items[static_cast<std::size_t>(index)];
}

// Absent operands and empty bindings are skipped, so that no walker has to test for them.
void AppendAccesses(const Block& block, const Op& op, const RankProgram& rank,
                    const Instruction& instruction, std::vector<TensorAccess>& out) {
  for (const Operand& operand : OperandsOf(block, op)) {
    if (operand.slot == kNoSlot) continue;
    const Binding& binding = At(rank.bindings, instruction.first_binding + operand.slot);
    if (binding.bytes == 0) continue;
    FT_CHECK(binding.buffer >= 0 &&
             binding.buffer < static_cast<std::int32_t>(rank.buffers.size()));
    out.push_back({binding.offset, binding.offset + binding.bytes, binding.buffer, operand.access});
  }
}

}  // namespace

// Counts first, so that the arrays are allocated once. Lanes are numbered in order of first use.
FlatStep Flatten(const Program& program, const RankProgram& rank) {
  FlatStep step;
  std::array<std::uint8_t, kQueueCount> lane_of;
  lane_of.fill(kNoLane);
  std::size_t ops = 0;
  std::size_t operands = 0;
  for (const Instruction& instruction : rank.step) {
    const Block& block = At(program.blocks, instruction.block);
    ops += block.ops.size();
    operands += block.operands.size();
  }
  step.lane.reserve(ops);
  step.instruction.reserve(ops);
  step.first_access.reserve(ops + 1);
  step.accesses.reserve(operands);
  for (std::size_t i = 0; i < rank.step.size(); ++i) {
    const Block& block = At(program.blocks, rank.step[i].block);
    for (const Op& op : block.ops) {
      std::uint8_t& lane = lane_of[static_cast<std::size_t>(op.queue)];
      if (lane == kNoLane) {
        lane = static_cast<std::uint8_t>(step.queues.size());
        step.queues.push_back(op.queue);
      }
      step.lane.push_back(lane);
      step.instruction.push_back(static_cast<std::int32_t>(i));
      step.first_access.push_back(static_cast<std::int32_t>(step.accesses.size()));
      AppendAccesses(block, op, rank, rank.step[i], step.accesses);
    }
  }
  step.first_access.push_back(static_cast<std::int32_t>(step.accesses.size()));
  return step;
}

// Whole arrays are compared first, which is cheaper than the fields of buffers and instructions.
bool AreLinkedAlike(const RankProgram& a, const FlatStep& step_a, const RankProgram& b,
                    const FlatStep& step_b) {
  const auto shape = [](const Buffer& buffer) {
    return std::tuple(buffer.bytes, buffer.space, buffer.persistent);
  };
  const auto throttle = [](const Instruction& instruction) {
    return std::pair(instruction.first_op, instruction.after);
  };
  return step_a.lane == step_b.lane && step_a.queues == step_b.queues &&
         step_a.first_access == step_b.first_access && step_a.instruction == step_b.instruction &&
         step_a.accesses == step_b.accesses &&
         std::ranges::equal(a.buffers, b.buffers, {}, shape, shape) &&
         std::ranges::equal(a.step, b.step, {}, throttle, throttle);
}

std::string DescribeOp(const Program& program, const RankProgram& rank, const FlatStep& step,
                       std::int32_t op) {
  const std::int32_t instruction = At(step.instruction, op);
  const OpRef ref{instruction, op - At(rank.step, instruction).first_op};
  return "rank " + std::to_string(rank.rank) + ": " + Describe(IdOf(rank, ref)) + " (" +
         OpAt(program, rank, ref).name + ") on " + std::string(Name(step.QueueOf(op)));
}

}  // namespace foretrain
