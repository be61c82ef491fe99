#include "sim/cost/measured/collective_model.h"

#include <gtest/gtest.h>

namespace foretrain {
namespace {

constexpr KernelMachine kMachine = {.link_bytes_per_s = 100e9, .linked = true};

// Latency 5 + 7 * 1 = 12 us; transfer 7/8 * 80 MB over 80 GB/s = 875 us, twice for all-reduce.
TEST(CollectiveModel, IsTheRingsHopsAndBytes) {
  constexpr CollectiveTerms kTerms = {.base_s = 5e-6, .hop_s = 1e-6, .link_share = 0.8, .ramp = 0};
  const CollectiveShape shape = {80'000'000, 8};
  EXPECT_NEAR(CollectiveModelSeconds(kTerms, kMachine, OpKind::kAllGather, shape), 887e-6, 1e-12);
  EXPECT_NEAR(CollectiveModelSeconds(kTerms, kMachine, OpKind::kAllReduce, shape), 1762e-6, 1e-12);
}

// Latency 4 us, transfer 1/2 * 160 kB over 80 GB/s = 1 us, and sqrt(4 * 1) = 2 us of ramp.
TEST(CollectiveModel, TheRampIsLargestInTheMiddle) {
  constexpr CollectiveTerms kTerms = {.base_s = 3e-6, .hop_s = 1e-6, .link_share = 0.8, .ramp = 1};
  EXPECT_NEAR(CollectiveModelSeconds(kTerms, kMachine, OpKind::kAllToAll, {160'000, 2}), 7e-6,
              1e-12);
}

TEST(CollectiveModel, KnowsItsKindsByNameAndOp) {
  EXPECT_EQ(CollectiveAt("alltoall"), CollectiveAt(OpKind::kAllToAll));
  EXPECT_FALSE(CollectiveAt("broadcast").has_value());
  EXPECT_FALSE(CollectiveAt(OpKind::kRotate).has_value());
}

}  // namespace
}  // namespace foretrain
