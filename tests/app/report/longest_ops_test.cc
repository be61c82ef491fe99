#include "app/report/longest_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foretrain {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr std::int64_t kMs = 1'000'000;

Span Of(OpId op, int rank, std::int64_t start_ms, std::int64_t end_ms, int step = 3) {
  return {.start_ns = start_ms * kMs,
          .end_ns = end_ms * kMs,
          .op = op,
          .ready_ns = start_ms * kMs,
          .step = step,
          .rank = static_cast<std::int16_t>(rank),
          .queue = Queue::kCompute,
          .op_class = OpClass::kGemm};
}

OpId Id(int block, int number) { return PackId({.pass = Pass::kForward, .block = block}, number); }

// Two ranks; op 0 of two layers and op 1 of one.
Timeline TwoRanks() {
  Timeline timeline;
  timeline.world = 2;
  timeline.spans = {Of(Id(1, 0), 0, 0, 10), Of(Id(2, 0), 0, 10, 20), Of(Id(1, 1), 0, 20, 24),
                    Of(Id(1, 1), 0, 100, 900, /*step=*/4), Of(Id(1, 0), 1, 0, 30)};
  for (const int block : {1, 2}) timeline.op_names[NameKey(Id(block, 0))] = "mlp.up";
  timeline.op_names[NameKey(Id(1, 1))] = "mlp.gelu";
  SortTimeline(timeline);
  return timeline;
}

TEST(LongestOps, SumsAlikeOpsOfOneStepAndMeansOverRanks) {
  const std::vector<OpGroup> ops = LongestOps(TwoRanks(), 3);
  ASSERT_THAT(ops, SizeIs(2));
  EXPECT_EQ(ops[0].name, "mlp.up");
  EXPECT_EQ(ops[0].count, 3);
  EXPECT_DOUBLE_EQ(ops[0].busy_s, 0.025);  // (20 + 30) / 2 ms
  EXPECT_EQ(ops[1].name, "mlp.gelu");
  EXPECT_DOUBLE_EQ(ops[1].busy_s, 0.002);
  const std::string text = LongestOpsText(ops, 0.05);
  EXPECT_THAT(text, HasSubstr("50.0 %"));  // 25 of 50 ms
  EXPECT_THAT(text, HasSubstr("4.0 %"));
}

TEST(LongestOps, PutsWhatIsLeftIntoOneLine) {
  std::vector<OpGroup> ops;
  for (int i = 0; i < 12; ++i) ops.push_back({"op" + std::to_string(i), OpClass::kGemm, 2, 0.01});
  const std::string text = LongestOpsText(ops, 1.0);
  EXPECT_THAT(text, HasSubstr("op9"));
  EXPECT_THAT(text, HasSubstr("2 others"));
  EXPECT_THAT(text, HasSubstr("20.0 ms"));
  EXPECT_EQ(LongestOpsText({}, 1.0), "");
}

}  // namespace
}  // namespace foretrain
