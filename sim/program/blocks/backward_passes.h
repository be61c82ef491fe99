// All passes of a layer's backward from one writing of it, for who asks for several of them.
#pragma once

#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"

namespace foretrain {

// Borrows model and plan of the context.
class BackwardPasses {
 public:
  // `request` is of a layer, its pass whichever of a backward's.
  BackwardPasses(const BlockContext& context, const BlockRequest& request);

  // BuildBlock's for kBackward, kBackwardInput or kBackwardWeight, but for the block's name.
  Block Of(Pass pass) const;

 private:
  const Plan& plan_;
  BlockBuilder written_;
};

}  // namespace foretrain
