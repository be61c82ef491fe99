#include <gtest/gtest.h>

#include <cmath>

#include "sim/cost/measured/attention_model.h"
#include "sim/cost/measured/experts_model.h"
#include "sim/cost/measured/gemm_model.h"
#include "sim/cost/measured/training_model.h"

namespace foretrain {
namespace {

// 100 multiprocessors of 1 TFLOP/s each; 1 TB/s.
constexpr KernelMachine kMachine = {
    .multiprocessors = 100, .half_flop_per_s = 1e14, .memory_bytes_per_s = 1e12};
constexpr GemmTerms kGemm = {.rate_share = 0.5,
                             .memory_share = 0.5,
                             .launch_s = 1e-6,
                             .fill_depth = 0,
                             .whole_waves = 1,
                             .cast_passes = 2};

// 2560 x 2560 has 100 tiles of 256 x 256: one wave. Depth 10,000:
//   compute 2 * 256^2 * 10^4 / 0.5e12 = 2.62144 ms
//   memory  (2 * 10^4 * 5120 + 2 * 2560^2) bytes / 0.5e12 = 0.231 ms; its fourth power is 6e-5 of
//   compute's and adds 1.5e-5.
TEST(GemmModel, OneFullWaveTakesTheTimeOfOneTile) {
  const double s = GemmModelSeconds(kGemm, kMachine, ProductFormat::kBf16, {2560, 2560, 10000});
  EXPECT_NEAR(s, 2.62144e-3 + 1e-6, 1e-6);
}

// One more row of tiles of 256 needs a second wave; smaller tiles come out cheaper than twice, and
// without whole waves the tail costs a tenth.
TEST(GemmModel, AFurtherTileNeedsAnotherWave) {
  const ProductShape more = {2816, 2560, 10000};
  const double whole = GemmModelSeconds(kGemm, kMachine, ProductFormat::kBf16, more);
  GemmTerms smooth = kGemm;
  smooth.whole_waves = 0;
  const double shared = GemmModelSeconds(smooth, kMachine, ProductFormat::kBf16, more);
  EXPECT_NEAR(shared, 1.1 * 2.62144e-3, 5e-5);
  EXPECT_GT(whole, 1.2 * 2.62144e-3);
  EXPECT_LE(whole, 2 * 2.62144e-3 + 2e-6);
}

// 256 x 256 x 65536 on 100 multiprocessors: one tile of 256 x 256 would take 17.2 ms; 16 tiles of
// 64 x 64 with 8 splits run on all at once.
TEST(GemmModel, ASplitOfTheDepthFillsTheDevice) {
  const double s = GemmModelSeconds(kGemm, kMachine, ProductFormat::kBf16, {256, 256, 65536});
  EXPECT_LT(s, 17.2e-3 / 10);
}

// A kernel reaches half of the peak. With fp32 sums at half rate it reaches all of it, in 8 bits of
// a peak that is twice as high; a faster kernel gains nothing.
TEST(GemmModel, HalvedSumsLetAKernelReachThePeak) {
  KernelMachine halved = kMachine;
  halved.halves_fp32_sums = true;
  EXPECT_DOUBLE_EQ(TensorRate(kMachine, 0.5), 0.5e14);
  EXPECT_DOUBLE_EQ(TensorRate(halved, 0.3), 0.6e14);
  EXPECT_DOUBLE_EQ(TensorRate(halved, 0.8), 1e14);
  EXPECT_DOUBLE_EQ(TensorRate(halved, 0.8, 2), 1.6e14);
  const ProductShape shape = {2560, 2560, 10000};
  EXPECT_LT(GemmModelSeconds(kGemm, halved, ProductFormat::kBf16, shape),
            0.6 * GemmModelSeconds(kGemm, kMachine, ProductFormat::kBf16, shape));
}

// A thin product reads 2 * 65536 * 65536 bytes of weights at 0.1e12 B/s: 85.9 ms. Its tiles take
// about 20 ms, which adds (20 / 85.9)^4 / 4 of that.
TEST(GemmModel, AThinProductWaitsForMemory) {
  GemmTerms terms = kGemm;
  terms.memory_share = 0.1;
  const double s = GemmModelSeconds(terms, kMachine, ProductFormat::kBf16, {16, 65536, 65536});
  EXPECT_NEAR(s, 85.9e-3, 0.3e-3);
}

// Two groups have twice the tiles: two waves.
TEST(GemmModel, GroupsAddTheirTiles) {
  const double s = GemmModelSeconds(kGemm, kMachine, ProductFormat::kBf16, {2560, 2560, 10000, 2});
  EXPECT_NEAR(s, 2 * 2.62144e-3, 2e-6);
}

// 2 passes over 3 bytes an element of [1000, 1000] at 1e12 B/s: 6 us.
TEST(GemmModel, TheCastMovesTheActivations) {
  EXPECT_NEAR(CastSeconds(kGemm, kMachine, ProductFormat::kFp8, {1000, 7, 1000}), 6e-6, 1e-12);
  EXPECT_EQ(CastSeconds(kGemm, kMachine, ProductFormat::kBf16, {1000, 7, 1000}), 0);
}

// 2^31 FLOP lie below the first knot of 10^10.5, 2^37 between the first two, 2^43 beyond the third.
TEST(GemmModel, TheBestLibraryGainsByTheWorkOfTheProduct) {
  const BestShare best = {0.9, 0.8, 0.6};
  EXPECT_DOUBLE_EQ(BestShareAt(best, {1024, 1024, 1024}), 0.9);
  EXPECT_EQ(NearestKnot({1024, 1024, 1024}), 0U);
  EXPECT_DOUBLE_EQ(BestShareAt(best, {16384, 16384, 16384}), 0.6);
  EXPECT_EQ(NearestKnot({16384, 16384, 16384}), 2U);
  const double beyond = std::log10(std::pow(2.0, 37)) - 10.5;  // knots from the first: 0.64
  EXPECT_NEAR(BestShareAt(best, {4096, 4096, 4096}), 0.9 - 0.1 * beyond, 1e-12);
}

TEST(GemmModel, FormatsHaveTheirTablesNames) {
  for (int i = 0; i < kProductFormatCount; ++i) {
    const auto format = static_cast<ProductFormat>(i);
    EXPECT_EQ(ParseProductFormat(Name(format)), format);
  }
  EXPECT_FALSE(ParseProductFormat("int8").has_value());
}

constexpr AttentionTerms kAttention = {.rate_share = 0.5,
                                       .launch_s = 1e-6,
                                       .tile_s = 0,
                                       .softmax_s = 0,
                                       .longest_tile = 1,
                                       .memory_share = 1,
                                       .kv_passes = 1,
                                       .width_share = {0.5, 1, 1, 1, 1}};

// batch 10, 100 heads of 128, 12,800 tokens: 100 blocks of queries, (100 + 1) / 2 of keys each.
// One block takes 2 * 128 * 128 * 256 / 0.5e12 = 16.777 us; all: 10 * 100 * 100 * 50.5 blocks
// on 100 multiprocessors = 847.2 ms. Memory: 2 * 10 * 12800 * 256 * 200 bytes / 1e12 = 13.1 ms.
TEST(AttentionModel, CountsCausalBlocksAndTraffic) {
  const AttentionShape shape = {
      .batch = 10, .sequence = 12800, .heads = 100, .kv_heads = 100, .head_dim = 128};
  EXPECT_NEAR(AttentionForwardModelSeconds(kAttention, kMachine, shape), 0.8472 + 0.0131, 1e-3);
  // Backward: 5 products instead of 2, and twice the traffic.
  EXPECT_NEAR(AttentionBackwardModelSeconds(kAttention, kMachine, shape), 2.118 + 0.0262, 2e-3);
}

// 1 ps a score adds 128 * 128 ps to each of the 10 * 100 * 100 * 50.5 blocks on 100
// multiprocessors: 0.827 ms.
TEST(AttentionModel, SoftmaxTakesTimeBesideTheProducts) {
  AttentionTerms terms = kAttention;
  terms.softmax_s = 1e-12;
  const AttentionShape shape = {
      .batch = 10, .sequence = 12800, .heads = 100, .kv_heads = 100, .head_dim = 128};
  EXPECT_NEAR(AttentionForwardModelSeconds(terms, kMachine, shape) -
                  AttentionForwardModelSeconds(kAttention, kMachine, shape),
              8.27e-4, 1e-5);
}

// One head: its last tile reads 100 blocks of 16.777 us on one multiprocessor.
TEST(AttentionModel, OneHeadWaitsForItsLongestTile) {
  const AttentionShape shape = {.batch = 1, .sequence = 12800, .heads = 1, .kv_heads = 1};
  EXPECT_NEAR(AttentionForwardModelSeconds(kAttention, kMachine, shape), 1.68e-3, 0.05e-3);
}

// Width 64 has half the rate and half the work; 96 lies between 64 and 128 in the logarithm:
// log2(96 / 64) = 0.585, so its share is 0.5^(1 - 0.585) = 0.75.
TEST(AttentionModel, HeadWidthsHaveTheirOwnRates) {
  AttentionShape shape = {.batch = 10, .sequence = 12800, .heads = 100, .kv_heads = 1};
  const double wide = AttentionForwardModelSeconds(kAttention, kMachine, shape);
  shape.head_dim = shape.value_dim = 64;
  EXPECT_NEAR(AttentionForwardModelSeconds(kAttention, kMachine, shape) / wide, 1, 0.01);
  shape.head_dim = shape.value_dim = 96;
  EXPECT_NEAR(AttentionForwardModelSeconds(kAttention, kMachine, shape) / wide, 0.75 / 0.75, 0.01);
}

constexpr ExpertsTerms kExperts = {.rate_share = 0.5,
                                   .memory_share = 0.5,
                                   .launch_s = 1e-5,
                                   .padding_rows = 0,
                                   .fill_width = 0,
                                   .token_passes = 0,
                                   .route_s = 0,
                                   .skew = {0.5, 1}};

// 16,384 tokens choose 8 of 64 experts; 8 ranks: 16,384 pairs on 8 experts.
// 6 * 16384 * 4096 * 1024 / 0.5e14 = 8.246 ms.
TEST(ExpertsModel, CountsThePairsOfOneRank) {
  const ExpertsShape shape = {.tokens = 16384,
                              .hidden = 4096,
                              .ffn_hidden = 1024,
                              .topk = 8,
                              .experts = 64,
                              .tp = 1,
                              .ep = 8};
  const double s = ExpertsForwardModelSeconds(kExperts, kMachine, ProductFormat::kBf16, shape);
  EXPECT_NEAR(s, 8.246e-3 + 1e-5, 5e-6);
}

// ep^0.5 = 2.83 times the pairs under the milder power law; ep^1 would be 131,072 pairs, which is
// also the maximum: all 16,384 tokens choose this rank's 8 experts.
TEST(ExpertsModel, APowerLawLoadsOneRankMore) {
  ExpertsShape shape = {.tokens = 16384,
                        .hidden = 4096,
                        .ffn_hidden = 1024,
                        .topk = 8,
                        .experts = 64,
                        .tp = 1,
                        .ep = 8,
                        .load = ExpertLoad::kPowerLaw101};
  EXPECT_NEAR(ExpertsForwardModelSeconds(kExperts, kMachine, ProductFormat::kBf16, shape),
              2.828 * 8.246e-3, 5e-5);
  shape.load = ExpertLoad::kPowerLaw12;
  EXPECT_NEAR(ExpertsForwardModelSeconds(kExperts, kMachine, ProductFormat::kBf16, shape),
              8 * 8.246e-3, 1e-4);
}

// A weight gradient of 1000 x 1000 that is added in fp32 reads and writes 8 bytes an element
// instead of writing 2: 6e6 bytes at 1e12 B/s.
TEST(TrainingModel, ASumReadsAndWritesTheResult) {
  const TrainingTerms terms = {.layout_time = {1, 1, 1.5}, .sum_passes = 1, .launch_s = 1e-6};
  const TrainingProduct product = {.shape = {1000, 1000, 1000},
                                   .layout = ProductLayout::kNt,
                                   .accumulate = true,
                                   .sum_bytes = 4};
  EXPECT_NEAR(TrainingProductModelSeconds(terms, kMachine, product, 1e-4), 1e-6 + 1.5e-4 + 6e-6,
              1e-12);
}

}  // namespace
}  // namespace foretrain
