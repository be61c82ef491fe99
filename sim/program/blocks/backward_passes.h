// BackwardPasses writes a layer's backward once and cuts several passes from it.
#pragma once

#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"

namespace foretrain {

// Borrows model and plan of the context.
class BackwardPasses {
 public:
  // `request`: of a layer; any pass of its backward.
  BackwardPasses(const BlockContext& context, const BlockRequest& request);

  // Same block as BuildBlock returns for kBackward, kBackwardInput or kBackwardWeight, except for
  // the block's name.
  Block Of(Pass pass) const;

 private:
  const Plan& plan_;
  BlockBuilder written_;
};

}  // namespace foretrain
