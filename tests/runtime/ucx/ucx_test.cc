// Transports of one process, which UCX connects as if they were those of two.
#include "runtime/ucx/ucx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <ctime>
#include <numeric>
#include <thread>

#include "tests/runtime/ucx/needs_ucx.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Two connected ends.
struct Two {
  explicit Two(const Ucx& ucx) {
    for (std::size_t i = 0; i < 2; ++i) ends[i] = *ucx.Make(static_cast<int>(i), 2);
    for (std::size_t i = 0; i < 2; ++i) {
      const auto connected = ends[i]->Connect(static_cast<int>(1 - i), ends[1 - i]->address());
      EXPECT_TRUE(connected.has_value()) << connected.error().message;
    }
  }
  // Moves until both have finished or one is in trouble, at most 20 s. Returns the states.
  std::array<TransportState, 2> Run() {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    std::array<TransportState, 2> states;
    do {
      for (std::size_t i = 0; i < 2; ++i) states[i] = ends[i]->Advance(0);
    } while (!(states[0].finished && states[1].finished) &&
             (states[0].trouble + states[1].trouble).empty() &&
             std::chrono::steady_clock::now() < until);
    return states;
  }
  std::array<std::unique_ptr<UcxTransport>, 2> ends;
};

Piece Sends(int member, std::vector<char>& bytes) {
  return {member, true, bytes.data(), static_cast<std::int64_t>(bytes.size())};
}
Piece Receives(int member, std::vector<char>& bytes) {
  return {member, false, bytes.data(), static_cast<std::int64_t>(bytes.size())};
}

struct UcxTransports : NeedsUcx {};

TEST(UcxLibrary, NamesTheFileThatIsMissing) {
  const auto missing = OpenUcx("/no/such/libucp.so.0");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(missing.error().message,
              testing::AnyOf(HasSubstr("/no/such/libucp.so.0"), HasSubstr("libucx-dev")));
}

// libc is a library without any of the functions.
TEST_F(UcxTransports, NeedAllFunctionsOfTheLibrary) {
  const auto other = OpenUcx("libc.so.6");
  ASSERT_FALSE(other.has_value());
  EXPECT_THAT(other.error().message, AllOf(HasSubstr("libc.so.6 has no function ucp_get_version"),
                                           HasSubstr("UCX 1.13 or a later 1.x")));
}

// A byte, a message that travels by itself, one that waits for its receiver, and one in parts.
TEST_F(UcxTransports, ExchangePiecesOfAllSizes) {
  Two two(*ucx);
  for (const std::size_t bytes : {1U, 4096U, 300'000U, 20'000'003U}) {
    std::array<std::vector<char>, 2> sent, came;
    for (std::size_t i = 0; i < 2; ++i) {
      sent[i].resize(bytes);
      came[i].resize(bytes);
      std::iota(sent[i].begin(), sent[i].end(), static_cast<char>(i + 3));
    }
    for (std::size_t i = 0; i < 2; ++i) {
      const int other = static_cast<int>(1 - i);
      two.ends[i]->Start(std::vector<Piece>{Sends(other, sent[i]), Receives(other, came[i])});
    }
    const auto states = two.Run();
    EXPECT_TRUE(states[0].finished && states[1].finished) << bytes;
    EXPECT_TRUE(came[0] == sent[1] && came[1] == sent[0]) << bytes;
  }
}

TEST_F(UcxTransports, KeepTheOrderOfSends) {
  Two two(*ucx);
  std::vector<char> small(1, 's'), large(2'000'000, 'l'), first(1), second(2'000'000), third(1);
  two.ends[0]->Start(std::vector<Piece>{Sends(1, small), Sends(1, large), Sends(1, small)});
  two.ends[1]->Start(
      std::vector<Piece>{Receives(0, first), Receives(0, second), Receives(0, third)});
  EXPECT_TRUE(two.Run()[1].finished);
  EXPECT_EQ(first, small);
  EXPECT_EQ(second, large);
  EXPECT_EQ(third, small);
}

// A peer may be ahead: its bytes are there before this end asks for them. UCX 1.13 then tells the
// size of a message only if a request is asked for.
TEST_F(UcxTransports, ReceivePiecesThatCameBeforeTheyWereAskedFor) {
  Two two(*ucx);
  for (const std::size_t bytes : {1U, 56U, 5000U, 30'000U, 300'000U}) {
    std::vector<char> sent(bytes, 's'), came(bytes);
    two.ends[0]->Start(std::vector<Piece>{Sends(1, sent)});
    two.ends[1]->Start({});
    for (int i = 0; i < 100; ++i) {
      static_cast<void>(two.ends[0]->Advance(0));
      static_cast<void>(two.ends[1]->Advance(0));
    }
    two.ends[1]->Start(std::vector<Piece>{Receives(0, came)});
    const auto states = two.Run();
    EXPECT_EQ(states[1].trouble, "") << bytes;
    EXPECT_TRUE(states[0].finished && states[1].finished);
    EXPECT_EQ(came, sent);
  }
}

// Two threads that run ahead of each other in turn, with small and large messages mixed.
TEST_F(UcxTransports, ExchangeManyPiecesBetweenThreads) {
  Two two(*ucx);
  const auto run = [&](std::size_t i) {
    for (int call = 0; call < 300; ++call) {
      const std::size_t bytes = std::array<std::size_t, 3>{56, 16'384, 300'000}[call % 3];
      std::vector<char> sent(bytes, static_cast<char>(call)), came(bytes);
      const int other = static_cast<int>(1 - i);
      two.ends[i]->Start(std::vector<Piece>{Sends(other, sent), Receives(other, came)});
      TransportState state;
      while (!state.finished && state.trouble.empty()) state = two.ends[i]->Advance(50);
      ASSERT_EQ(state.trouble, "") << call;
      ASSERT_EQ(came, sent) << call;
    }
  };
  std::thread other(run, 1);
  run(0);
  other.join();
}

TEST_F(UcxTransports, FindThatSizesDiffer) {
  for (const bool asked_first : {true, false}) {
    for (const std::size_t bytes : {7U, 9U}) {
      Two two(*ucx);
      std::vector<char> sent(bytes), came(8);
      if (asked_first) two.ends[1]->Start(std::vector<Piece>{Receives(0, came)});
      two.ends[0]->Start(std::vector<Piece>{Sends(1, sent)});
      if (!asked_first) {
        two.ends[1]->Start({});
        static_cast<void>(two.Run());
        two.ends[1]->Start(std::vector<Piece>{Receives(0, came)});
      }
      TransportState state;
      for (int i = 0; i < 100 && state.trouble.empty(); ++i) {
        static_cast<void>(two.ends[0]->Advance(0));
        state = two.ends[1]->Advance(10);
      }
      EXPECT_EQ(state.member, 0);
      EXPECT_THAT(state.trouble, HasSubstr("another number of bytes than the 8 that are expected"));
    }
  }
}

TEST_F(UcxTransports, NameTheMemberThatTheyWaitFor) {
  Two two(*ucx);
  std::vector<char> came(8);
  two.ends[1]->Start(std::vector<Piece>{Receives(0, came)});
  const TransportState state = two.ends[1]->Advance(/*ms=*/10);
  EXPECT_FALSE(state.finished);
  EXPECT_EQ(state.done, 0);
  EXPECT_EQ(state.member, 0);
}

// Seconds of CPU time that ten calls of Advance take, which wait 0.5 s in all.
double UsedWhileWaiting(UcxTransport& end) {
  const auto used_s = [] {
    timespec used{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
  };
  static_cast<void>(end.Advance(/*ms=*/50));  // what can move at once
  const double before_s = used_s();
  for (int i = 0; i < 10; ++i) static_cast<void>(end.Advance(/*ms=*/50));
  return used_s() - before_s;
}

// Ranks share cores: a rank that waits leaves its core to the others.
TEST_F(UcxTransports, SleepWhileTheyWait) {
  Two two(*ucx);
  std::vector<char> came(8);
  two.ends[1]->Start(std::vector<Piece>{Receives(0, came)});
  EXPECT_LT(UsedWhileWaiting(*two.ends[1]), 0.1);
}

// The peer's queue is full, and the peer may have died.
TEST_F(UcxTransports, SleepWhileAPeerTakesNothing) {
  Two two(*ucx);
  std::vector<char> byte(1), part(8000);
  two.ends[0]->Start(std::vector<Piece>{Sends(1, byte)});
  two.ends[1]->Start(std::vector<Piece>{Receives(0, byte)});
  ASSERT_TRUE(two.Run()[0].finished);
  two.ends[0]->Start(std::vector<Piece>(500, Sends(1, part)));
  EXPECT_LT(UsedWhileWaiting(*two.ends[0]), 0.2);
}

// A peer's bytes no longer arrive in memory that is the caller's again.
TEST_F(UcxTransports, TouchNoMemoryOnceTheyAreGone) {
  Two two(*ucx);
  std::vector<char> sent(20'000'000, 's'), came(sent.size(), 'c');
  two.ends[1]->Start(std::vector<Piece>{Receives(0, came)});
  two.ends[0]->Start(std::vector<Piece>{Sends(1, sent)});
  static_cast<void>(two.ends[0]->Advance(0));
  static_cast<void>(two.ends[1]->Advance(0));
  two.ends[1].reset();
  std::fill(came.begin(), came.end(), 'x');
  for (int i = 0; i < 20; ++i) static_cast<void>(two.ends[0]->Advance(1));
  EXPECT_EQ(came, std::vector<char>(came.size(), 'x'));
}

}  // namespace
}  // namespace foretrain
