// Bytes that one pass of one block adds to a rank's live ones while its ops run.
#pragma once

#include <functional>

#include "sim/program/blocks/touched_slots.h"
#include "sim/program/lower/rank/skeleton.h"

namespace foretrain {

// Memory of the block pass of `key`. Gathered parameters live until their last reader. Whole
// gradients of sharded buckets live from their first writer to the reduction after the pass.
StepMemory MemoryOfBlock(const LowerContext& context, const InstructionKey& key);

// The same with passes that are already built, for callers that ask for several. `blocks` returns
// references that stay valid during the call.
using PassBlocks = std::function<const Block&(Pass)>;
StepMemory MemoryOfBlock(const LowerContext& context, const InstructionKey& key,
                         const PassBlocks& blocks);

// The same for piece key.part of that pass (blocks/pieces.h).
StepMemory MemoryOfPiece(const LowerContext& context, const InstructionKey& key);

// Slots that later passes of the block touch, so that the pass of `key` must leave them.
SlotNames TouchedAfter(const LowerContext& context, const InstructionKey& key,
                       const PassBlocks& blocks);

}  // namespace foretrain
