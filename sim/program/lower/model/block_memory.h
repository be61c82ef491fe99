// Lives of the tensors of a pass of one block of the model.
#pragma once

#include <functional>

#include "sim/program/blocks/touched_slots.h"
#include "sim/program/lower/rank/skeleton.h"
#include "sim/program/lower/rank/step_description.h"

namespace foretrain {

// Passes of one block, without accumulation: it changes no tensor's life. References stay valid
// during a call below.
using PassBlocks = std::function<const Block&(Pass)>;

// Lives during the block pass of `key`. Gathered parameters live until their last reader. Whole
// gradients of sharded buckets live from their first writer to the reduction after the pass.
Lives LivesIn(const LowerContext& context, const InstructionKey& key, const PassBlocks& blocks);

// The same for the pass, and for its piece key.part (blocks/pieces.h). The passes are looked up in
// `registry` and made if they are new.
Lives LivesInPass(const LowerContext& context, const InstructionKey& key, BlockRegistry& registry);
Lives LivesInPiece(const LowerContext& context, const InstructionKey& key, BlockRegistry& registry);

// Slots that later passes of the block touch, so that the pass of `key` must leave them.
SlotNames TouchedAfter(const LowerContext& context, const InstructionKey& key,
                       const PassBlocks& blocks);

}  // namespace foretrain
