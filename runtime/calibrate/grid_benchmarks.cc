// Microbenchmarks of single ops over a range of sizes.
#include <algorithm>
#include <array>
#include <numeric>

#include "runtime/calibrate/microbenchmark.h"
#include "sim/program/lower/transfers/transfer_blocks.h"
#include "sim/program/ops/op_kinds.h"

namespace foretrain {
namespace {

constexpr auto kR = Access::kRead;
constexpr auto kW = Access::kWrite;
constexpr auto kRW = Access::kReadWrite;

// A writer with `ranks` ranks in one group, each also paired with its neighbours.
BenchmarkWriter Ranks(std::string name, int ranks, SampleTable& table) {
  BenchmarkWriter writer(std::move(name), ranks, table);
  std::vector<std::vector<int>> groups(1);
  groups[0].resize(static_cast<std::size_t>(ranks));
  std::iota(groups[0].begin(), groups[0].end(), 0);
  for (int rank = 0; rank + 1 < ranks; ++rank) groups.push_back({rank, rank + 1});
  writer.SetGroups(std::move(groups));
  for (int rank = 0; rank < ranks; ++rank) {
    RankProgram like;
    like.groups.fill(-1);
    like.dp = rank;
    if (ranks > 1) like.groups[static_cast<std::size_t>(GroupKind::kWorld)] = 0;
    if (rank + 1 < ranks) like.groups[static_cast<std::size_t>(GroupKind::kNext)] = rank + 1;
    if (rank > 0) like.groups[static_cast<std::size_t>(GroupKind::kPrev)] = rank;
    writer.AddRank(like);
  }
  return writer;
}

// True on the first call for this op and concurrency; marks it as covered.
bool IsNew(const Op& op, int group, int concurrency, Coverage& coverage) {
  return coverage[PointOf(op, group, 1, concurrency)]++ == 0;
}

Op Communication(OpKind kind, GroupKind group, Queue queue, std::int64_t elements) {
  Op op;
  op.kind = kind;
  op.queue = queue;
  op.op_class = OpClass::kDpComm;
  op.group = group;
  op.shape.elements = elements;
  return op;
}

// Appends an op after a fill of its tensor, so that a transfer reads data just written by the
// compute queue, as in a step.
void AppendAfterWrite(BenchmarkWriter& writer, int rank, std::int32_t buffer, std::int64_t elements,
                      const Op& op, const std::vector<BenchmarkWriter::Tensor>& tensors) {
  Op fill;
  fill.kind = OpKind::kFill;
  fill.shape.elements = elements;
  writer.AppendOp(rank, fill, {{buffer, kW, 0, elements}}, false);
  writer.AfterPrevious(rank);
  writer.AppendOp(rank, op, tensors, true);
  writer.AfterPrevious(rank);
}

// Appends a collective on all ranks. `buffers`: one for each rank, of at least 2 * `elements`; the
// second half holds outputs that may not overlap the input.
void AppendCollective(BenchmarkWriter& writer, const std::vector<std::int32_t>& buffers,
                      OpKind kind, std::int64_t elements, Coverage& coverage) {
  const int ranks = static_cast<int>(buffers.size());
  const Op op = Communication(kind, GroupKind::kWorld, Queue::kReduce, elements);
  if (!IsNew(op, ranks, ranks, coverage)) return;
  const std::int64_t shard = elements / ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int32_t buffer = buffers[static_cast<std::size_t>(rank)];
    const BenchmarkWriter::Tensor whole{buffer, kRW, 0, elements};
    const BenchmarkWriter::Tensor in =
        kind == OpKind::kAllGather ? BenchmarkWriter::Tensor{buffer, kR, shard * rank, shard}
                                   : BenchmarkWriter::Tensor{buffer, kR, 0, elements};
    const bool apart = kind == OpKind::kAllToAll || kind == OpKind::kRotate;
    const BenchmarkWriter::Tensor out =
        kind == OpKind::kReduceScatter ? BenchmarkWriter::Tensor{buffer, kRW, shard * rank, shard}
        : apart                        ? BenchmarkWriter::Tensor{buffer, kW, elements, elements}
                                       : whole;
    AppendAfterWrite(writer, rank, buffer, elements, op, {in, out});
  }
}

// A send from rank 0 to rank 1; other ranks are idle. Send and receive are two points.
void AppendTransfer(BenchmarkWriter& writer, const std::vector<std::int32_t>& buffers,
                    std::int64_t elements, Coverage& coverage) {
  const int ranks = static_cast<int>(buffers.size());
  const Op send = Communication(OpKind::kSend, GroupKind::kNext, Queue::kSendNext, elements);
  const Op recv = Communication(OpKind::kRecv, GroupKind::kPrev, Queue::kRecvPrev, elements);
  const bool fresh = IsNew(send, 2, ranks, coverage);
  if (!IsNew(recv, 2, ranks, coverage) && !fresh) return;
  AppendAfterWrite(writer, 0, buffers[0], elements, send, {{buffers[0], kR, 0, elements}});
  writer.AppendOp(1, recv, {{buffers[1], kW, 0, elements}}, true);
  writer.AfterPrevious(1);
}

}  // namespace

// Sizes grow about eightfold: small ones show the latency, large ones the bandwidth. 16 elements a
// rank keep shards aligned.
Microbenchmark CommunicationGrid(int ranks, std::int64_t max, Coverage& coverage,
                                 SampleTable& table) {
  BenchmarkWriter writer = Ranks("communication by size", ranks, table);
  constexpr std::array<std::int64_t, 7> kScales{1, 64, 1024, 8192, 65536, 262144, 1048576};
  std::vector<std::int32_t> buffers;
  for (int rank = 0; rank < ranks; ++rank) {
    buffers.push_back(writer.Buffer(rank, 2 * max * 16 * ranks, true));
  }
  for (const std::int64_t scale : kScales) {
    if (scale > max) break;
    const std::int64_t elements = scale * 16 * ranks;
    for (const OpKind kind : {OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kAllGather,
                              OpKind::kAllToAll, OpKind::kRotate}) {
      AppendCollective(writer, buffers, kind, elements, coverage);
    }
    AppendTransfer(writer, buffers, elements, coverage);
  }
  return writer.Take(1);
}

namespace {

// Memory of each rank that ops use in turn, so that no op finds its operands in cache from the
// previous op.
class Pool {
 public:
  Pool(BenchmarkWriter& writer, int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      buffers_.push_back(writer.Buffer(rank, kFloats, true));
    }
  }

  BenchmarkWriter::Tensor Next(std::int64_t floats, Access access) {
    if (floats == 0) return {};
    const std::int64_t aligned = (floats + 63) / 64 * 64;
    if (at_ + aligned > kFloats) at_ = 0;
    const BenchmarkWriter::Tensor tensor{0, access, at_, floats};
    at_ += aligned;
    return tensor;
  }
  std::int32_t buffer(int rank) const { return buffers_[static_cast<std::size_t>(rank)]; }
  int ranks() const { return static_cast<int>(buffers_.size()); }

 private:
  static constexpr std::int64_t kFloats = 20 << 20;  // 80 MiB: more than caches hold
  std::vector<std::int32_t> buffers_;
  std::int64_t at_ = 0;
};

// An operand and its size in floats; operands that are not listed are absent.
struct OperandSize {
  OperandName name;
  std::int64_t floats;
};
using Sizes = std::vector<OperandSize>;

// Appends an op to all ranks, with operand order and access from the table of ops.
void AppendEverywhere(BenchmarkWriter& writer, Pool& pool, const Op& op, const Sizes& sizes,
                      Coverage& coverage) {
  if (!IsNew(op, 1, pool.ranks(), coverage)) return;
  std::size_t count = 0;
  for (const auto& [name, floats] : sizes) count = std::max(count, PositionOf(op, name) + 1);
  std::vector<BenchmarkWriter::Tensor> bound(count);
  for (const auto& [name, floats] : sizes) {
    bound[PositionOf(op, name)] = pool.Next(floats, UsualAccess(op, name));
  }
  for (int rank = 0; rank < pool.ranks(); ++rank) {
    for (BenchmarkWriter::Tensor& tensor : bound) {
      if (tensor.size > 0) tensor.buffer = pool.buffer(rank);
    }
    writer.AppendOp(rank, op, bound, true);
  }
}

Op Gemm(std::int64_t m, std::int64_t n, std::int64_t k, bool trans_a, bool trans_b) {
  Op op;
  op.kind = OpKind::kGemm;
  op.op_class = OpClass::kGemm;
  op.trans_a = trans_a;
  op.trans_b = trans_b;
  op.accumulate = trans_a;
  op.shape.rows = m;
  op.shape.cols = n;
  op.shape.inner = k;
  return op;
}

// An elementwise op; kinds that count elements instead of rows get them too.
Op Elements(OpKind kind, std::int64_t rows, std::int64_t cols) {
  Op op;
  op.kind = kind;
  op.shape.rows = rows;
  op.shape.cols = cols;
  op.shape.elements = kind == OpKind::kAdamW || kind == OpKind::kSquaredNorm ? rows * cols : 0;
  return op;
}

}  // namespace

// Points between which the cost model interpolates for plans that were not calibrated.
Microbenchmark ComputeGrid(int ranks, Coverage& coverage, SampleTable& table) {
  BenchmarkWriter writer = Ranks("compute by size", ranks, table);
  Pool pool(writer, ranks);
  const auto append = [&](const Op& op, const Sizes& sizes) {
    AppendEverywhere(writer, pool, op, sizes, coverage);
  };
  // GEMM sizes of small models' layers: forward and both gradients, transposed as in the blocks.
  for (const std::int64_t tokens : {128, 1024}) {
    for (const std::int64_t hidden : {256, 768}) {
      for (const std::int64_t wide : {hidden, 4 * hidden}) {
        const std::int64_t in = tokens * hidden;
        const std::int64_t weight = hidden * wide;
        const std::int64_t out = tokens * wide;
        append(Gemm(tokens, wide, hidden, false, true), {{"a", in}, {"b", weight}, {"c", out}});
        append(Gemm(tokens, hidden, wide, false, false), {{"a", out}, {"b", weight}, {"c", in}});
        append(Gemm(wide, hidden, tokens, true, false), {{"a", out}, {"b", in}, {"c", weight}});
      }
    }
  }
  for (const std::int64_t rows : {64, 1024, 8192}) {
    const std::int64_t n = rows * 512;
    append(Elements(OpKind::kGeluForward, rows, 512), {{"x", n}, {"y", n}});
    append(Elements(OpKind::kGeluBackward, rows, 512), {{"x", n}, {"dy", n}, {"dx", n}});
    append(Elements(OpKind::kSquaredNorm, rows, 512), {{"x", n}, {"out", 1}});
    append(Elements(OpKind::kAdamW, rows, 512),
           {{"param", n}, {"grad", n}, {"moment1", n}, {"moment2", n}});
  }
  return writer.Take(1);
}

// Both directions at each size. Copies wait for one another, so that none shares the bus or the
// disk with the next.
Microbenchmark CopyGrid(int ranks, bool disk, Coverage& coverage, SampleTable& table) {
  BenchmarkWriter writer =
      Ranks(disk ? "copies of a disk by size" : "copies by size", ranks, table);
  // Up to 16 MiB, in multiples of a disk's block.
  constexpr std::array<std::int64_t, 4> kFloats{1 << 10, 1 << 14, 1 << 18, 1 << 22};
  const Space far = disk ? Space::kNvme : Space::kDevice;
  std::vector<std::array<std::int32_t, 2>> buffers;
  for (int rank = 0; rank < ranks; ++rank) {
    buffers.push_back({writer.Buffer(rank, kFloats.back(), true, Space::kPinned),
                       writer.Buffer(rank, kFloats.back(), true, far)});
  }
  for (const std::int64_t floats : kFloats) {
    for (const bool out : {false, true}) {
      Op op;
      op.kind = OpKind::kCopy;
      op.op_class = OpClass::kCopy;
      op.from = out ? Space::kPinned : far;
      op.to = out ? far : Space::kPinned;
      op.queue = QueueOfCopy(op.from, op.to);
      op.shape.elements = floats;
      if (!IsNew(op, 1, ranks, coverage)) continue;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto [pinned, there] = buffers[static_cast<std::size_t>(rank)];
        writer.AppendOp(
            rank, op,
            {{out ? pinned : there, kR, 0, floats}, {out ? there : pinned, kW, 0, floats}}, true);
        writer.AfterPrevious(rank);
      }
    }
  }
  return writer.Take(1);
}

// First kTinyOps fills without edges: their issue times give the cost of a launch. Then two queues
// that wait for each other in turn: their gaps give the cost of waking a queue.
Microbenchmark OverheadBenchmark(int ranks, SampleTable& table) {
  BenchmarkWriter writer = Ranks("launches and wakes", ranks, table);
  constexpr std::int64_t kFloats = 1 << 16;  // tens of microseconds: longer than a queue spins
  Op tiny;
  tiny.kind = OpKind::kFill;
  tiny.shape.elements = 16;
  Op there = tiny;
  there.shape.elements = kFloats;
  Op back = there;
  back.queue = Queue::kGather;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int32_t a = writer.Buffer(rank, kFloats, true);
    const std::int32_t b = writer.Buffer(rank, kFloats, true);
    for (int i = 0; i < kTinyOps; ++i) writer.AppendOp(rank, tiny, {{a, kW, 0, 16}}, false);
    for (int i = 0; i < 32; ++i) {
      writer.AppendOp(rank, there, {{a, kW}, {b, kR}}, false);
      writer.AppendOp(rank, back, {{b, kW}, {a, kR}}, false);
    }
  }
  return writer.Take(1);
}

}  // namespace foretrain
