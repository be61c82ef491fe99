// The runtime's use of NCCL on a fake library (tests/plugins/fake_nccl.cc), which is slow, fails
// and hangs on demand. The real NCCL needs several GPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "runtime/device/device.h"
#include "runtime/inproc/inproc_world.h"
#include "runtime/nccl/nccl_endpoint.h"
#include "runtime/nccl/nccl_set.h"
#include "runtime/run/flight.h"
#include "tests/paths.h"
#include "tests/runtime/device/fake_nccl_library.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;

// Result of each rank that runs `body` with its own communicators.
struct Ends {
  std::vector<std::optional<Error>> errors;
  std::optional<Error> first;
  double seconds = 0;
};
using Body = std::function<Result<void>(int rank, CommunicatorSet& set, FtQueue* queue)>;
Ends RunNccl(int ranks, std::int64_t timeout_ns, const Body& body) {
  RealClock clock;
  RunControl control;
  ThreadIdStore store(timeout_ns);
  Ends ends;
  ends.errors.resize(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto queue = DeviceQueue::Make(CpuDeviceApi(), 0);
      NcclSet set(rank, FakeNcclApi(), CpuDeviceApi(), store, clock, control, {0, timeout_ns});
      auto end = body(rank, set, queue->get());
      if (end.has_value()) return;
      ends.errors[static_cast<std::size_t>(rank)] = end.error();
      if (end.error().code != ErrorCode::kAborted) control.Fail(rank, end.error());
    });
  }
  for (std::thread& thread : threads) thread.join();
  ends.first = control.FirstError();
  ends.seconds = static_cast<double>(clock.Now()) / kSecond;
  return ends;
}

std::vector<int> Members(int ranks) {
  std::vector<int> members(static_cast<std::size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  return members;
}

struct Shape {
  OpKind kind;
  GroupKind group = GroupKind::kWorld;
  Queue queue = Queue::kReduce;
  bool accumulate = false;
  bool maximum = false;
};

// Makes every kind of call of a rank twice and returns the results.
Result<std::vector<float>> CallAll(int rank, int ranks, CommunicatorSet& set, FtQueue* queue) {
  constexpr std::int64_t kElements = 24;
  std::vector<float> all;
  const std::vector<Shape> shapes = {
      {OpKind::kAllReduce},
      {OpKind::kAllReduce, GroupKind::kWorld, Queue::kReduce, true},
      {OpKind::kAllReduce, GroupKind::kWorld, Queue::kTp, false, true},
      {OpKind::kReduceScatter},
      {OpKind::kReduceScatter, GroupKind::kWorld, Queue::kReduce, true},
      {OpKind::kAllGather, GroupKind::kWorld, Queue::kGather},
      {OpKind::kAllToAll, GroupKind::kWorld, Queue::kEp},
      {OpKind::kAllToAllV, GroupKind::kWorld, Queue::kEp},
      {OpKind::kRotate, GroupKind::kWorld, Queue::kCp}};
  for (int time = 0; time < 2; ++time) {
    for (const Shape& shape : shapes) {
      std::vector<float> in(2 * kElements), out(2 * kElements, 0.5F);
      for (std::size_t i = 0; i < in.size(); ++i) {
        in[i] = 0.1F * static_cast<float>(rank + 1) + static_cast<float>(i) * 1e3F;
      }
      FT_ASSIGN(Communicator* const of,
                set.Open(Members(ranks), shape.group, shape.queue, shape.kind));
      CommCall call;
      call.kind = shape.kind;
      call.elements = kElements;
      call.in = in.data();
      call.out = out.data();
      call.accumulate = shape.accumulate;
      call.maximum = shape.maximum;
      call.site = {rank, time, kNoOp, "grads"};
      // Member i sends i + j + 1 to member j.
      std::vector<std::int64_t> sent, came;
      for (int other = 0; other < ranks; ++other) {
        sent.push_back(rank + other + 1);
        came.push_back(other + rank + 1);
      }
      call.in_parts = sent.data();
      call.out_parts = came.data();
      FT_TRY(of->Call(call, queue));
      all.insert(all.end(), out.begin(), out.end());
    }
  }
  return all;
}

TEST(Nccl, MovesAndSumsWhatThreadsDo) {
  for (const int ranks : {2, 3, 4}) {
    FakeNcclControl().Reset();
    std::vector<std::vector<float>> got(static_cast<std::size_t>(ranks)), expected = got;
    const Ends ends = RunNccl(ranks, 20 * kSecond, [&](int rank, auto& set, FtQueue* queue) {
      auto all = CallAll(rank, ranks, set, queue);
      if (!all.has_value()) return Result<void>(tl::unexpected<Error>(all.error()));
      got[static_cast<std::size_t>(rank)] = *all;
      return Result<void>();
    });
    ASSERT_FALSE(ends.first.has_value()) << ends.first->message;
    RealClock clock;
    RunControl control;
    FlightRecorder flight(ranks);
    InprocWorld world(ranks, CpuDeviceApi(), clock, control, flight, {20 * kSecond, {}});
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        auto queue = DeviceQueue::Make(CpuDeviceApi(), 0);
        auto all = CallAll(rank, ranks, world.Rank(rank), queue->get());
        ASSERT_TRUE(all.has_value()) << all.error().message;
        expected[static_cast<std::size_t>(rank)] = *all;
      });
    }
    for (std::thread& thread : threads) thread.join();
    // The fake adds in rank order, as threads do; the real NCCL may not.
    for (int rank = 0; rank < ranks; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      // With accumulate, NCCL adds the old value last, threads add it first: at most five positive
      // summands in two orders of four roundings of 2^-24 each.
      ASSERT_EQ(got[at].size(), expected[at].size());
      for (std::size_t i = 0; i < got[at].size(); ++i) {
        EXPECT_NEAR(got[at][i], expected[at][i], 8 * 6e-8 * std::abs(expected[at][i])) << i;
      }
    }
    EXPECT_EQ(FakeNcclControl().live, 0);
    EXPECT_EQ(FakeNcclControl().aborts, 0);
    EXPECT_FALSE(FakeNcclControl().unbalanced);
  }
}

Result<void> PassOn(int rank, int ranks, CommunicatorSet& set, FtQueue* queue,
                    std::vector<float>& data) {
  for (const OpKind kind : {OpKind::kRecv, OpKind::kSend}) {
    const bool sends = kind == OpKind::kSend;
    const int peer = sends ? rank + 1 : rank - 1;
    if (peer < 0 || peer == ranks) continue;
    FT_ASSIGN(Communicator* const of, set.Open({std::min(rank, peer), std::max(rank, peer)},
                                               sends ? GroupKind::kNext : GroupKind::kPrev,
                                               sends ? Queue::kSendNext : Queue::kRecvPrev, kind));
    CommCall call;
    call.kind = kind;
    call.elements = static_cast<std::int64_t>(data.size());
    call.in = sends ? data.data() : nullptr;
    call.out = sends ? nullptr : data.data();
    FT_TRY(of->Call(call, queue));
    if (!sends) data[0] += 1.0F;
  }
  return {};
}

TEST(Nccl, PassesOnAlongAPipeline) {
  FakeNcclControl().Reset();
  std::vector<std::vector<float>> data(4, std::vector<float>(8, 3.0F));
  const Ends ends = RunNccl(4, 20 * kSecond, [&](int rank, auto& set, FtQueue* queue) {
    return PassOn(rank, 4, set, queue, data[static_cast<std::size_t>(rank)]);
  });
  ASSERT_FALSE(ends.first.has_value()) << ends.first->message;
  EXPECT_EQ(data[3][0], 6.0F);  // three receives, each adding one
  EXPECT_EQ(FakeNcclControl().live, 0);
}

Result<void> Reduce(int rank, int ranks, CommunicatorSet& set, FtQueue* queue) {
  static_cast<void>(rank);
  std::vector<float> data(32, 1.0F);
  for (const Queue at : {Queue::kReduce, Queue::kTp}) {
    FT_ASSIGN(Communicator* const of,
              set.Open(Members(ranks), GroupKind::kWorld, at, OpKind::kAllReduce));
    for (int step = 0; step < 3; ++step) {
      CommCall call;
      call.elements = 32;
      call.in = call.out = data.data();
      call.site = {rank, step, kNoOp, "grads.bucket2"};
      FT_TRY(of->Call(call, queue));
    }
  }
  return {};
}

TEST(Nccl, EveryCallThatFailsEndsTheRunInTimeAndLeavesNothing) {
  FakeNcclControl().Reset();
  const Ends well = RunNccl(3, 20 * kSecond, [](int rank, auto& set, FtQueue* queue) {
    return Reduce(rank, 3, set, queue);
  });
  ASSERT_FALSE(well.first.has_value()) << well.first->message;
  const std::int64_t calls = FakeNcclControl().calls;
  EXPECT_EQ(calls, 2 * (1 + 3 + 3 * 3));  // for two communicators: ids, inits, three steps
  for (std::int64_t failing = 0; failing < calls; ++failing) {
    FakeNcclControl().Reset();
    FakeNcclControl().fail_at = failing;
    const Ends ends = RunNccl(3, kSecond / 2, [](int rank, auto& set, FtQueue* queue) {
      return Reduce(rank, 3, set, queue);
    });
    ASSERT_TRUE(ends.first.has_value()) << failing;
    EXPECT_THAT(ends.first->message, HasSubstr("the fake was told to fail")) << failing;
    EXPECT_THAT(ends.first->message,
                testing::AnyOf(HasSubstr("nccl reduce of ranks 0 1 2"),
                               HasSubstr("nccl tp of ranks 0 1 2"), HasSubstr("grads.bucket2")));
    EXPECT_LT(ends.seconds, 2.0) << failing;
    EXPECT_EQ(FakeNcclControl().live, 0) << failing;
  }
}

TEST(Nccl, ARankThatDoesNotComeIsATimeOut) {
  FakeNcclControl().Reset();
  const Ends ends = RunNccl(3, kSecond / 5, [](int rank, auto& set, FtQueue* queue) {
    if (rank == 2) return Result<void>();
    return Reduce(rank, 3, set, queue);
  });
  ASSERT_TRUE(ends.first.has_value());
  EXPECT_EQ(ends.first->code, ErrorCode::kTimeout);
  EXPECT_THAT(ends.first->message,
              AllOf(HasSubstr("nccl reduce of ranks 0 1 2"), HasSubstr("another rank")));
  EXPECT_LT(ends.seconds, 2.0);
  EXPECT_EQ(FakeNcclControl().live, 0);
}

TEST(Nccl, AnErrorThatComesLaterEndsTheRunWithTheCallItWasAt) {
  FakeNcclControl().Reset();
  const Ends ends =
      RunNccl(2, 20 * kSecond, [](int rank, CommunicatorSet& set, FtQueue* queue) -> Result<void> {
        FT_TRY(Reduce(rank, 2, set, queue));
        if (rank == 1) FakeNcclControl().async_error_rank = 1;
        // Rank 0 continues until it notices the end of the run.
        for (int i = 0; rank == 0 && i < 2000; ++i) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          FT_ASSIGN(Communicator* const of,
                    set.Open(Members(2), GroupKind::kWorld, Queue::kReduce, OpKind::kAllReduce));
          CommCall call;
          call.elements = 0;
          FT_TRY(of->Call(call, queue));
        }
        while (rank == 1 && FakeNcclControl().aborts == 0) std::this_thread::yield();
        return Result<void>();
      });
  ASSERT_TRUE(ends.first.has_value());
  EXPECT_THAT(ends.first->message, AllOf(HasSubstr("rank 1, nccl "), HasSubstr("grads.bucket2"),
                                         HasSubstr("remote process exited")));
  ASSERT_TRUE(ends.errors[0].has_value());
  EXPECT_EQ(ends.errors[0]->code, ErrorCode::kAborted);
  EXPECT_EQ(FakeNcclControl().live, 0);
  EXPECT_LT(ends.seconds, 5.0);
}

TEST(Nccl, AnEndThatHangsIsLeftBehind) {
  FakeNcclControl().Reset();
  FakeNcclControl().hang_finalize = true;
  const Ends ends = RunNccl(2, kSecond / 5, [](int rank, auto& set, FtQueue* queue) {
    return Reduce(rank, 2, set, queue);
  });
  EXPECT_FALSE(ends.first.has_value());
  EXPECT_LT(ends.seconds, 2.0);
  FakeNcclControl().hang_finalize = false;
  while (FakeNcclControl().live != 0) std::this_thread::yield();  // the threads end once they can
}

TEST(NcclLibrary, SaysWhyItCannotBeUsed) {
  const auto missing = LoadNccl("/no/such/libnccl.so.2");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(missing.error().message, HasSubstr("/no/such/libnccl.so.2"));
  const auto other = LoadNccl(TestPlugin("other"));
  ASSERT_FALSE(other.has_value());
  EXPECT_THAT(other.error().message, HasSubstr("has no function ncclGetVersion"));
  FakeNcclControl().Reset();
  FakeNcclControl().version = 21210;
  const auto old = LoadNccl(FakeNcclFile());
  ASSERT_FALSE(old.has_value());
  EXPECT_THAT(old.error().message, AllOf(HasSubstr("NCCL 2.12.10"), HasSubstr("2.14")));
  FakeNcclControl().Reset();
}

}  // namespace
}  // namespace foretrain
