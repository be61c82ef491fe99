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

// A code is off by up to 0.7 % of the largest number of its block of 256, which spans several
// tensors of the small model, and each plan has other blocks in all further steps too. The losses
// of twenty steps then differ by up to 8e-5.
TEST(ReshardQuickly, EightBitMomentsGoOnAsOneRank) {
  for (const auto& [from, to] :
       PairsOf(CasesNamed({"MicroBatch2", "Dp2Tp2Pp2Zero1", "Dp4Zero3"}))) {
    ExpectMomentsGoOn(from, to, /*further=*/20, /*tolerance=*/2e-4);
  }
}

TEST(ReshardQuickly, EightBitMomentsGoOnInOtherFormats) {
  for (const MomentFormat format : {MomentFormat::kFp32, MomentFormat::kBf16}) {
    ExpectMomentsGoOn(CasesNamed({"Dp4Zero3"})[0], CasesNamed({"Tp2"})[0], /*further=*/5,
                      /*tolerance=*/1e-4, format);
  }
}

}  // namespace
}  // namespace foretrain
