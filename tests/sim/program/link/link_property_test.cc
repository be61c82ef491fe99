// Link and Verify on small random programs, compared with an order found by brute force.
#include <gtest/gtest.h>

#include <bitset>
#include <random>
#include <string>
#include <vector>

#include "sim/program/ir/program.h"
#include "tests/sim/program/draft.h"

namespace foretrain {
namespace {

constexpr int kPrograms = 400;
constexpr int kSteps = 3;
constexpr std::size_t kMaxNodes = 192;
using Reach = std::vector<std::bitset<kMaxNodes>>;  // by node: the nodes that come before it

constexpr Queue kQueues[] = {Queue::kCompute, Queue::kTp, Queue::kGather, Queue::kReduce,
                             Queue::kH2d};

class RandomProgram {
 public:
  RandomProgram(std::uint64_t seed, int ranks) : draft(ranks), random_(seed) {
    for (int r = 0; r < ranks; ++r) {
      auto& buffers = buffers_.emplace_back();
      const int count = 3 + Below(8);
      for (int b = 0; b < count; ++b) {
        const std::int64_t bytes = 256 * (1 + Below(4)) - Below(2) * 100;
        const bool state = Below(3) == 0;
        buffers.push_back({state ? draft.State(r, bytes) : draft.Temporary(r, bytes), state});
      }
    }
    const int events = 8 + Below(16);
    for (int i = 0; i < events; ++i) AddEvent();
  }

  Draft draft;

 private:
  struct Known {
    int buffer = 0;
    bool written = false;  // or state
  };

  int Below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  Known& AnyBuffer(int rank) {
    auto& buffers = buffers_[static_cast<std::size_t>(rank)];
    return buffers[static_cast<std::size_t>(Below(static_cast<int>(buffers.size())))];
  }

  // Reads only bytes that earlier ops have written; the first write covers the whole buffer.
  Touch AnyTouch(int rank) {
    const Known& known = AnyBuffer(rank);
    if (!known.written) return Writes(known.buffer);
    const std::int64_t bytes = draft.BufferAt(rank, known.buffer).bytes;
    std::int64_t begin = 0;
    std::int64_t size = bytes;
    if (Below(2) == 0) {
      begin = Below(static_cast<int>(bytes));
      size = 1 + Below(static_cast<int>(bytes - begin));
    }
    const Access access = static_cast<Access>(Below(3));
    return {known.buffer, access, begin, size};
  }

  // Events have one order for all ranks, so that some order of issue always works.
  void AddEvent() {
    const int ranks = static_cast<int>(draft.program.ranks.size());
    const int kind = Below(ranks > 1 ? 4 : 2);
    const int rank = Below(ranks);
    if (kind <= 1) {
      std::vector<Touch> touches;
      for (int i = 1 + Below(3); i > 0; --i) touches.push_back(AnyTouch(rank));
      draft.Add(rank, kQueues[Below(5)], touches);
      for (const Touch& touch : touches) {
        for (Known& known : buffers_[static_cast<std::size_t>(rank)]) {
          known.written = known.written || known.buffer == touch.buffer;
        }
      }
      const int number = static_cast<int>(draft.Rank(rank).step.size()) - 1;
      if (number > 0 && Below(6) == 0) draft.After(rank, Below(number));
    } else if (kind == 2) {
      const Queue queue = Below(2) == 0 ? Queue::kTp : Queue::kReduce;
      for (int r = 0; r < ranks; ++r) draft.AllReduce(r, queue, Changes(Sized(r)));
    } else {
      const bool down = rank + 1 < ranks && (rank == 0 || Below(2) == 0);
      const int peer = down ? rank + 1 : rank - 1;
      draft.Send(rank, down, Reads(Sized(rank)));
      draft.Recv(peer, down, Writes(Sized(peer, false)));
    }
  }

  // A new temporary of 512 bytes, written by a compute op unless it is to be received.
  int Sized(int rank, bool make = true) {
    const int buffer = draft.Temporary(rank, 512);
    if (make) draft.Add(rank, Queue::kCompute, {Writes(buffer)});
    buffers_[static_cast<std::size_t>(rank)].push_back({buffer, true});
    return buffer;
  }

  std::mt19937_64 random_;
  std::vector<std::vector<Known>> buffers_;
};

// The ops that come before each op of kSteps steps by queues and by the edges, except edge
// `without`.
Reach Before(const Program& program, const RankProgram& rank, int without) {
  const int ops = rank.op_count;
  const std::vector<OpRef> refs = OpRefs(program, rank);
  Reach before(static_cast<std::size_t>(ops * kSteps));
  const auto join = [&before](int to, int from) {
    auto& set = before[static_cast<std::size_t>(to)];
    set |= before[static_cast<std::size_t>(from)];
    set.set(static_cast<std::size_t>(from));
  };
  for (int n = 0; n < ops * kSteps; ++n) {
    const Queue queue = OpAt(program, rank, refs[static_cast<std::size_t>(n % ops)]).queue;
    for (int m = n - 1; m >= 0; --m) {
      if (OpAt(program, rank, refs[static_cast<std::size_t>(m % ops)]).queue == queue) {
        join(n, m);
        break;
      }
    }
    for (std::size_t e = 0; e < rank.edges.size(); ++e) {
      const Edge& edge = rank.edges[e];
      const int from = n - n % ops + edge.from - edge.distance * ops;
      if (edge.to == n % ops && from >= 0 && static_cast<int>(e) != without) join(n, from);
    }
  }
  return before;
}

struct Bytes {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool writes = false;
};

std::vector<Bytes> BytesOf(const Program& program, const RankProgram& rank, OpRef ref) {
  std::vector<Bytes> all;
  const Op& op = OpAt(program, rank, ref);
  const Instruction& i = rank.step[static_cast<std::size_t>(ref.instruction)];
  const Block& block = program.blocks[static_cast<std::size_t>(i.block)];
  for (int k = 0; k < op.operand_count; ++k) {
    const Binding binding = OperandBinding(program, rank, ref, k);
    const std::int64_t begin =
        rank.buffers[static_cast<std::size_t>(binding.buffer)].offset + binding.offset;
    const Access access = block.operands[static_cast<std::size_t>(op.first_operand + k)].access;
    all.push_back({begin, begin + binding.bytes, access != Access::kRead});
  }
  return all;
}

bool Conflict(const std::vector<Bytes>& a, const std::vector<Bytes>& b) {
  for (const Bytes& x : a) {
    for (const Bytes& y : b) {
      if ((x.writes || y.writes) && x.begin < y.end && y.begin < x.end) return true;
    }
  }
  return false;
}

// Every two ops that touch the same bytes, one writing, are ordered, within a step or in two of
// three.
void ExpectOrdered(const Program& program, const RankProgram& rank) {
  const int ops = rank.op_count;
  const Reach before = Before(program, rank, -1);
  std::vector<std::vector<Bytes>> bytes;
  for (const OpRef ref : OpRefs(program, rank)) bytes.push_back(BytesOf(program, rank, ref));
  for (int b = 0; b < ops * kSteps; ++b) {
    for (int a = 0; a < b; ++a) {
      if (!Conflict(bytes[static_cast<std::size_t>(a % ops)],
                    bytes[static_cast<std::size_t>(b % ops)])) {
        continue;
      }
      EXPECT_TRUE(before[static_cast<std::size_t>(b)][static_cast<std::size_t>(a)])
          << "op " << a << " and op " << b << " of " << ops;
    }
  }
  for (std::size_t i = 0; i < rank.step.size(); ++i) {
    if (rank.step[i].after < 0) continue;
    EXPECT_TRUE(before[i][static_cast<std::size_t>(rank.step[i].after)]);  // one op each
  }
}

void ExpectNoEdgeImplied(const Program& program, const RankProgram& rank) {
  for (std::size_t e = 0; e < rank.edges.size(); ++e) {
    const Edge& edge = rank.edges[e];
    const Reach before = Before(program, rank, static_cast<int>(e));
    const auto to = static_cast<std::size_t>(edge.to + rank.op_count);
    const auto from = static_cast<std::size_t>(edge.from + (1 - edge.distance) * rank.op_count);
    EXPECT_FALSE(before[to][from]) << edge.from << " > " << edge.to;
  }
}

void ExpectApart(const RankProgram& rank) {
  for (std::size_t i = 0; i < rank.buffers.size(); ++i) {
    const Buffer& a = rank.buffers[i];
    if (a.offset < 0) continue;
    EXPECT_EQ(a.offset % 256, 0);
    EXPECT_LE(a.offset + a.bytes, rank.arena_bytes[0]);
    for (std::size_t j = 0; j < i; ++j) {
      const Buffer& b = rank.buffers[j];
      const bool together =
          a.persistent || b.persistent || (a.first_op <= b.last_op && b.first_op <= a.last_op);
      const bool overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
      EXPECT_FALSE(b.offset >= 0 && together && overlap) << j << " and " << i;
    }
  }
}

TEST(LinkProperty, OrdersConflictsWithTheFewestEdgesAndKeepsLiveBuffersApart) {
  for (int i = 0; i < kPrograms; ++i) {
    SCOPED_TRACE("program " + std::to_string(i));
    RandomProgram made(static_cast<std::uint64_t>(i), 1 + i % 3);
    Link(made.draft.program);
    const auto verified = Verify(made.draft.program);
    ASSERT_TRUE(verified.has_value()) << verified.error().message;
    for (const RankProgram& rank : made.draft.program.ranks) {
      ASSERT_LE(static_cast<std::size_t>(rank.op_count * kSteps), kMaxNodes);
      if (rank.op_count == 0) continue;
      ExpectOrdered(made.draft.program, rank);
      ExpectNoEdgeImplied(made.draft.program, rank);
      ExpectApart(rank);
    }
  }
}

// No edge is implied by the others, so removing any one of them leaves some pair unordered.
TEST(VerifyProperty, RefusesAProgramThatLacksAnyOneEdge) {
  int edges = 0;
  for (int i = 0; i < 60; ++i) {
    RandomProgram made(static_cast<std::uint64_t>(1000 + i), 1 + i % 3);
    Link(made.draft.program);
    ASSERT_TRUE(Verify(made.draft.program).has_value());
    for (RankProgram& rank : made.draft.program.ranks) {
      for (std::size_t e = 0; e < rank.edges.size(); ++e, ++edges) {
        const std::vector<Edge> all = rank.edges;
        rank.edges.erase(rank.edges.begin() + static_cast<std::ptrdiff_t>(e));
        EXPECT_FALSE(Verify(made.draft.program).has_value())
            << "program " << i << " edge " << all[e].from << " > " << all[e].to;
        rank.edges = all;
      }
    }
  }
  EXPECT_GT(edges, 300);
}

}  // namespace
}  // namespace foretrain
