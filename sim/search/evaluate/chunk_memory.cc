#include "sim/search/evaluate/chunk_memory.h"

#include <algorithm>

#include "sim/program/lower/transfers/boundaries.h"

namespace foretrain {
namespace {

// A pass of a block together with the recomputation before it.
struct Turn {
  std::int64_t peak = 0, end = 0;
};
// The weight half finds its inputs recomputed by the input half, so it recomputes nothing.
Turn TurnOf(const BlockCosts& block, PassCosts BlockCosts::*pass) {
  const PassCosts& figures = block.*pass;
  if (pass == &BlockCosts::weight) return {figures.peak_bytes, figures.end_bytes};
  return {std::max(block.again.peak_bytes, block.again.end_bytes + figures.peak_bytes),
          block.again.end_bytes + figures.end_bytes};
}

}  // namespace

ChunkMemory::ChunkMemory(const ModelSpec& model, const Plan& plan)
    : boundary_bytes_(BoundaryShape(model, plan, Pass::kForward).bytes),
      ids_bytes_(BatchShape(plan).bytes),
      starts_bytes_(plan.documents ? ids_bytes_ : 0),
      moves_(plan.offload_activations != OffloadTarget::kNone) {
  // The layer that runs and the one that is copied meanwhile; with NVMe one more is in flight.
  if (moves_) back_ = plan.offload_activations == OffloadTarget::kNvme ? 3 : 2;
}

void ChunkMemory::Add(BlockKind kind, const BlockCosts& block, int count) {
  const std::int64_t moved = moves_ && kind == BlockKind::kLayer ? block.kept_bytes : 0;
  max_moved_bytes_ = std::max(max_moved_bytes_, moved);
  blocks_.push_back({&block, count, moved});
}

void ChunkMemory::Walk::Make(std::int64_t bytes) {
  now += bytes;
  peak = std::max(peak, now);
}

// For `count` equal blocks in a row the peak is at the first if each frees bytes, else at the last.
// So a run of layers costs O(1).
void ChunkMemory::Walk::Run(std::int64_t peak_bytes, std::int64_t end_bytes, int count) {
  const std::int64_t before_last = end_bytes * (count - 1);
  peak = std::max(peak, now + peak_bytes + std::max<std::int64_t>(0, before_last));
  now += end_bytes * count;
}

// Token ids for the embedding, targets for the head and document starts for all, as the loader
// delivers them.
std::int64_t ChunkMemory::LoadedBytes(const ChunkClass& chunk) const {
  return ids_bytes_ * ((chunk.embedding ? 1 : 0) + (chunk.head ? 1 : 0)) + starts_bytes_;
}

// The received boundary tensor counts as held from the start. The sent one leaves with the send, so
// it does not count as saved.
ChunkMemory::Walk ChunkMemory::Forward(const ChunkClass& chunk) const {
  Walk walk;
  walk.Make(LoadedBytes(chunk) + (chunk.embedding ? 0 : boundary_bytes_));
  for (const Blocks& blocks : blocks_) {
    const PassCosts& forward = blocks.figures->forward;
    walk.Run(forward.peak_bytes, forward.end_bytes - blocks.moved_bytes, blocks.count);
  }
  if (!chunk.head) walk.now -= boundary_bytes_;
  return walk;
}

// Offloaded bytes of a layer are counted once through back_, so the walk adds back what a block
// frees of them. The weight half neither receives nor sends a boundary. Document starts are freed
// by the other halves.
ChunkMemory::Walk ChunkMemory::Back(const ChunkClass& chunk, PassCosts BlockCosts::*pass) const {
  Walk walk;
  const bool crosses = pass != &BlockCosts::weight;
  if (crosses && !chunk.head) walk.Make(boundary_bytes_);
  for (auto blocks = blocks_.rbegin(); blocks != blocks_.rend(); ++blocks) {
    const Turn turn = TurnOf(*blocks->figures, pass);
    walk.Run(turn.peak, turn.end + (crosses ? blocks->moved_bytes : 0), blocks->count);
  }
  if (crosses && !chunk.embedding) walk.now -= boundary_bytes_;
  if (crosses) walk.now -= starts_bytes_;
  return walk;
}

// A pair alternates between layers of both directions, so the rank holds one running layer of each.
// Their largest peaks are added to the boundaries.
ChunkBytes ChunkMemory::Of(const ChunkClass& chunk) const {
  const Walk forward = Forward(chunk);
  const Walk input = Back(chunk, &BlockCosts::input);
  ChunkBytes out;
  out.saved = forward.now;
  out.owed = forward.now + input.now;
  out.peak[kF] = forward.peak;
  out.peak[kB] = Back(chunk, &BlockCosts::backward).peak;
  out.peak[kI] = input.peak;
  out.peak[kW] = Back(chunk, &BlockCosts::weight).peak;
  out.peak[kPairF] = LoadedBytes(chunk) + (chunk.embedding ? 0 : boundary_bytes_);
  out.peak[kPairB] = chunk.head ? 0 : boundary_bytes_;
  std::int64_t forwards = 0, backwards = 0;
  for (const Blocks& blocks : blocks_) {
    forwards = std::max(forwards, blocks.figures->forward.peak_bytes);
    backwards = std::max(backwards, TurnOf(*blocks.figures, &BlockCosts::backward).peak);
  }
  out.peak[kPairF] += forwards;
  out.peak[kPairB] += backwards;
  for (std::int64_t& peak : out.peak) peak += back_ * max_moved_bytes_;
  return out;
}

}  // namespace foretrain
