#include "sim/search/chunk_memory.h"

#include <algorithm>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/precision.h"

namespace foretrain {
namespace {

// A pass with the recomputation before it.
struct Turn {
  std::int64_t peak = 0, end = 0;
};
Turn TurnOf(const BlockFigures& block, PassFigures BlockFigures::*pass) {
  const PassFigures& figures = block.*pass;
  if (pass == &BlockFigures::weight) return {figures.peak_bytes, figures.end_bytes};
  return {std::max(block.again.peak_bytes, block.again.end_bytes + figures.peak_bytes),
          block.again.end_bytes + figures.end_bytes};
}

}  // namespace

ChunkMemory::ChunkMemory(const ModelSpec& model, const Plan& plan)
    : boundary_bytes_(BytesIn(ActivationFormat(plan), BoundaryElements(model, plan))),
      ids_bytes_(plan.micro_batch * plan.LocalSequence() * kFloatBytes),
      moves_(plan.offload_activations != OffloadTarget::kNone) {
  if (moves_) back_ = plan.offload_activations == OffloadTarget::kNvme ? 3 : 2;
}

void ChunkMemory::Add(BlockKind kind, const BlockFigures& block, int count) {
  const std::int64_t moved = moves_ && kind == BlockKind::kLayer ? block.kept_bytes : 0;
  most_moved_bytes_ = std::max(most_moved_bytes_, moved);
  blocks_.push_back({&block, count, moved});
}

void ChunkMemory::Walk::Make(std::int64_t bytes) {
  now += bytes;
  peak = std::max(peak, now);
}

// Equal ones in a row: the first is the fullest, or the last.
void ChunkMemory::Walk::Run(std::int64_t peak_bytes, std::int64_t end_bytes, int count) {
  const std::int64_t before_last = end_bytes * (count - 1);
  peak = std::max(peak, now + peak_bytes + std::max<std::int64_t>(0, before_last));
  now += end_bytes * count;
}

std::int64_t ChunkMemory::LoadedBytes(const ChunkClass& chunk) const {
  return ids_bytes_ * ((chunk.embedding ? 1 : 0) + (chunk.head ? 1 : 0));
}

ChunkMemory::Walk ChunkMemory::Forward(const ChunkClass& chunk) const {
  Walk walk;
  walk.Make(LoadedBytes(chunk) + (chunk.embedding ? 0 : boundary_bytes_));
  for (const Blocks& blocks : blocks_) {
    const PassFigures& forward = blocks.figures->forward;
    walk.Run(forward.peak_bytes, forward.end_bytes - blocks.moved_bytes, blocks.count);
  }
  if (!chunk.head) walk.now -= boundary_bytes_;
  return walk;
}

ChunkMemory::Walk ChunkMemory::Back(const ChunkClass& chunk,
                                    PassFigures BlockFigures::*pass) const {
  Walk walk;
  const bool crosses = pass != &BlockFigures::weight;
  if (crosses && !chunk.head) walk.Make(boundary_bytes_);
  for (auto blocks = blocks_.rbegin(); blocks != blocks_.rend(); ++blocks) {
    const Turn turn = TurnOf(*blocks->figures, pass);
    walk.Run(turn.peak, turn.end + (crosses ? blocks->moved_bytes : 0), blocks->count);
  }
  if (crosses && !chunk.embedding) walk.now -= boundary_bytes_;
  return walk;
}

ChunkBytes ChunkMemory::Of(const ChunkClass& chunk) const {
  const Walk forward = Forward(chunk);
  const Walk input = Back(chunk, &BlockFigures::input);
  ChunkBytes out;
  out.saved = forward.now;
  out.owed = forward.now + input.now;
  out.peak[kF] = forward.peak;
  out.peak[kB] = Back(chunk, &BlockFigures::backward).peak;
  out.peak[kI] = input.peak;
  out.peak[kW] = Back(chunk, &BlockFigures::weight).peak;
  out.peak[kPairF] = LoadedBytes(chunk) + (chunk.embedding ? 0 : boundary_bytes_);
  out.peak[kPairB] = chunk.head ? 0 : boundary_bytes_;
  std::int64_t forwards = 0, backwards = 0;
  for (const Blocks& blocks : blocks_) {
    forwards = std::max(forwards, blocks.figures->forward.peak_bytes);
    backwards = std::max(backwards, TurnOf(*blocks.figures, &BlockFigures::backward).peak);
  }
  out.peak[kPairF] += forwards;
  out.peak[kPairB] += backwards;
  for (std::int64_t& peak : out.peak) peak += back_ * most_moved_bytes_;
  return out;
}

}  // namespace foretrain
