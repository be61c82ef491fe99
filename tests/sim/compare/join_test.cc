#include "sim/compare/join.h"

#include <gtest/gtest.h>

namespace foretrain {
namespace {

Span Gemm(int block, std::int64_t start_ns, std::int64_t end_ns) {
  return {.start_ns = start_ns,
          .end_ns = end_ns,
          .op = PackId({.pass = Pass::kForward, .block = block}, 0),
          .op_class = OpClass::kGemm};
}

// One op is in both runs and one in each alone. The measured run also has a collective.
TEST(JoinRuns, SumsClassesOverOpsWithoutACounterpartWhereAsked) {
  Timeline predicted, measured;
  predicted.spans = {Gemm(1, 0, 100), Gemm(2, 100, 150)};
  Span reduce = Gemm(9, 0, 40);
  reduce.op_class = OpClass::kDpComm;
  reduce.queue = Queue::kReduce;
  measured.spans = {Gemm(1, 0, 120), Gemm(3, 120, 180), reduce};

  const RunJoin join = JoinRuns(predicted, 0, measured, 0);
  ASSERT_EQ(join.classes.size(), 1U);
  EXPECT_DOUBLE_EQ(join.classes[0].predicted_s, 100e-9);
  EXPECT_DOUBLE_EQ(join.classes[0].measured_s, 120e-9);
  ASSERT_EQ(join.only_predicted.size(), 1U);
  EXPECT_EQ(join.only_predicted[0].op, predicted.spans[1].op);
  EXPECT_EQ(join.only_predicted[0].busy_ns, 50);
  ASSERT_EQ(join.only_measured.size(), 2U);
  EXPECT_EQ(join.only_measured[0].busy_ns + join.only_measured[1].busy_ns, 60 + 40);

  const auto classes = ClassesOfAll(predicted, 0, measured, 0);
  ASSERT_EQ(classes.size(), 2U);
  EXPECT_EQ(classes[0].op_class, OpClass::kGemm);
  EXPECT_EQ(classes[0].ops, 2);
  EXPECT_DOUBLE_EQ(classes[0].predicted_s, 150e-9);
  EXPECT_DOUBLE_EQ(classes[0].measured_s, 180e-9);
  EXPECT_EQ(classes[1].op_class, OpClass::kDpComm);
  EXPECT_DOUBLE_EQ(classes[1].predicted_s, 0.0);
  EXPECT_DOUBLE_EQ(classes[1].measured_s, 40e-9);
}

}  // namespace
}  // namespace foretrain
