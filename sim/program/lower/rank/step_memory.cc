#include "sim/program/lower/rank/step_memory.h"

#include <algorithm>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/lower/rank/lowerings.h"
#include "sim/program/lower/rank/rank_builder.h"
#include "sim/program/lower/update/overlap.h"

namespace foretrain {
namespace {

// Live bytes while op `op` runs.
CategoryBytes LiveAt(int op, const std::vector<Tenant>& tenants) {
  CategoryBytes now{};
  for (const Tenant& tenant : tenants) {
    const bool live = (tenant.enters || op >= tenant.first) && (tenant.stays || op <= tenant.last);
    if (live && !tenant.enters) At(now, tenant.category) += tenant.bytes;
    if (!live && tenant.enters) At(now, tenant.category) -= tenant.bytes;
  }
  return now;
}

// Tensors that stay, or that lie in a ring, change no live bytes.
bool BeginsOrEnds(const LowerContext& context, const TensorUse& use, Space space) {
  if (use.life == Life::kStays || use.space != space) return false;
  return use.life == Life::kBorrowed || !IsInFlight(context, use.name);
}

}  // namespace

std::vector<Tenant> Touch(const Block& block) {
  std::vector<Tenant> slots(block.slots.size());
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    const Op& op = block.ops[i];
    for (const Operand& operand : OperandsOf(block, op)) {
      if (operand.slot == kNoSlot) continue;
      const std::int16_t base = block.slots[static_cast<std::size_t>(operand.slot)].base;
      Tenant& tenant = slots[static_cast<std::size_t>(base == kNoSlot ? operand.slot : base)];
      if (tenant.first < 0) tenant.first = static_cast<int>(i);
      tenant.last = static_cast<int>(i);
    }
  }
  return slots;
}

// Blocks have few ops and tenants, so the live bytes of each op are summed anew.
StepMemory MemoryOf(const Lives& lives) {
  StepMemory out;
  for (int op = 0; op < lives.ops; ++op) {
    const CategoryBytes now = LiveAt(op, lives.tenants);
    if (op == 0 || Total(now) > out.peak_total) {
      out.peak_total = Total(now);
      out.at_peak = now;
    }
  }
  out.at_end = LiveAt(lives.ops, lives.tenants);
  return out;
}

// A tensor is live from the first op that touches it to the last, as in the linked program. So a
// block of several ops need not hold all that it makes and frees at once.
StepMemory MemoryOf(const LowerContext& context, const InstructionKey& key,
                    const StepDescription& step, Space space, BlockRegistry& blocks) {
  if (step.lives != nullptr) {
    return space == Space::kDevice ? MemoryOf(step.lives(context, key, blocks)) : StepMemory();
  }
  const auto counts = [&](const TensorUse& use) { return BeginsOrEnds(context, use, space); };
  if (std::none_of(step.uses.begin(), step.uses.end(), counts)) return {};
  const Block& block = blocks[blocks.Find(step.block, step.make)];
  const std::vector<Tenant> slots = Touch(block);
  Lives lives{{}, static_cast<int>(block.ops.size())};
  std::size_t used = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (block.slots[i].base != kNoSlot) continue;  // lives with its base
    const TensorUse& use = step.uses[used++];
    if (!counts(use)) continue;
    lives.tenants.push_back({use.whole, use.category, slots[i].first, slots[i].last,
                             use.life == Life::kFreed, use.life == Life::kMade});
  }
  FT_CHECK(used == step.uses.size());
  return MemoryOf(lives);
}

// Runs the lowerings' own make_state on an empty rank and adds up its buffers. So state is counted
// as it is allocated, and no formula can drift.
std::array<CategoryBytes, kSpaceCount> StateBytes(const LowerContext& context) {
  BlockRegistry blocks;
  RankProgram rank;
  RankBuilder builder(context, blocks, rank);
  for (const Lowering& lowering : Lowerings()) {
    if (lowering.make_state != nullptr) lowering.make_state(builder);
  }
  std::array<CategoryBytes, kSpaceCount> bytes{};
  for (const Buffer& buffer : rank.buffers) {
    At(bytes[static_cast<std::size_t>(buffer.space)], buffer.category) += buffer.bytes;
  }
  return bytes;
}

}  // namespace foretrain
