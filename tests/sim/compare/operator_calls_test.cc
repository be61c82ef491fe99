// Operators that run within others are one piece of work with them.
#include "sim/compare/structure/operator_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "sim/compare/structure/pair_by_structure.h"
#include "traces/import/op_ids.h"

namespace foretrain {
namespace {

using testing::ElementsAre;

// aten::linear runs aten::matmul, which runs aten::mm; aten::add runs nothing.
TEST(OutermostCalls, ContainAllThatRunsWithinThem) {
  const std::vector<OperatorCall> calls = {
      {.start_ns = 0, .end_ns = 100, .busy_ns = 10, .pieces = 2},
      {.start_ns = 5, .end_ns = 90, .busy_ns = 15, .pieces = 2},
      {.start_ns = 20, .end_ns = 80, .busy_ns = 60, .is_heavy = true},
      {.start_ns = 100, .end_ns = 120, .busy_ns = 20}};
  EXPECT_THAT(OutermostCalls(calls), ElementsAre(0, 0, 0, 3));
}

// Kernels of two streams overlap, though one lies within the other.
TEST(OutermostCalls, KeepKernelsOfSeveralStreamsApart) {
  const std::vector<OperatorCall> calls = {{.start_ns = 0, .end_ns = 100, .busy_ns = 100},
                                           {.start_ns = 10, .end_ns = 20, .busy_ns = 10}};
  EXPECT_THAT(OutermostCalls(calls), ElementsAre(0, 1));
}

// A node of autograd with one product is one piece of work.
TEST(OutermostCalls, KeepAFrameWithOneProductTogether) {
  const std::vector<OperatorCall> calls = {
      {.start_ns = 0, .end_ns = 100, .busy_ns = 40, .pieces = 3, .is_frame = true},
      {.start_ns = 10, .end_ns = 20, .busy_ns = 10},
      {.start_ns = 30, .end_ns = 80, .busy_ns = 50, .is_heavy = true}};
  EXPECT_THAT(OutermostCalls(calls), ElementsAre(0, 0, 0));
}

// MmBackward0 runs the products of both gradients, which are different work. The node's own time
// goes to the longer one, as does that of the node around it.
TEST(OutermostCalls, SplitAFrameWithSeveralProducts) {
  const std::vector<OperatorCall> calls = {
      {.start_ns = 0, .end_ns = 100, .busy_ns = 10, .pieces = 2, .is_frame = true},
      {.start_ns = 5, .end_ns = 95, .busy_ns = 10, .pieces = 4, .is_frame = true},
      {.start_ns = 10, .end_ns = 12, .busy_ns = 2},
      {.start_ns = 20, .end_ns = 40, .busy_ns = 20, .is_heavy = true},
      {.start_ns = 50, .end_ns = 90, .busy_ns = 5, .pieces = 2, .is_heavy = true},
      {.start_ns = 55, .end_ns = 90, .busy_ns = 35, .is_heavy = true}};
  EXPECT_THAT(OutermostCalls(calls), ElementsAre(4, 4, 2, 3, 4, 4));
}

// One forward pass as PyTorch's profiler writes it on the CPU. The copy of the bias takes longer
// than the product around it, as on a busy machine, and still is a part of it.
TEST(PairByStructure, TakesNestedOperatorsForOneOp) {
  const auto span = [](OpId op, OpClass op_class, std::int64_t start, std::int64_t end) {
    Span made;
    made.op = op;
    made.op_class = op_class;
    made.step = 0;
    made.start_ns = start;
    made.end_ns = end;
    return made;
  };
  const auto id = [](int number) {
    return PackId({.kind = InstructionKind::kBlock, .pass = Pass::kForward, .block = 1}, number);
  };
  Timeline forecast;
  forecast.world = 1;
  const char* const kOps[] = {"norm2", "mlp.up", "mlp.gelu", "mlp.down"};
  const OpClass kClasses[] = {OpClass::kMemoryBound, OpClass::kGemm, OpClass::kMemoryBound,
                              OpClass::kGemm};
  for (int i = 0; i < 4; ++i) {
    forecast.op_names[NameKey(id(i))] = kOps[i];
    forecast.spans.push_back(span(id(i), kClasses[i], 1000 * i, 1000 * i + 900));
  }
  Timeline trace;
  trace.world = 1;
  trace_import::OpIds ids;
  std::vector<const char*> expected;
  const auto add = [&](const char* name, OpClass op_class, const char* op,
                       std::vector<std::pair<std::int64_t, std::int64_t>> pieces) {
    const OpId call = ids.Next({.pass = Pass::kForward}, name, 0, 0);
    for (const auto& [start, end] : pieces) {
      trace.spans.push_back(span(call, op_class, start, end));
      expected.push_back(op);
    }
  };
  add("aten::layer_norm", OpClass::kMemoryBound, "norm2", {{0, 100}, {800, 900}});
  add("aten::native_layer_norm", OpClass::kMemoryBound, "norm2", {{100, 800}});
  add("aten::linear", OpClass::kGemm, "mlp.up", {{1000, 1010}, {3500, 3510}});
  add("aten::addmm", OpClass::kGemm, "mlp.up", {{1010, 1020}, {2800, 3500}});
  add("aten::copy_", OpClass::kMemoryBound, "mlp.up", {{1020, 2800}});
  add("aten::gelu", OpClass::kMemoryBound, "mlp.gelu", {{4000, 4900}});
  add("aten::linear", OpClass::kGemm, "mlp.down", {{5000, 5010}, {5900, 5910}});
  add("aten::addmm", OpClass::kGemm, "mlp.down", {{5010, 5900}});
  trace.op_names = ids.TakeNames();
  const StructuralPairs pairs = PairByStructure(forecast, 0, trace, 0);
  EXPECT_EQ(pairs.paired_kernels, 8);
  EXPECT_EQ(pairs.paired_ops, 4);
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    EXPECT_EQ(trace.op_names.at(NameKey(trace.spans[i].op)), expected[i]) << i;
  }
}

}  // namespace
}  // namespace foretrain
