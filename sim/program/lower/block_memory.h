// What one pass of one block adds to and takes from a rank's live bytes while its ops run.
#pragma once

#include <functional>

#include "sim/program/blocks/touched_slots.h"
#include "sim/program/lower/skeleton.h"

namespace foretrain {

// Memory of the block that `key` runs. Gathered parameters live up to their last reader; whole
// gradients of sharded ones from their first writer to the reduction behind.
StepMemory MemoryOfBlock(const LowerContext& context, const InstructionKey& key);

// The same where the passes of its block are built already, for who asks for several.
using PassBlocks = std::function<Block(Pass)>;
StepMemory MemoryOfBlock(const LowerContext& context, const InstructionKey& key,
                         const PassBlocks& blocks);

// The same for piece key.part of that pass (blocks/pieces.h).
StepMemory MemoryOfPiece(const LowerContext& context, const InstructionKey& key);

// What passes of the block behind the one that `key` runs touch: what that one must leave.
SlotNames TouchedAfter(const LowerContext& context, const InstructionKey& key,
                       const PassBlocks& blocks);

}  // namespace foretrain
