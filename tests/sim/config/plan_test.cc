#include "sim/config/plan/plan.h"
#include "tests/sim/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Plan Good() {
  Plan plan;
  plan.dp = 2;
  plan.tp = 2;
  plan.pp = 3;
  plan.sequence = 1024;
  plan.global_batch = 64;
  plan.micro_batch = 4;
  return plan;
}

std::string RefusalOf(const Plan& plan, const ModelSpec& model = Gpt2()) {
  const auto valid = ValidatePlan(plan, model);
  if (valid) return "accepted";
  EXPECT_EQ(valid.error().code, ErrorCode::kInvalidArgument);
  return valid.error().message;
}

TEST(Plan, AcceptsEveryScheduleZeroStageAndRecomputation) {
  for (const auto schedule : {ScheduleKind::kGpipe, ScheduleKind::k1f1b, ScheduleKind::kZbH1}) {
    for (const int zero : {0, 1, 3}) {
      for (const auto recompute : {RecomputeKind::kNone, RecomputeKind::kFull}) {
        for (const int pp : {1, 12}) {
          for (const int dp : {1, 2}) {
            Plan plan = Good();
            plan.schedule = schedule;
            plan.zero_stage = zero;
            plan.recompute = recompute;
            plan.pp = pp;
            plan.dp = dp;
            EXPECT_EQ(RefusalOf(plan), "accepted") << Describe(plan);
          }
        }
      }
    }
  }
}

TEST(Plan, CountsRanksAndMicroBatches) {
  EXPECT_EQ(Good().World(), 12);
  EXPECT_EQ(Good().MicroBatches(), 8);  // 64 / (2 * 4)
}

TEST(Plan, RefusesFieldsOutOfRangeWithTheNearestValue) {
  Plan plan = Good();
  plan.tp = 0;
  EXPECT_THAT(RefusalOf(plan), AllOf(HasSubstr("tp 0"), HasSubstr("nearest: 1")));
  plan = Good();
  plan.micro_batch = std::int64_t{1} << 40;
  EXPECT_THAT(RefusalOf(plan), HasSubstr("micro_batch 1099511627776"));
  plan = Good();
  plan.sequence = 0;
  EXPECT_THAT(RefusalOf(plan), HasSubstr("sequence 0"));
  plan = Good();
  plan.bucket_bytes = 0;
  EXPECT_THAT(RefusalOf(plan), HasSubstr("bucket_bytes 0"));
  plan = Good();
  plan.zero_stage = 4;
  EXPECT_THAT(RefusalOf(plan), AllOf(HasSubstr("zero_stage 4"), HasSubstr("nearest: 3")));
  for (const double bad : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    plan = Good();
    plan.clip_norm = bad;
    EXPECT_THAT(RefusalOf(plan), HasSubstr("clip_norm")) << bad;
  }
}

TEST(Plan, RefusesMoreRanksThanArePossible) {
  Plan plan = Good();
  plan.dp = plan.tp = plan.pp = kMaxRanks;
  EXPECT_THAT(RefusalOf(plan), AllOf(HasSubstr("dp 1048576 x cp 1 x tp 1048576 x pp 1048576"),
                                     HasSubstr("at most 1048576")));
}

TEST(Plan, RefusesABatchThatDoesNotDivideAndNamesBothNeighbours) {
  Plan plan = Good();
  plan.global_batch = 10;  // dp 2 x micro_batch 4
  EXPECT_THAT(RefusalOf(plan),
              AllOf(HasSubstr("global_batch 10"), HasSubstr("= 8"), HasSubstr("nearest: 8 or 16")));
  plan.global_batch = 3;
  EXPECT_THAT(RefusalOf(plan), HasSubstr("nearest: 8"));
}

TEST(Plan, RefusesMoreMicroBatchesThanIdsHold) {
  Plan plan = Good();
  plan.dp = 1;
  plan.micro_batch = 1;
  plan.global_batch = kMaxMicroBatches;
  EXPECT_EQ(RefusalOf(plan), "accepted");
  plan.global_batch = 4 * kMaxMicroBatches;
  EXPECT_THAT(RefusalOf(plan), AllOf(HasSubstr("1048576 micro-batches"), HasSubstr("at least 4"),
                                     HasSubstr("global_batch to 262144")));
}

TEST(Plan, RefusesATpThatDoesNotDivideTheModelAndNamesTheNearest) {
  Plan plan = Good();
  plan.tp = 5;  // heads 12, kv_heads 12, ffn 3072: common divisors 1 2 3 4 6 12
  EXPECT_THAT(RefusalOf(plan),
              AllOf(HasSubstr("tp 5"), HasSubstr("heads 12"), HasSubstr("4 or 6")));
  ModelSpec grouped = Gpt2();
  grouped.kv_heads = 4;
  plan.tp = 6;
  EXPECT_THAT(RefusalOf(plan, grouped), AllOf(HasSubstr("kv_heads 4"), HasSubstr(": 4")));
  ModelSpec narrow = Gpt2();
  narrow.ffn_hidden = 3070;
  plan.tp = 4;
  EXPECT_THAT(RefusalOf(plan, narrow), AllOf(HasSubstr("ffn_hidden 3070"), HasSubstr(": 2")));
}

TEST(Plan, RefusesMoreStagesThanLayers) {
  Plan plan = Good();
  plan.pp = 13;
  EXPECT_THAT(RefusalOf(plan), AllOf(HasSubstr("pp 13"), HasSubstr("at most pp 12")));
}

TEST(Plan, RefusesMoreLayersThanIdsHold) {
  ModelSpec deep = Gpt2();
  deep.layers = kMaxLayers;
  EXPECT_EQ(RefusalOf(Good(), deep), "accepted");
  deep.layers = kMaxLayers + 1;
  EXPECT_THAT(RefusalOf(Good(), deep), AllOf(HasSubstr("layers 8191"), HasSubstr("at most 8190")));
}

TEST(Plan, LimitsTheSequenceOnlyWhereTheModelDoes) {
  Plan plan = Good();
  plan.sequence = 1025;
  EXPECT_THAT(RefusalOf(plan), AllOf(HasSubstr("sequence 1025"), HasSubstr("at most 1024")));
  ModelSpec rotary = Gpt2();
  rotary.positions = PositionKind::kRope;
  EXPECT_EQ(RefusalOf(plan, rotary), "accepted");
  rotary.attention_window = 512;
  EXPECT_EQ(RefusalOf(plan, rotary), "accepted");
}

TEST(Plan, RefusesActivationsPast2To56Bytes) {
  ModelSpec rotary = Gpt2();
  rotary.positions = PositionKind::kRope;
  Plan plan = Good();
  plan.dp = 1;
  plan.sequence = kMaxModelCount;
  plan.micro_batch = plan.global_batch = 1 << 20;  // 2^31 * 2^20 * 50257 * 4 > 2^56
  EXPECT_THAT(RefusalOf(plan, rotary),
              AllOf(HasSubstr("micro_batch 1048576"), HasSubstr("sequence 2147483647")));
}

TEST(Plan, DescribesItselfShortly) {
  Plan plan = Good();
  plan.tp = 1;
  plan.pp = 2;
  EXPECT_EQ(Describe(plan), "dp2 tp1 pp2 1f1b mb4 x8");
  plan.zero_stage = 1;
  plan.recompute = RecomputeKind::kFull;
  plan.schedule = ScheduleKind::kZbH1;
  EXPECT_EQ(Describe(plan), "dp2 tp1 pp2 zb-h1 mb4 x8 zero1 recompute-full");
  EXPECT_EQ(Describe(Plan{}), "dp1 tp1 pp1 1f1b mb0");
}

TEST(Plan, NamesOfRecomputeKindsReadBack) {
  for (const auto recompute :
       {RecomputeKind::kNone, RecomputeKind::kFull, RecomputeKind::kSelective}) {
    EXPECT_EQ(ParseRecompute(Name(recompute)), recompute);
  }
  EXPECT_EQ(ParseRecompute("some"), std::nullopt);
}

}  // namespace
}  // namespace foretrain
