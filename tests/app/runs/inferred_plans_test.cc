// The plan of a trace as text, and as it is stored.
#include "app/runs/inferred_plans.h"

#include <gtest/gtest.h>

namespace foretrain {
namespace {

InferredPlan Told(const char* pp) {
  return {{{"dp", "2", "4 ranks / 2"},
           {"pp", pp, "groups of 2 ranks"},
           {"zero_stage", "", "no reduction of gradients is in the trace"},
           {"schedule", "", "two reasons"},
           {"vpp", "", "two reasons"},
           {"micro_batches", "4", "ranges number them"}}};
}

TEST(InferredPlanText, NamesWhatIsToldAndWhyTheRestIsNot) {
  EXPECT_EQ(TextOf(Told("2")),
            "  plan in the trace: dp 2, pp 2, micro-batches 4\n"
            "    options of predict: --dp 2 --pp 2 --global-batch 8\n"
            "    not told: ZeRO stage: no reduction of gradients is in the trace\n"
            "    not told: schedule, chunks a rank: two reasons\n");
  // One stage has no schedule, so nothing is missing.
  EXPECT_EQ(TextOf(Told("1")),
            "  plan in the trace: dp 2, pp 1, micro-batches 4\n"
            "    options of predict: --dp 2 --global-batch 8\n"
            "    not told: ZeRO stage: no reduction of gradients is in the trace\n");
  EXPECT_EQ(TextOf(InferredPlan{{{"dp", "", "no groups"}}}),
            "  plan in the trace: not told; --json has the reasons\n");
}

TEST(InferredPlanText, IsThatOfTheStoredPlan) {
  const InferredPlan plan = Told("2");
  const auto read = InferredPlanFromJson(ToJson(plan), "test");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(TextOf(*read), TextOf(plan));
  EXPECT_EQ(ToJson(*read), ToJson(plan));
  EXPECT_FALSE(InferredPlanFromJson("{\"fields\":[{\"name\":1}]}", "test").has_value());
  EXPECT_FALSE(InferredPlanFromJson("[]", "test").has_value());
}

}  // namespace
}  // namespace foretrain
