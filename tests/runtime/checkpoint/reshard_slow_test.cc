// Training goes on under another plan with the losses of one rank: each plan of a list from and to
// one rank, and from and to the plan after it. Twenty further steps each.
#include <gtest/gtest.h>

#include "tests/runtime/checkpoint/reshard.h"

namespace foretrain {
namespace {

class Reshard : public testing::TestWithParam<std::pair<Case, Case>> {};

TEST_P(Reshard, GoesOnAsOneRank) {
  ExpectGoesOnAsOneRank(GetParam().first, GetParam().second, /*further=*/20);
}

// Neighbours differ in every dimension of the plan: data, tensor, pipeline and context parallelism,
// virtual stages, ZeRO stages, replicas, sequence and vocabulary parallelism, offload.
INSTANTIATE_TEST_SUITE_P(
    Plans, Reshard,
    testing::ValuesIn(PairsOf(CasesNamed(
        {"MicroBatch2", "Dp2", "Tp2", "Pp2", "Cp4Ring", "Dp4Zero3", "Tp2SequencePp2Dp2Zero1",
         "Pp2Interleaved", "Cp2AllToAllZero3Recompute", "Dp4Tp2Zero3Replicas", "Pp2DualPipeV",
         "Optimizer", "Dp2Tp2VocabPp2Zero1", "Pp3EndsWithoutLayers", "Cp2Dp2Tp2Pp2RingZero1",
         "Dp2EachMicroBatch", "Pp4ZbH1", "Dp4Zero2", "Cp2Tp2AllGather"}))),
    [](const auto& test) {
      return std::string(test.param.first.name) + "To" + test.param.second.name;
    });

}  // namespace
}  // namespace foretrain
