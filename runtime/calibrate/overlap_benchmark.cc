// Measures how much GEMMs slow down while communication or copies run: the same GEMMs alone and
// overlapped.
#include <algorithm>
#include <numeric>

#include "runtime/calibrate/microbenchmark.h"
#include "sim/program/lower/transfers/transfer_blocks.h"

namespace foretrain {
namespace {

constexpr auto kR = Access::kRead;
constexpr auto kW = Access::kWrite;
constexpr int kAlone = 4;        // GEMMs before the other op
constexpr int kOverlapped = 12;  // GEMMs issued after its start

Op SquareGemm(std::int64_t size) {
  Op op;
  op.kind = OpKind::kGemm;
  op.op_class = OpClass::kGemm;
  op.trans_b = true;
  op.shape.rows = op.shape.cols = op.shape.inner = size;
  return op;
}

// The op to overlap with: an all-reduce between ranks, or a copy off the device on one rank.
Op Other(int ranks, std::int64_t elements) {
  Op op;
  op.shape.elements = elements;
  if (ranks > 1) {
    op.kind = OpKind::kAllReduce;
    op.queue = Queue::kReduce;
    op.op_class = OpClass::kDpComm;
    op.group = GroupKind::kWorld;
    return op;
  }
  op.kind = OpKind::kCopy;
  op.op_class = OpClass::kCopy;
  op.from = Space::kDevice;
  op.to = Space::kPinned;
  op.queue = QueueOfCopy(op.from, op.to);
  return op;
}

bool IsOther(const Span& span) {
  return IsCommunication(span.op_class) || span.op_class == OpClass::kCopy;
}

}  // namespace

// One step: GEMMs alone, then the other op on its own queue, then GEMMs that run meanwhile. Nothing
// is sampled as a point: OverlapOf compares the spans.
Microbenchmark OverlapBenchmark(int ranks, std::int64_t gemm, std::int64_t elements,
                                SampleTable& table) {
  BenchmarkWriter writer(ranks > 1 ? "compute beside a collective" : "compute beside copies", ranks,
                         table);
  std::vector<std::vector<int>> groups(1);
  groups[0].resize(static_cast<std::size_t>(ranks));
  std::iota(groups[0].begin(), groups[0].end(), 0);
  writer.SetGroups(std::move(groups));
  const Op other = Other(ranks, elements);
  const std::int64_t square = gemm * gemm;
  for (int rank = 0; rank < ranks; ++rank) {
    RankProgram like;
    like.groups.fill(-1);
    like.dp = rank;
    if (ranks > 1) like.groups[static_cast<std::size_t>(GroupKind::kWorld)] = 0;
    writer.AddRank(like);
    const std::int32_t matrices = writer.Buffer(rank, 3 * square, true);
    const std::int32_t moved = writer.Buffer(rank, elements, true);
    const std::int32_t destination =
        ranks > 1 ? moved : writer.Buffer(rank, elements, true, Space::kPinned);
    const auto multiply = [&] {
      writer.AppendOp(rank, SquareGemm(gemm),
                      {{matrices, kR, 0, square},
                       {matrices, kR, square, square},
                       {},
                       {matrices, kW, 2 * square, square}},
                      false);
    };
    for (int i = 0; i < kAlone; ++i) multiply();
    if (ranks > 1) {
      const BenchmarkWriter::Tensor whole{moved, Access::kReadWrite, 0, elements};
      writer.AppendOp(rank, other, {whole, whole}, false);
    } else {
      writer.AppendOp(rank, other, {{moved, kR, 0, elements}, {destination, kW, 0, elements}},
                      false);
    }
    writer.AfterPrevious(rank);
    for (int i = 0; i < kOverlapped; ++i) multiply();
  }
  return writer.Take(1);
}

// A GEMM counts as overlapped only if the other op covers all of it, and as alone only if none
// touches it. Partly overlapped GEMMs are dropped. Quadratic in the spans of a run.
Overlap OverlapOf(const std::vector<Span>& spans) {
  Overlap overlap;
  for (const Span& span : spans) {
    if (span.op_class != OpClass::kGemm) continue;
    bool within = false, apart = true;
    for (const Span& other : spans) {
      if (other.rank != span.rank || !IsOther(other)) continue;
      within = within || (other.start_ns <= span.start_ns && span.end_ns <= other.end_ns);
      apart = apart && (other.end_ns <= span.start_ns || span.end_ns <= other.start_ns);
    }
    const std::int64_t took = span.end_ns - span.start_ns;
    if (within) overlap.overlapped.push_back(took);
    if (apart) overlap.alone.push_back(took);
  }
  return overlap;
}

// Medians, so that a few preempted GEMMs do not matter.
std::optional<double> SlowdownOf(const Overlap& overlap) {
  constexpr int kFewest = 5;
  const Spread alone = SpreadOf(overlap.alone), overlapped = SpreadOf(overlap.overlapped);
  if (alone.samples < kFewest || overlapped.samples < kFewest || alone.median <= 0) {
    return std::nullopt;
  }
  return std::max(1.0, overlapped.median / alone.median);
}

}  // namespace foretrain
