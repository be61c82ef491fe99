// Packing of buffers with known lifetimes: by hand, and that none overlap.
#include "sim/program/link/pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "sim/memory/peak_memory.h"
#include "sim/program/ir/program.h"

namespace foretrain {
namespace {

bool Meet(const Claim& a, const Claim& b) { return a.first <= b.last && b.first <= a.last; }

// 10 and 4 in turn, each gone before the next: all lie at 0, whatever their sizes.
TEST(Pack, GivesClaimsOfUnlikeSizesTheSameMemoryOneAfterTheOther) {
  const std::vector<Claim> claims = {{10, 0, 1}, {4, 2, 3}, {10, 4, 5}, {4, 6, 7}};
  const Packing packing = Pack(claims, 8);
  EXPECT_EQ(packing.bytes, 10);
  EXPECT_THAT(packing.offsets, testing::Each(0));
  EXPECT_EQ(MaxAtOnce(claims, 8).bytes, 10);
}

// 6 lies at 0 to the end; behind it 4 until op 3, in whose place 3 and then 1 come from op 4 on; 2
// meets 6 and 4: at 10. At op 3 there are 6 + 4 + 2 bytes.
TEST(Pack, PutsTheLargestFirstAndOthersIntoTheSmallestGap) {
  const std::vector<Claim> claims = {{2, 2, 5}, {4, 0, 3}, {6, 0, 9}, {3, 4, 9}, {1, 4, 9}};
  const Packing packing = Pack(claims, 10);
  EXPECT_THAT(packing.offsets, testing::ElementsAre(10, 6, 0, 6, 9));
  EXPECT_EQ(packing.bytes, 12);
  EXPECT_EQ(MaxAtOnce(claims, 10).bytes, 12);
}

// A claim that ends with op 3 is still there at op 3.
TEST(Pack, CountsTheLastOpOfAClaim) {
  const std::vector<Claim> claims = {{8, 0, 3}, {8, 3, 4}, {8, 4, 5}};
  EXPECT_EQ(MaxAtOnce(claims, 6).bytes, 16);
  EXPECT_EQ(Pack(claims, 6).bytes, 16);
}

TEST(Pack, OverlapsNoTwoThatMeetAndIsNoShorterThanWhatIsClaimedAtOnce) {
  std::mt19937_64 random(7);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 50; ++round) {
    const int ops = pick(1, 2000);
    std::vector<Claim> claims(static_cast<std::size_t>(pick(1, 300)));
    for (Claim& claim : claims) {
      claim.bytes = std::int64_t{256} * pick(1, pick(1, 400));
      claim.first = pick(0, ops - 1);
      claim.last = std::min(ops - 1, claim.first + pick(0, pick(1, ops)));
    }
    const Packing packing = Pack(claims, ops);
    std::int64_t end = 0;
    for (std::size_t i = 0; i < claims.size(); ++i) {
      end = std::max(end, packing.offsets[i] + claims[i].bytes);
      for (std::size_t j = 0; j < i; ++j) {
        const bool apart = packing.offsets[i] + claims[i].bytes <= packing.offsets[j] ||
                           packing.offsets[j] + claims[j].bytes <= packing.offsets[i];
        ASSERT_TRUE(apart || !Meet(claims[i], claims[j])) << i << ' ' << j;
      }
    }
    ASSERT_EQ(packing.bytes, end);
    ASSERT_GE(packing.bytes, MaxAtOnce(claims, ops).bytes);
  }
}

// Parameters of embedding, layers and head are copied to the device one after the other, ahead of
// their use. The bytes in use are largest with the table or the head, and the copy ahead is then a
// layer's parameters.
TEST(Pack, LetsWhatComesFromTheHostShareItsMemory) {
  ModelSpec model;  // Llama 3 8B
  model.layers = 32;
  model.hidden = 4096;
  model.heads = 32;
  model.kv_heads = 8;
  model.head_dim = 128;
  model.ffn_hidden = 14336;
  model.vocab = 128256;
  model.max_sequence = 8192;
  model.norm = NormKind::kRmsNorm;
  model.positions = PositionKind::kRope;
  model.mlp = MlpKind::kSwiglu;
  model.tied_embeddings = model.attention_bias = model.mlp_bias = model.output_bias = false;
  Plan plan;
  plan.sequence = 2048;
  plan.micro_batch = plan.global_batch = 1;
  plan.precision = Precision::kBf16;
  plan.weights = WeightStorage::kFp32;
  plan.recompute = RecomputeKind::kFull;
  plan.offload_parameters = plan.offload_gradients = OffloadTarget::kHost;
  plan.offload_optimizer = plan.offload_activations = OffloadTarget::kHost;
  const auto program = Compile(model, plan);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  const RankProgram& rank = program->ranks[0];
  const auto length = [&](Space space) {
    return static_cast<double>(rank.arena_bytes[static_cast<std::size_t>(space)]);
  };
  const auto in_use = [&](Space space) {
    return static_cast<double>(LinkedPeak(rank, space).total);
  };
  const double layer = 4 * (4096.0 * (4096 + 2 * 1024 + 4096) + 3 * 4096.0 * 14336);
  EXPECT_LT(length(Space::kDevice), 1.01 * (in_use(Space::kDevice) + layer));
  EXPECT_LT(length(Space::kPinned), 1.01 * in_use(Space::kPinned));
}

}  // namespace
}  // namespace foretrain
