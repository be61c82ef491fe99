// A trace beside its forecast in the desktop: its kernels are the forecast's ops.
#if FORETRAIN_HAVE_UI
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "app/desktop/desktop_stores.h"
#include "app/runs/explained_runs.h"
#include "tests/app/run_binary.h"
#include "ui/view_model/ranks/lane_list.h"
#include "ui/view_model/runs/compare_model.h"

namespace foretrain {
namespace {

using testing::Contains;
using testing::HasSubstr;

// One step: a matrix product, and an all-reduce overlapped with its second half.
std::string Trace(int rank) {
  return R"({"distributedInfo":{"rank":)" + std::to_string(rank) +
         R"(,"world_size":2},"traceEvents":[
    {"ph":"X","cat":"user_annotation","name":"ProfilerStep#0","pid":1,"tid":1,"ts":0,"dur":1000},
    {"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":1000,"dur":1000},
    {"ph":"X","cat":"kernel","name":"gemm_bf16","pid":0,"tid":7,"ts":0,"dur":400},
    {"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":20,"ts":200,"dur":400},
    {"ph":"X","cat":"kernel","name":"gemm_bf16","pid":0,"tid":7,"ts":1000,"dur":400},
    {"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":20,"ts":1200,"dur":400}
  ]})";
}

TEST(TracedForecast, PairsKernelsWithOpsByStructureInEachStep) {
  const TemporaryFolder folder;
  const ProgramEnd predicted =
      RunForetrain(folder.path(),
                   "predict --model gpt2-124m --cluster 1x2xh100-sxm --dp 2 --sequence 128 "
                   "--global-batch 2 --store s.db");
  ASSERT_EQ(predicted.code, 0) << predicted.errors;
  folder.Write("r0.json", Trace(0));
  folder.Write("r1.json", Trace(1));
  const ProgramEnd imported =
      RunForetrain(folder.path(), "import r0.json r1.json --store s.db --forecast 1");
  ASSERT_EQ(imported.code, 0) << imported.errors;

  DesktopStores stores;
  const auto opened = stores.Open({folder.path() + "/s.db", 2, 0});
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  const CompareInput& input = (*opened)->input;
  ASSERT_TRUE(input.measured.has_value());
  ASSERT_TRUE(input.measured->structure.has_value());
  // A product and an all-reduce on each of two ranks in each of two steps.
  EXPECT_EQ(input.measured->structure->kernels, 8);
  EXPECT_EQ(input.measured->structure->paired_kernels, 8);
  const Timeline& forecast = input.predicted->timeline;
  for (const Span& span : input.measured->timeline.spans) {
    const bool has_op = std::any_of(
        forecast.spans.begin(), forecast.spans.end(),
        [&span](const Span& other) { return other.op == span.op && other.rank == span.rank; });
    EXPECT_TRUE(has_op) << Describe(span.op) << " of rank " << span.rank;
  }

  const ui::CompareModel model = ui::BuildCompareModel(input, ui::FactsOf(input), {});
  EXPECT_THAT(model.notices, Contains(HasSubstr("by structure: 100.0 % of the traced time")));
  const auto pairs = std::count_if(model.pairs.begin(), model.pairs.end(),
                                   [](const PairedOp& pair) { return pair.IsPair(); });
  EXPECT_EQ(pairs, 4);  // of the chosen step

  // Two kernels a step are no whole trace, so the gap is not explained, and a sentence says why.
  const auto explained = ExplainStoredRuns({folder.path() + "/s.db", 2, 0}, 0);
  ASSERT_TRUE(explained.has_value()) << explained.error().message;
  EXPECT_FALSE(explained->attribution.has_value());
  EXPECT_THAT(explained->notes, Contains(HasSubstr("gap not attributed")));
}

// 16 ranks of two stages: the forecast holds some, and each of the 16 has one that stands for it.
TEST(StoredForecast, KnowsForWhichRanksEachStands) {
  const TemporaryFolder folder;
  const ProgramEnd predicted =
      RunForetrain(folder.path(),
                   "predict --model gpt2-124m --cluster 2x8xh100-sxm --pp 2 --dp 8 --sequence 128 "
                   "--global-batch 32 --micro-batch 1 --store s.db");
  ASSERT_EQ(predicted.code, 0) << predicted.errors;
  DesktopStores stores;
  const auto opened = stores.Open({folder.path() + "/s.db", 0, 0});
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  const CompareInput& input = (*opened)->input;
  ASSERT_TRUE(input.predicted.has_value());
  ASSERT_EQ(input.predicted->stands_for_rank.size(), 16U);
  const ui::CompareModel model = ui::BuildCompareModel(input, ui::FactsOf(input), {});
  std::int64_t ranks = 0;
  for (const ui::LaneRow& row : ui::ArrangeLanes(model, {}).rows) ranks += row.stands_for;
  EXPECT_EQ(ranks, 16);
  EXPECT_LT(model.lanes.size(), 16U);
}

}  // namespace
}  // namespace foretrain
#endif
