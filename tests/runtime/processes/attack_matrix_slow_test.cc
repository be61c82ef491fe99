// Attacks on whole runs of two ranks. Each leaves the losses unchanged, or ends both ranks with one
// sentence within the deadline; none ends the process. Slow because of deadlines that must pass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <random>
#include <thread>

#include "runtime/processes/reception.h"
#include "runtime/processes/wire/job_key.h"
#include "runtime/processes/wire/packing.h"
#include "tests/runtime/processes/man_in_the_middle.h"
#include "tests/runtime/processes/rank_process.h"
#include "tests/runtime/ranks/free_port.h"

namespace foretrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kSecond = 1'000'000'000;
const std::string kToken = "a token of the tests";

ProcessJob Job() {
  ProcessJob job;
  job.plan.dp = 2;
  job.token = kToken;
  job.timeout_ns = kSecond;
  return job;
}

// The losses of a run that nobody attacks.
const std::vector<float>& TrueLosses() {
  static const std::vector<float> losses = [] {
    ProcessJob job = Job();
    job.timeout_ns = 30 * kSecond;
    const auto ends = RunProcesses(job);
    EXPECT_FALSE(ends.front().error.has_value()) << ends.front().error->message;
    return LossesOf(ends.front().sink, job.steps);
  }();
  return losses;
}

bool IsOneSentence(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](char byte) { return byte >= ' ' && byte != 0x7f; });
}

// Counts how runs ended, over all attacks of a test.
struct Ends {
  int unchanged = 0, refused = 0;
};

// Runs rank 0 at `port` and rank 1 at `other_port`, while `attack` goes on.
void RunUnderAttack(const std::string& name, const ProcessJob& job, int port, int other_port,
                    Ends& ends) {
  const std::vector<float>& expected = TrueLosses();
  const auto begin = Clock::now();
  EndedProcess first, second;
  std::thread other([&] { second = RunProcess(job, 1, other_port); });
  first = RunProcess(job, 0, port);
  other.join();
  // A rank waits once to meet, once for each other rank, and a moment for the reason of an end.
  const auto limit = std::chrono::nanoseconds(4 * job.timeout_ns + 10 * kSecond);
  EXPECT_LT(Clock::now() - begin, limit) << name;
  EXPECT_EQ(first.error.has_value(), second.error.has_value())
      << name << ": " << (first.error ? first.error->message : "rank 0 ended well") << "; "
      << (second.error ? second.error->message : "rank 1 ended well");
  if (!first.error) {
    ++ends.unchanged;
    EXPECT_EQ(LossesOf(first.sink, job.steps), expected) << name;
    return;
  }
  ++ends.refused;
  EXPECT_TRUE(IsOneSentence(first.error->message)) << name << ": " << first.error->message;
  if (second.error) {
    EXPECT_TRUE(IsOneSentence(second.error->message)) << name << ": " << second.error->message;
  }
}

TEST(AttackMatrix, AManInTheMiddleChangesNoLoss) {
  Ends ends;
  int meddled = 0;
  for (int change = 1; change < kChanges; ++change) {
    for (const bool to_listener : {true, false}) {
      for (const int frame : {0, 1, 2, 3, 7}) {
        const Meddling meddling{static_cast<Change>(change), to_listener, frame};
        const std::string name = "change " + std::to_string(change) +
                                 (to_listener ? " of frame " : " of answer ") +
                                 std::to_string(frame);
        const int port = FreePort();
        ManInTheMiddle between(port, meddling);
        RunUnderAttack(name, Job(), port, between.port(), ends);
        meddled += between.has_meddled() ? 1 : 0;
      }
    }
  }
  // 14 changes of 10 frames. Changes before the meeting are tried again, later ones end the run. On
  // a busy machine a few runs pass their timeout before the frame comes.
  EXPECT_GE(meddled, 110);
  EXPECT_EQ(ends.unchanged + ends.refused, 140);
  EXPECT_GT(ends.unchanged, 10);
  EXPECT_GT(ends.refused, 60);
}

// Without meddling the relay is no obstacle, and its recording of a whole run lets no one in later.
TEST(AttackMatrix, ARecordedRunOpensNoOther) {
  Ends ends;
  std::string recorded;
  {
    const int port = FreePort();
    ManInTheMiddle between(port, {});
    RunUnderAttack("a relay", Job(), port, between.port(), ends);
    recorded = between.recorded();
  }
  ASSERT_EQ(ends.unchanged, 1);
  ASSERT_GT(recorded.size(), 200U);
  const int port = FreePort();
  std::thread replay([&] {
    for (int tries = 0; tries < 50; ++tries) {
      const auto socket = ConnectTo("127.0.0.1", port, DeadlineIn(kSecond));
      if (socket.has_value()) SendBytes(*socket, recorded);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  RunUnderAttack("a replay", Job(), port, port, ends);
  replay.join();
  EXPECT_EQ(ends.unchanged, 2);
}

// Sends to all connections that it can make until the meeting is over.
class Stranger {
 public:
  Stranger(int port, int connections, std::vector<std::string> parts)
      : thread_([=, this] { Run(port, connections, parts); }) {}
  ~Stranger() {
    over_ = true;
    thread_.join();
  }

 private:
  void Run(int port, int connections, const std::vector<std::string>& parts) {
    std::vector<Socket> sockets;
    while (!over_ && static_cast<int>(sockets.size()) < connections) {
      auto socket = ConnectTo("127.0.0.1", port, DeadlineIn(kSecond));
      if (socket.has_value()) {
        sockets.push_back(*std::move(socket));
        SendBytes(sockets.back(), parts.front());
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    for (std::size_t part = 1; part < parts.size() && !over_; ++part) {
      for (const Socket& socket : sockets) SendBytes(socket, parts[part]);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    while (!over_) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  std::atomic<bool> over_{false};
  std::thread thread_;
};

TEST(AttackMatrix, StrangersHoldNobodyUp) {
  const std::string greeting = "FTRAIN02" + std::string(32, 'n');
  std::vector<std::string> slowly;
  for (const char byte : greeting) slowly.emplace_back(1, byte);
  std::mt19937_64 random(1);
  std::string noise;
  for (int i = 0; i < 10'000; ++i) noise += static_cast<char>(random());
  struct Case {
    std::string name;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases = {
      {"silence", {""}},
      {"a byte at a time", slowly},
      {"noise", {noise}},
      {"a browser", {"GET / HTTP/1.1\r\nHost: a\r\n\r\n"}},
      {"TLS", {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11)}},
      {"the store's old protocol",
       {std::string("P\x05\0\0\0group\x01\0\0\0"
                    "1",
                    15)}},
      {"an older version", {"FTRAIN01" + std::string(32, 'n')}},
      {"a hello without a code", {greeting + "H" + Pack(std::uint32_t{8}) + "12345678"}},
      {"a hello with a wrong code",
       {greeting + "H" + Pack(std::uint32_t{8}) + "12345678" + std::string(32, 'c')}},
      {"a huge header", {greeting + "H\xff\xff\xff\xff"}},
      {"a message before a hello",
       {greeting + "F" + Pack(std::uint32_t{0}) + std::string(32, 'c')}},
  };
  Ends ends;
  int attacks = 0;
  for (const Case& one : cases) {
    for (const int connections : {1, 20, 300}) {
      ProcessJob job = Job();
      job.timeout_ns = 10 * kSecond;
      const int port = FreePort();
      const Stranger stranger(port, connections, one.parts);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      RunUnderAttack(one.name + " " + std::to_string(connections), job, port, port, ends);
      ++attacks;
    }
  }
  EXPECT_EQ(ends.unchanged, attacks);
}

// A process with another token is none of the job's, whatever rank it claims.
TEST(AttackMatrix, AnotherTokenIsRefused) {
  Ends ends;
  for (const std::int32_t rank : {0, 1, 2}) {
    const int port = FreePort();
    std::atomic<bool> over{false};
    std::thread stranger([&] {
      const std::string key = *KeyOfToken("another token of the tests");
      while (!over) {
        const auto joined =
            Dial("127.0.0.1", port, key, Pack(rank, std::int32_t{2}), kSecond, DeadlineIn(kSecond));
        EXPECT_FALSE(joined.has_value());
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    RunUnderAttack("rank " + std::to_string(rank), Job(), port, port, ends);
    over = true;
    stranger.join();
  }
  EXPECT_EQ(ends.unchanged, 3);
}

// Two copies of rank 1: one of them is too many, and all are told.
TEST(AttackMatrix, ASecondRankOneEndsTheMeeting) {
  ProcessJob job = Job();
  job.plan.dp = 4;
  const int port = FreePort();
  EndedProcess first, second, third;
  std::thread one([&] { second = RunProcess(job, 1, port); });
  std::thread two([&] { third = RunProcess(job, 1, port); });
  first = RunProcess(job, 0, port);
  one.join();
  two.join();
  for (const EndedProcess* end : {&first, &second, &third}) {
    ASSERT_TRUE(end->error.has_value());
    EXPECT_THAT(end->error->message, testing::HasSubstr("two processes say that they are rank 1"));
  }
}

// After the meeting no socket listens: neither rank 0's nor those for tensors.
TEST(AttackMatrix, NobodyListensAfterTheMeeting) {
  ProcessJob job = Job();
  job.timeout_ns = 30 * kSecond;
  job.steps = 2000;
  const int port = FreePort();
  std::atomic<int> begun{0};
  std::atomic<bool> stop{false};
  job.stop = [&](int) { return ++begun, stop.load(); };
  EndedProcess first, second;
  std::thread one([&] { first = RunProcess(job, 0, port); });
  std::thread two([&] { second = RunProcess(job, 1, port); });
  while (begun < 4) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const auto late = ConnectTo("127.0.0.1", port, DeadlineIn(kSecond));
  EXPECT_FALSE(late.has_value());
  stop = true;
  one.join();
  two.join();
  EXPECT_FALSE(first.error.has_value()) << first.error->message;
  EXPECT_FALSE(second.error.has_value()) << second.error->message;
}

}  // namespace
}  // namespace foretrain
