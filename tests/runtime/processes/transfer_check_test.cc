// Tensors between two ranks over each transport; over TCP with a program in between that may flip a
// bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>

#include "kernels/cpu/cpu_device.h"
#include "runtime/processes/peer_endpoint.h"
#include "runtime/processes/sockets/socket_transport.h"
#include "tests/runtime/processes/man_in_the_middle.h"
#include "tests/runtime/processes/rank_process.h"
#include "tests/runtime/ucx/needs_ucx.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kElements = 4096;         // of each rank's part
constexpr std::int64_t kOpeningBytes = 40 + 37;  // random bytes and a frame without text
constexpr std::int64_t kSignatureBytes = 56;

std::int64_t CodeBytes(TransferCheck check) {
  return check == TransferCheck::kNone ? 0 : check == TransferCheck::kCrc32c ? 4 : 32;
}

// Forwards one connection both ways and flips a bit of byte `flipped` from the dialling end; the
// byte -1: of none.
class Cable {
 public:
  explicit Cable(std::int64_t flipped) {
    auto listener = ListenAt("127.0.0.1", 0);
    EXPECT_TRUE(listener.has_value());
    dials_ = *ConnectTo("127.0.0.1", PortOf(*listener), DeadlineIn(kSecond));
    EXPECT_TRUE(IsReady(*listener, POLLIN, 1000));
    from_ = Accept(*listener);
    to_ = *ConnectTo("127.0.0.1", PortOf(*listener), DeadlineIn(kSecond));
    EXPECT_TRUE(IsReady(*listener, POLLIN, 1000));
    accepts_ = Accept(*listener);
    thread_ = std::thread([this, flipped] { Run(flipped); });
  }
  ~Cable() {
    over_ = true;
    thread_.join();
  }
  Socket TakeDialling() { return std::move(dials_); }
  Socket TakeAccepting() { return std::move(accepts_); }

 private:
  void Run(std::int64_t flipped) {
    std::array<char, 1 << 16> bytes{};
    std::int64_t seen = 0;
    while (!over_) {
      std::array<pollfd, 2> polled = {pollfd{from_.get(), POLLIN, 0}, pollfd{to_.get(), POLLIN, 0}};
      static_cast<void>(poll(polled.data(), polled.size(), 5));
      for (std::size_t i = 0; i < 2; ++i) {
        if (polled[i].revents == 0) continue;
        const ssize_t came = recv(polled[i].fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (came <= 0) return;
        if (i == 0 && flipped >= seen && flipped < seen + came) {
          bytes[static_cast<std::size_t>(flipped - seen)] ^= 4;
        }
        if (i == 0) seen += came;
        SendBytes(i == 0 ? to_ : from_, {bytes.data(), static_cast<std::size_t>(came)});
      }
    }
  }

  Socket dials_, from_, to_, accepts_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

// Both ends prove their key before tensors follow without frames.
bool Open(Connection& peer, bool dials) {
  const auto max = [](char) { return std::int64_t{0}; };
  while (dials && !peer.IsKeyed()) {
    if (!peer.Receive(max).has_value()) return false;
  }
  return (!dials || peer.Send('h', "", DeadlineIn(kSecond)).has_value()) &&
         peer.Await(max, DeadlineIn(5 * kSecond)).has_value() &&
         (dials || peer.Send('w', "", DeadlineIn(kSecond)).has_value());
}

// Makes a rank's end, on the rank's thread.
using MakeEnd = std::function<std::unique_ptr<PeerTransport>(std::size_t rank)>;

MakeEnd OverSockets(Socket dials, Socket accepts) {
  const auto sockets = std::make_shared<std::array<Socket, 2>>(
      std::array<Socket, 2>{std::move(dials), std::move(accepts)});
  return [sockets](std::size_t rank) -> std::unique_ptr<PeerTransport> {
    Connection peer(std::move((*sockets)[rank]),
                    rank == 0 ? Connection::Side::kConnects : Connection::Side::kAccepts,
                    std::string(32, 'k'), 5 * kSecond);
    EXPECT_TRUE(Open(peer, rank == 0));
    std::vector<std::optional<Connection>> peers(2);
    peers[1 - rank] = std::move(peer);
    return std::make_unique<SocketTransport>(std::move(peers));
  };
}

MakeEnd OverLoopback() {
  const auto listener = ListenAt("127.0.0.1", 0);
  auto dials = ConnectTo("127.0.0.1", PortOf(*listener), DeadlineIn(kSecond));
  EXPECT_TRUE(IsReady(*listener, POLLIN, 1000));
  return OverSockets(*std::move(dials), Accept(*listener));
}

MakeEnd OverSharedMemory(const Ucx& ucx) {
  const auto ends = std::make_shared<std::array<std::unique_ptr<UcxTransport>, 2>>();
  for (const int rank : {0, 1}) (*ends)[static_cast<std::size_t>(rank)] = *ucx.Make(rank, 2);
  for (const int rank : {0, 1}) {
    const auto at = static_cast<std::size_t>(rank);
    EXPECT_TRUE((*ends)[at]->Connect(1 - rank, (*ends)[1 - at]->address()).has_value());
  }
  return [ends](std::size_t rank) { return std::move((*ends)[rank]); };
}

struct Gathered {
  std::array<std::vector<float>, 2> tensors;
  std::array<std::string, 2> errors;
  double seconds = 0;  // of all calls but the first
};

// Both ranks call an all-gather, `calls` times.
Gathered Gather(const MakeEnd& make, TransferCheck check, std::int64_t elements, int calls) {
  static const Program program = *Compile(TinyGpt(), TinyPlan());
  const ChannelKey key{{0, 1}, Queue::kGather};
  Gathered gathered;
  RunControl control;  // of both: an error of one ends the other at once
  std::vector<std::thread> threads;
  auto begin = std::chrono::steady_clock::now();
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto at = static_cast<std::size_t>(rank);
      RealClock clock;
      FlightRecorder flight(2);
      const WorldContext context{program, {},     CpuDeviceApi(), clock,
                                 control, flight, 5 * kSecond,    [](int, OpId) { return "op"; }};
      PeerEndpoint endpoint(context, key, rank, make(at),
                            TransferCodes(check, std::string(32, 'k'), key, rank));
      std::vector<float> mine(static_cast<std::size_t>(elements), static_cast<float>(rank + 1));
      gathered.tensors[at].resize(static_cast<std::size_t>(2 * elements));
      CommCall call;
      call.kind = OpKind::kAllGather;
      call.elements = 2 * elements;
      call.in = mine.data();
      call.out = gathered.tensors[at].data();
      for (int i = 0; i < calls && gathered.errors[at].empty(); ++i) {
        const auto times = endpoint.Call(call, nullptr);
        if (i == 0 && rank == 0) begin = std::chrono::steady_clock::now();
        if (times.has_value()) continue;
        gathered.errors[at] = times.error().message;
        control.Fail(rank, times.error());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  gathered.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return gathered;
}

Gathered GatherOver(std::int64_t flipped, TransferCheck check) {
  Cable cable(flipped);
  return Gather(OverSockets(cable.TakeDialling(), cable.TakeAccepting()), check, kElements, 2);
}

// For each call rank 0 sends its signature and its part, each followed by its code.
std::int64_t FirstByteOfPart(TransferCheck check) {
  return kOpeningBytes + kSignatureBytes + CodeBytes(check);
}

TEST(Transfers, ArriveAsTheyWereWithEachCheck) {
  for (const TransferCheck check :
       {TransferCheck::kNone, TransferCheck::kCrc32c, TransferCheck::kHmac}) {
    const Gathered gathered = GatherOver(-1, check);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(gathered.errors[rank], "");
      EXPECT_EQ(gathered.tensors[rank].front(), 1.0F);
      EXPECT_EQ(gathered.tensors[rank].back(), 2.0F);
    }
  }
}

TEST(Transfers, ThatArriveChangedEndTheRun) {
  for (const TransferCheck check : {TransferCheck::kCrc32c, TransferCheck::kHmac}) {
    const std::int64_t part = FirstByteOfPart(check);
    const std::int64_t end = part + kElements * 4;
    const std::int64_t codes = CodeBytes(check);
    // In the signature, in its code, in the part, in the part's code, and in the second call.
    for (const std::int64_t flipped : {kOpeningBytes + 1, part - 1, part, part + 5000, end - 1, end,
                                       end + codes - 1, end + codes + 100}) {
      const Gathered gathered = GatherOver(flipped, check);
      EXPECT_THAT(gathered.errors[1], HasSubstr("bytes from rank 0 arrived changed")) << flipped;
    }
  }
}

// Without a check a changed tensor is not noticed: docs/security.md says so.
TEST(Transfers, AreNotCheckedUnlessAsked) {
  const Gathered gathered = GatherOver(FirstByteOfPart(TransferCheck::kNone), TransferCheck::kNone);
  EXPECT_EQ(gathered.errors[1], "");
}

// A call of another kind than any is an error and not the end of the process.
TEST(Transfers, OfNoKindAreRefused) {
  for (const std::int64_t byte : {40, 41, 43, 44, 48, 52}) {
    // The signature: four numbers and the op of 8 bytes each, then the kind.
    const Gathered gathered = GatherOver(kOpeningBytes + byte, TransferCheck::kNone);
    EXPECT_THAT(gathered.errors[1], HasSubstr("members disagree")) << byte;
  }
}

TEST(Transfers, TrainAsThreadsWithEachCheck) {
  ProcessJob job;
  job.plan.dp = 2;
  std::vector<float> losses;
  for (const TransferCheck check :
       {TransferCheck::kNone, TransferCheck::kCrc32c, TransferCheck::kHmac}) {
    job.check = check;
    const auto ends = RunProcesses(job);
    ASSERT_FALSE(ends.front().error.has_value()) << ends.front().error->message;
    const std::vector<float> now = LossesOf(ends.front().sink, job.steps);
    if (losses.empty()) losses = now;
    EXPECT_EQ(now, losses);
  }
}

struct TransfersInSharedMemory : NeedsUcx {};

TEST_F(TransfersInSharedMemory, ArriveAsTheyWereWithEachCheck) {
  for (const TransferCheck check :
       {TransferCheck::kNone, TransferCheck::kCrc32c, TransferCheck::kHmac}) {
    const Gathered gathered = Gather(OverSharedMemory(*ucx), check, kElements, 2);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(gathered.errors[rank], "");
      EXPECT_EQ(gathered.tensors[rank].front(), 1.0F);
      EXPECT_EQ(gathered.tensors[rank].back(), 2.0F);
    }
  }
}

// Prints the tables of docs/security.md and docs/performance.md: bytes that one rank receives, a
// second, and the time of a call with small tensors.
void PrintThroughput(const char* transport, const std::function<MakeEnd()>& make) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 22;  // 16 MiB
  constexpr int kCalls = 1000;
  for (const auto& [check, name] :
       {std::pair{TransferCheck::kNone, "none"}, std::pair{TransferCheck::kCrc32c, "crc32c"},
        std::pair{TransferCheck::kHmac, "hmac"}}) {
    const int calls = check == TransferCheck::kHmac ? 1 : 8;
    const Gathered large = Gather(make(), check, kLarge, calls + 1);
    EXPECT_EQ(large.errors[0] + large.errors[1], "");
    const Gathered small = Gather(make(), check, 16, kCalls + 1);
    EXPECT_EQ(small.errors[0] + small.errors[1], "");
    std::printf("%-13s %-7s %5.2f GB/s %7.1f us\n", transport, name,
                static_cast<double>(4 * kLarge * calls) / 1e9 / large.seconds,
                small.seconds / kCalls * 1e6);
  }
}

TEST(Transfers, HaveTheThroughputOfLoopback) { PrintThroughput("TCP", OverLoopback); }

TEST_F(TransfersInSharedMemory, HaveTheirThroughput) {
  PrintThroughput("shared memory", [this] { return OverSharedMemory(*ucx); });
}

}  // namespace
}  // namespace foretrain
