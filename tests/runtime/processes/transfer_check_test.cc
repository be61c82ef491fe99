// Tensors between two ranks over UCX, with bytes that change on the way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <thread>

#include "kernels/cpu/cpu_device.h"
#include "runtime/processes/peer_endpoint.h"
#include "runtime/ucx/ucx_worker.h"
#include "tests/runtime/processes/rank_process.h"
#include "tests/runtime/ucx/needs_ucx.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kElements = 4096;  // of each rank's part
constexpr std::int64_t kSignatureBytes = 56;

std::int64_t CodeBytes(TransferCheck check) {
  return check == TransferCheck::kNone ? 0 : check == TransferCheck::kCrc32c ? 4 : 32;
}

// Flips a bit of the received byte with number `flipped`, counted from the first call on; -1: of
// none.
class Flips final : public PeerTransport {
 public:
  Flips(std::unique_ptr<PeerTransport> inner, std::int64_t flipped)
      : inner_(std::move(inner)), flipped_(flipped) {}
  void Start(std::span<const Piece> pieces) override {
    pieces_.assign(pieces.begin(), pieces.end());
    inner_->Start(pieces);
  }
  TransportState Advance(int ms) override {
    TransportState state = inner_->Advance(ms);
    if (!state.finished) return state;
    for (const Piece& piece : pieces_) {
      if (piece.sends) continue;
      if (flipped_ >= 0 && flipped_ < piece.bytes) piece.at[flipped_] ^= 4;
      flipped_ = flipped_ < piece.bytes ? -1 : flipped_ - piece.bytes;
    }
    return state;
  }
  void Close() override { inner_->Close(); }

 private:
  const std::unique_ptr<PeerTransport> inner_;
  std::vector<Piece> pieces_;
  std::int64_t flipped_;
};

struct Gathered {
  std::array<std::vector<float>, 2> tensors;
  std::array<std::string, 2> errors;
  double seconds = 0;  // of all calls but the first, in which UCX connects
};

// Both ranks call an all-gather over `transport`, `calls` times. Byte `flipped` of those that rank
// 1 receives changes.
Gathered Gather(TransferCheck check, std::int64_t elements, int calls, std::int64_t flipped,
                const std::string& transport = "posix") {
  static const Program program = *Compile(TinyGpt(), TinyPlan());
  const ChannelKey key{{0, 1}, Queue::kGather};
  const std::unique_ptr<UcxContext> ucx =
      *UcxContext::Make(*LoadUcx(), transport, transport == "tcp" ? "lo" : "");
  std::array<std::unique_ptr<UcxWorker>, 2> workers;
  for (std::size_t at = 0; at < 2; ++at) {
    workers[at] = *UcxWorker::Make(*ucx, static_cast<int>(at), 2);
  }
  for (std::size_t at = 0; at < 2; ++at) {
    EXPECT_TRUE(workers[at]->Connect(static_cast<int>(1 - at), workers[1 - at]->address()));
  }
  Gathered gathered;
  RunControl control;  // of both: an error of one ends the other at once
  RealClock clock;
  FlightRecorder flight(2);
  const WorldContext context{program, {},     CpuDeviceApi(), clock,
                             control, flight, 5 * kSecond,    [](int, OpId) { return "op"; }};
  // No rank's end closes before the other has read all.
  std::array<std::unique_ptr<PeerEndpoint>, 2> endpoints;
  std::vector<std::thread> threads;
  auto begin = std::chrono::steady_clock::now();
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto at = static_cast<std::size_t>(rank);
      endpoints[at] = std::make_unique<PeerEndpoint>(
          context, key, rank,
          std::make_unique<Flips>(std::move(workers[at]), rank == 1 ? flipped : -1),
          TransferCodes(check, std::string(32, 'k'), key, rank));
      std::vector<float> mine(static_cast<std::size_t>(elements), static_cast<float>(rank + 1));
      gathered.tensors[at].resize(static_cast<std::size_t>(2 * elements));
      CommCall call;
      call.kind = OpKind::kAllGather;
      call.elements = 2 * elements;
      call.in = mine.data();
      call.out = gathered.tensors[at].data();
      for (int i = 0; i < calls && gathered.errors[at].empty(); ++i) {
        const auto times = endpoints[at]->Call(call, nullptr);
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
  return Gather(check, kElements, 2, flipped);
}

// For each call rank 0 sends its signature and its part, each followed by its code.
std::int64_t FirstByteOfPart(TransferCheck check) { return kSignatureBytes + CodeBytes(check); }

struct Transfers : NeedsUcx {};

TEST_F(Transfers, ArriveAsTheyWereWithEachCheck) {
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

TEST_F(Transfers, ThatArriveChangedEndTheRun) {
  for (const TransferCheck check : {TransferCheck::kCrc32c, TransferCheck::kHmac}) {
    const std::int64_t part = FirstByteOfPart(check);
    const std::int64_t end = part + kElements * 4;
    const std::int64_t codes = CodeBytes(check);
    // In the signature, in its code, in the part, in the part's code, and in the second call.
    for (const std::int64_t flipped : {std::int64_t{1}, part - 1, part, part + 5000, end - 1, end,
                                       end + codes - 1, end + codes + 100}) {
      const Gathered gathered = GatherOver(flipped, check);
      EXPECT_THAT(gathered.errors[1], HasSubstr("bytes from rank 0 arrived changed")) << flipped;
    }
  }
}

// Without a check a changed tensor is not noticed: docs/security.md says so.
TEST_F(Transfers, AreNotCheckedUnlessAsked) {
  const Gathered gathered = GatherOver(FirstByteOfPart(TransferCheck::kNone), TransferCheck::kNone);
  EXPECT_EQ(gathered.errors[1], "");
}

// A call of another kind than any is an error and not the end of the process.
TEST_F(Transfers, OfNoKindAreRefused) {
  for (const std::int64_t byte : {40, 41, 43, 44, 48, 52}) {
    // The signature: four numbers and the op of 8 bytes each, then the kind.
    const Gathered gathered = GatherOver(byte, TransferCheck::kNone);
    EXPECT_THAT(gathered.errors[1], HasSubstr("members disagree")) << byte;
  }
}

TEST_F(Transfers, TrainAsThreadsWithEachCheck) {
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

// Prints the tables of docs/security.md and docs/cuda.md: bytes that one rank receives, a second,
// and the time of a call with small tensors.
TEST_F(Transfers, HaveTheThroughputOfTheirTransport) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 22;  // 16 MiB
  constexpr int kCalls = 1000;
  for (const char* transport : {"posix", "tcp"}) {
    for (const auto& [check, name] :
         {std::pair{TransferCheck::kNone, "none"}, std::pair{TransferCheck::kCrc32c, "crc32c"},
          std::pair{TransferCheck::kHmac, "hmac"}}) {
      const int calls = check == TransferCheck::kHmac ? 1 : 8;
      const Gathered large = Gather(check, kLarge, calls + 1, -1, transport);
      EXPECT_EQ(large.errors[0] + large.errors[1], "");
      const Gathered small = Gather(check, 16, kCalls + 1, -1, transport);
      EXPECT_EQ(small.errors[0] + small.errors[1], "");
      std::printf("%-5s %-7s %5.2f GB/s %7.1f us\n", transport, name,
                  static_cast<double>(4 * kLarge * calls) / 1e9 / large.seconds,
                  small.seconds / kCalls * 1e6);
    }
  }
}

}  // namespace
}  // namespace foretrain
