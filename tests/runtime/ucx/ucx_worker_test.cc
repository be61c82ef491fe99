// Two workers of one process, which UCX connects as if they were those of two.
#include "runtime/ucx/ucx_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <numeric>

#include "tests/runtime/ucx/needs_ucx.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

// Two connected workers over a transport of UCX.
struct Two {
  explicit Two(const std::string& transport) {
    const UcxApi ucx = *LoadUcx();
    for (std::size_t i = 0; i < 2; ++i) {
      contexts[i] = *UcxContext::Make(ucx, transport, transport == "tcp" ? "lo" : "");
      workers[i] = *UcxWorker::Make(*contexts[i], static_cast<int>(i), 2);
    }
    for (std::size_t i = 0; i < 2; ++i) {
      const auto connected =
          workers[i]->Connect(static_cast<int>(1 - i), workers[1 - i]->address());
      EXPECT_TRUE(connected.has_value()) << connected.error().message;
    }
  }
  // Moves until both have finished or one is in trouble, at most 20 s. Returns the states.
  std::array<TransportState, 2> Run() {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    std::array<TransportState, 2> states;
    do {
      for (std::size_t i = 0; i < 2; ++i) states[i] = workers[i]->Advance(0);
    } while (!(states[0].finished && states[1].finished) &&
             (states[0].trouble + states[1].trouble).empty() &&
             std::chrono::steady_clock::now() < until);
    return states;
  }
  std::array<std::unique_ptr<UcxContext>, 2> contexts;
  std::array<std::unique_ptr<UcxWorker>, 2> workers;
};

Piece Sends(int member, std::vector<char>& bytes) {
  return {member, true, bytes.data(), static_cast<std::int64_t>(bytes.size())};
}
Piece Receives(int member, std::vector<char>& bytes) {
  return {member, false, bytes.data(), static_cast<std::int64_t>(bytes.size())};
}

struct UcxWorkers : NeedsUcx {};

// A byte, a message that travels by itself, one that waits for its receiver, and one in parts.
TEST_F(UcxWorkers, ExchangePiecesOfAllSizes) {
  for (const char* transport : {"posix", "tcp"}) {
    Two two(transport);
    for (const std::size_t bytes : {1U, 4096U, 300'000U, 20'000'003U}) {
      std::array<std::vector<char>, 2> sent, came;
      for (std::size_t i = 0; i < 2; ++i) {
        sent[i].resize(bytes);
        came[i].resize(bytes);
        std::iota(sent[i].begin(), sent[i].end(), static_cast<char>(i + 3));
      }
      for (std::size_t i = 0; i < 2; ++i) {
        const int other = static_cast<int>(1 - i);
        two.workers[i]->Start(std::vector<Piece>{Sends(other, sent[i]), Receives(other, came[i])});
      }
      const auto states = two.Run();
      EXPECT_TRUE(states[0].finished && states[1].finished) << transport << bytes;
      EXPECT_TRUE(came[0] == sent[1] && came[1] == sent[0]) << transport << bytes;
    }
  }
}

TEST_F(UcxWorkers, KeepTheOrderOfSends) {
  Two two("posix");
  std::vector<char> small(1, 's'), large(2'000'000, 'l'), first(1), second(2'000'000), third(1);
  two.workers[0]->Start(std::vector<Piece>{Sends(1, small), Sends(1, large), Sends(1, small)});
  two.workers[1]->Start(
      std::vector<Piece>{Receives(0, first), Receives(0, second), Receives(0, third)});
  EXPECT_TRUE(two.Run()[1].finished);
  EXPECT_EQ(first, small);
  EXPECT_EQ(second, large);
  EXPECT_EQ(third, small);
}

// A peer may be ahead: its bytes are there before this end asks for them.
TEST_F(UcxWorkers, ReceiveWhatCameBeforeItWasAskedFor) {
  for (const char* transport : {"posix", "tcp"}) {
    Two two(transport);
    for (const std::size_t bytes : {1U, 56U, 5000U, 30'000U, 300'000U}) {
      std::vector<char> sent(bytes, 's'), came(bytes);
      two.workers[0]->Start(std::vector<Piece>{Sends(1, sent)});
      two.workers[1]->Start({});
      for (int i = 0; i < 100; ++i) {
        static_cast<void>(two.workers[0]->Advance(0));
        static_cast<void>(two.workers[1]->Advance(0));
      }
      two.workers[1]->Start(std::vector<Piece>{Receives(0, came)});
      const auto states = two.Run();
      EXPECT_EQ(states[1].trouble, "") << transport << " " << bytes;
      EXPECT_TRUE(states[0].finished && states[1].finished);
      EXPECT_EQ(came, sent);
    }
  }
}

TEST_F(UcxWorkers, FindThatSizesDiffer) {
  for (const std::size_t bytes : {7U, 9U}) {
    Two two("posix");
    std::vector<char> sent(bytes), came(8);
    two.workers[0]->Start(std::vector<Piece>{Sends(1, sent)});
    two.workers[1]->Start(std::vector<Piece>{Receives(0, came)});
    const TransportState state = two.Run()[1];
    EXPECT_EQ(state.member, 0);
    EXPECT_THAT(state.trouble, HasSubstr("another number of bytes than the 8 that are expected"));
  }
}

TEST_F(UcxWorkers, NameTheMemberThatTheyWaitFor) {
  Two two("posix");
  std::vector<char> came(8);
  two.workers[1]->Start(std::vector<Piece>{Receives(0, came)});
  const TransportState state = two.workers[1]->Advance(/*ms=*/10);
  EXPECT_FALSE(state.finished);
  EXPECT_EQ(state.done, 0);
  EXPECT_EQ(state.member, 0);
}

// After Close the peer's bytes no longer arrive in memory that is the caller's again.
TEST_F(UcxWorkers, TouchNoMemoryOnceTheyAreClosed) {
  for (const char* transport : {"posix", "tcp"}) {
    Two two(transport);
    std::vector<char> sent(20'000'000, 's'), came(sent.size(), 'c');
    two.workers[1]->Start(std::vector<Piece>{Receives(0, came)});
    two.workers[0]->Start(std::vector<Piece>{Sends(1, sent)});
    static_cast<void>(two.workers[0]->Advance(0));
    two.workers[1]->Close();
    std::fill(came.begin(), came.end(), 'x');
    for (int i = 0; i < 20; ++i) static_cast<void>(two.workers[0]->Advance(1));
    EXPECT_EQ(came, std::vector<char>(came.size(), 'x'));
    two.workers[0]->Close();
  }
}

// A connection over TCP tells that the other end has gone.
TEST_F(UcxWorkers, NoticeOverTcpThatAPeerHasGone) {
  Two two("tcp");
  std::vector<char> byte(1), other(1);
  two.workers[0]->Start(std::vector<Piece>{Sends(1, byte)});
  two.workers[1]->Start(std::vector<Piece>{Receives(0, other)});
  EXPECT_TRUE(two.Run()[1].finished);
  two.workers[1]->Start(std::vector<Piece>{Receives(0, other)});
  two.workers[0]->Close();
  TransportState state;
  for (int i = 0; i < 500 && state.trouble.empty(); ++i) state = two.workers[1]->Advance(10);
  EXPECT_NE(state.trouble, "");
  EXPECT_EQ(state.member, 0);
}

TEST_F(UcxWorkers, RefuseADeviceThatDoesNotExist) {
  const auto context = UcxContext::Make(*LoadUcx(), "tcp", "no-such-device");
  ASSERT_FALSE(context.has_value());
  EXPECT_EQ(context.error().code, ErrorCode::kIo);
  EXPECT_THAT(context.error().message, HasSubstr("UCX: no context: No such device"));
}

}  // namespace
}  // namespace foretrain
