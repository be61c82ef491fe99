// Training goes on under another plan with the losses of one rank. reshard_slow_test.cc has many
// more plans and steps.
#include <gtest/gtest.h>

#include "tests/runtime/checkpoint/reshard.h"

namespace foretrain {
namespace {

TEST(ReshardQuickly, GoesOnAsOneRank) {
  for (const auto& [from, to] :
       PairsOf(CasesNamed({"MicroBatch2", "Dp2Tp2Pp2Zero1", "Cp2Dp2RingZero3Recompute"}))) {
    ExpectGoesOnAsOneRank(from, to, /*further=*/3);
  }
}

}  // namespace
}  // namespace foretrain
