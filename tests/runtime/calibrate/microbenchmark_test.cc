#include "runtime/calibrate/microbenchmark.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/runtime/training.h"

namespace foretrain {
namespace {

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

Plan Split(int dp, int tp, int pp) {
  Plan plan = TinyPlan();
  plan.dp = dp;
  plan.tp = tp;
  plan.pp = pp;
  return plan;
}

Program Compiled(const Plan& plan) {
  auto program = Compile(TinyGpt(), plan);
  EXPECT_TRUE(program.has_value()) << program.error().message;
  return *std::move(program);
}

// Number of ops of each kind in the steps of a program.
std::map<OpKind, int> KindsOf(const Program& program) {
  std::map<OpKind, int> kinds;
  for (const RankProgram& rank : program.ranks) {
    for (const OpRef ref : OpRefs(program, rank)) ++kinds[OpAt(program, rank, ref).kind];
  }
  return kinds;
}

std::set<OpKind> SetOf(const Program& program, bool communication) {
  std::set<OpKind> set;
  for (const auto& [kind, count] : KindsOf(program)) {
    if (communication || !IsCommunication(kind)) set.insert(kind);
  }
  return set;
}

TEST(ComputeBenchmark, AloneHasTheWorkOfAllStagesOnOneRankWithoutCommunication) {
  const Program plan = Compiled(Split(1, 2, 2));
  SampleTable table;
  Coverage coverage;
  const Microbenchmark benchmark = ComputeBenchmark(plan, true, 1, coverage, table);
  ASSERT_EQ(benchmark.program->ranks.size(), 1U);
  EXPECT_EQ(benchmark.concurrency, 1);
  EXPECT_EQ(SetOf(*benchmark.program, true), SetOf(plan, false));
}

TEST(ComputeBenchmark, TogetherKeepsTheCollectivesInsideBlocksAndNoOthers) {
  const Program plan = Compiled(Split(2, 2, 1));
  SampleTable table;
  Coverage coverage;
  const Microbenchmark benchmark = ComputeBenchmark(plan, false, 2, coverage, table);
  ASSERT_EQ(benchmark.program->ranks.size(), 4U);
  EXPECT_EQ(benchmark.concurrency, 4);
  for (const RankProgram& rank : benchmark.program->ranks) {
    int collectives = 0;
    for (const OpRef ref : OpRefs(*benchmark.program, rank)) {
      const Op& op = OpAt(*benchmark.program, rank, ref);
      if (!IsCommunication(op.kind)) continue;
      EXPECT_EQ(op.group, GroupKind::kTp) << op.name;
      ++collectives;
    }
    EXPECT_GT(collectives, 0);
  }
}

TEST(ComputeBenchmark, LeavesOutWhatAnEarlierMicrobenchmarkHas) {
  const Program plan = Compiled(TinyPlan());
  SampleTable table;
  Coverage coverage;
  const Microbenchmark first = ComputeBenchmark(plan, true, 2, coverage, table);
  const Microbenchmark second = ComputeBenchmark(plan, true, 2, coverage, table);
  EXPECT_GT(first.program->ranks[0].op_count, 0);
  EXPECT_EQ(second.program->ranks[0].op_count, 0);
}

TEST(ComputeBenchmark, TakesAnOpNoMoreOftenThanAsked) {
  // All layers have the same ops, so with one repeat one forward of a layer covers all four.
  const Program plan = Compiled(TinyPlan());
  SampleTable table;
  Coverage coverage;
  const Microbenchmark benchmark = ComputeBenchmark(plan, true, 1, coverage, table);
  EXPECT_EQ(KindsOf(*benchmark.program)[OpKind::kAttentionForward], 1);
  EXPECT_GT(KindsOf(plan)[OpKind::kAttentionForward], 4);
}

// A tensor that is read before it is written was written by a part of the step that the excerpt
// drops.
TEST(ComputeBenchmark, MakesStateOfWhatItReadsBeforeWriting) {
  const Program plan = Compiled(TinyPlan());
  SampleTable table;
  Coverage coverage;
  const Microbenchmark benchmark = ComputeBenchmark(plan, true, 1, coverage, table);
  const RankProgram& rank = benchmark.program->ranks[0];
  std::set<std::int32_t> seen;
  for (const OpRef ref : OpRefs(*benchmark.program, rank)) {
    const Instruction& instruction = rank.step[At(ref.instruction)];
    const Block& block = benchmark.program->blocks[At(instruction.block)];
    const Op& op = block.ops[At(ref.op)];
    for (int i = 0; i < op.operand_count; ++i) {
      const Binding binding = OperandBinding(*benchmark.program, rank, ref, i);
      if (binding.bytes == 0 || !seen.insert(binding.buffer).second) continue;
      if (block.operands[At(op.first_operand + i)].access == Access::kWrite) continue;
      EXPECT_TRUE(rank.buffers[At(binding.buffer)].persistent) << op.name << " operand " << i;
    }
  }
}

TEST(ComputeBenchmark, KeepsTensorsOfOneBufferInOneBuffer) {
  // All parameters of a bucket are in one buffer, and the excerpt must keep them there.
  Plan wide = TinyPlan();
  wide.bucket_bytes = 1'000'000'000;
  const Program plan = Compiled(wide);
  SampleTable table;
  Coverage coverage;
  const Microbenchmark benchmark = ComputeBenchmark(plan, true, 1, coverage, table);
  const auto parameter_buffers = [](const RankProgram& rank) {
    return std::count_if(rank.buffers.begin(), rank.buffers.end(), [](const Buffer& buffer) {
      return buffer.category == Category::kParameters;
    });
  };
  EXPECT_EQ(parameter_buffers(benchmark.program->ranks[0]), parameter_buffers(plan.ranks[0]));
}

TEST(CommunicationBenchmark, TimesWhatLiesBetweenBlocks) {
  const Program plan = Compiled(Split(2, 1, 2));
  SampleTable table;
  Coverage coverage;
  const Microbenchmark benchmark = CommunicationBenchmark(plan, 2, coverage, table);
  EXPECT_EQ(SetOf(*benchmark.program, true),
            (std::set<OpKind>{OpKind::kAllReduce, OpKind::kSend, OpKind::kRecv}));
  const auto kinds = KindsOf(*benchmark.program);
  EXPECT_EQ(kinds.at(OpKind::kSend), kinds.at(OpKind::kRecv));
  for (const SampleTable::Series& series : table.series()) {
    EXPECT_EQ(series.key.concurrency, 4);
    EXPECT_GE(series.key.group, 2);
  }
}

TEST(CommunicationGrid, HasEachKindAtSeveralSizes) {
  SampleTable table;
  Coverage coverage;
  const Microbenchmark benchmark = CommunicationGrid(2, kMaxOfProcessors, coverage, table);
  std::map<OpKind, std::set<std::int64_t>> sizes;
  for (const SampleTable::Series& series : table.series()) {
    sizes[series.key.kind].insert(series.key.shape.elements);
  }
  for (const OpKind kind : {OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kAllGather,
                            OpKind::kAllToAll, OpKind::kRotate, OpKind::kSend, OpKind::kRecv}) {
    EXPECT_GE(sizes[kind].size(), 5U) << Name(kind);
  }
}

// Copies from host to device and back, or from host to disk and back, at four sizes on each of two
// ranks.
TEST(CopyGrid, HasEachRouteAtSeveralSizes) {
  for (const bool disk : {false, true}) {
    SampleTable table;
    Coverage coverage;
    const Microbenchmark benchmark = CopyGrid(2, disk, coverage, table);
    const Space far = disk ? Space::kNvme : Space::kDevice;
    std::map<std::pair<Space, Space>, std::set<std::int64_t>> sizes;
    for (const OpRef ref : OpRefs(*benchmark.program, benchmark.program->ranks[1])) {
      const Op& op = OpAt(*benchmark.program, benchmark.program->ranks[1], ref);
      ASSERT_EQ(op.kind, OpKind::kCopy);
      sizes[{op.from, op.to}].insert(op.shape.elements);
    }
    ASSERT_EQ(sizes.size(), 2U);
    EXPECT_EQ((sizes.at({Space::kPinned, far}).size()), 4U);
    EXPECT_EQ((sizes.at({far, Space::kPinned}).size()), 4U);
    EXPECT_EQ(table.series().size(), 8U);
  }
}

Span Timed(std::int64_t start_ns, std::int64_t end_ns, OpClass op_class, int rank = 0) {
  Span span;
  span.start_ns = start_ns;
  span.end_ns = end_ns;
  span.op_class = op_class;
  span.rank = static_cast<std::int16_t>(rank);
  return span;
}

// The all-reduce runs from 100 to 200. Two GEMMs end before it or begin after it, two run within
// it, and one overlaps its start. The other rank's GEMM overlaps with nothing.
TEST(Overlap, TellsOverlappedProductsFromThoseAlone) {
  using enum OpClass;
  const Overlap overlap =
      OverlapOf({Timed(100, 200, kDpComm), Timed(50, 60, kGemm), Timed(200, 211, kGemm),
                 Timed(100, 113, kGemm), Timed(150, 164, kGemm), Timed(95, 110, kGemm),
                 Timed(120, 129, kGemm, 1), Timed(130, 140, kMemoryBound)});
  EXPECT_EQ(overlap.alone, (Durations{10, 11, 9}));
  EXPECT_EQ(overlap.overlapped, (Durations{13, 14}));
}

// The medians are 10 and 12.
TEST(Overlap, SlowdownIsTheRatioOfMediansAndAtLeastOne) {
  Overlap overlap{{10, 9, 10, 11, 30}, {12, 12, 11, 13, 12}};
  EXPECT_DOUBLE_EQ(*SlowdownOf(overlap), 1.2);
  std::swap(overlap.alone, overlap.overlapped);
  EXPECT_DOUBLE_EQ(*SlowdownOf(overlap), 1.0);
  overlap.overlapped.pop_back();
  EXPECT_FALSE(SlowdownOf(overlap).has_value());
}

TEST(OverlapBenchmark, HasProductsThatOverlapACollectiveOrACopy) {
  for (const int ranks : {1, 2}) {
    SampleTable table;
    const Microbenchmark benchmark = OverlapBenchmark(ranks, 16, 1024, table);
    ASSERT_EQ(static_cast<int>(benchmark.program->ranks.size()), ranks);
    std::map<OpKind, int> kinds;
    for (const OpRef ref : OpRefs(*benchmark.program, benchmark.program->ranks[0])) {
      ++kinds[OpAt(*benchmark.program, benchmark.program->ranks[0], ref).kind];
    }
    EXPECT_EQ(kinds.at(OpKind::kGemm), 16);
    EXPECT_EQ(kinds.count(OpKind::kAllReduce), ranks == 2 ? 1U : 0U);
    EXPECT_EQ(kinds.count(OpKind::kCopy), ranks == 1 ? 1U : 0U);
  }
}

}  // namespace
}  // namespace foretrain
