// Attacks from outside on ranks that are processes of the built program.
// tests/runtime/processes/attack_matrix_slow_test.cc has many more, on ranks that are threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <string_view>
#include <thread>

#include "app/training/run_recording.h"
#include "tests/app/commands/small_run.h"
#include "tests/app/run_binary.h"
#include "tests/runtime/ranks/free_port.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;
const std::string kToken = "FORETRAIN_JOB_TOKEN=0123456789abcdef0123 ";

std::string Launch(int rank, int port, const std::string& address = "127.0.0.1") {
  return "MASTER_ADDR=" + address + " MASTER_PORT=" + std::to_string(port) +
         " WORLD_SIZE=2 RANK=" + std::to_string(rank) + " ";
}

// Starts rank 1 in the background and rank 0, and writes both exit codes to `codes`.
std::string Pair(const std::string& first, const std::string& second) {
  return second + " > out1 2> err1 & other=$!; " + first +
         "; first=$?; wait $other; echo $first $? > codes";
}

void SendAll(const Socket& socket, const std::string& bytes) {
  static_cast<void>(send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
}

// The store's old protocol let any program overwrite the address of a rank, and with it read and
// change its gradients.
TEST(Rendezvous, TakesNoValueFromAStranger) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder) + "--json --steps 4 ";
  const ProgramEnd threads = RunForetrain(folder.path(), train + "--store threads.db");
  ASSERT_EQ(threads.code, 0) << threads.errors;
  const int port = FreePort();
  std::atomic<bool> over{false};
  std::thread stranger([&] {
    const std::string name = "mesh 1", value = "127.0.0.1 9";
    const auto framed = [](const std::string& text) {
      return std::string(1, static_cast<char>(text.size())) + std::string(3, '\0') + text;
    };
    while (!over) {
      const auto socket = ConnectTo("127.0.0.1", port, DeadlineIn(kSecond));
      if (socket.has_value()) SendAll(*socket, "P" + framed(name) + framed(value));
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  const ProgramEnd end = RunCommand(folder.path(), Pair(Launch(0, port) + "$FORETRAIN " + train,
                                                        Launch(1, port) + "$FORETRAIN " + train));
  over = true;
  stranger.join();
  EXPECT_EQ(folder.Read("codes"), "0 0\n") << end.errors << folder.Read("err1");
  EXPECT_EQ(LossesOf(end.output), LossesOf(threads.output));
}

// A connection that sends a byte now and then does not extend --timeout.
TEST(Rendezvous, IsNotHeldUpByASlowConnection) {
  const TemporaryFolder folder;
  const int port = FreePort();
  std::atomic<bool> over{false};
  std::thread stranger([&] {
    std::vector<Socket> sockets;
    while (!over) {
      if (sockets.size() < 5) {
        auto socket = ConnectTo("127.0.0.1", port, DeadlineIn(kSecond));
        if (socket.has_value()) sockets.push_back(*std::move(socket));
      }
      for (const Socket& socket : sockets) SendAll(socket, "F");
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  });
  const auto begin = std::chrono::steady_clock::now();
  const ProgramEnd end =
      RunCommand(folder.path(), Launch(0, port) + "$FORETRAIN " + SmallTraining(folder) +
                                    "--steps 4 --timeout 1s");
  const auto took = std::chrono::steady_clock::now() - begin;
  over = true;
  stranger.join();
  EXPECT_EQ(end.code, 3);
  EXPECT_THAT(end.errors, HasSubstr("for the processes of rank 1"));
  EXPECT_LT(took, std::chrono::seconds(4));
}

TEST(Rendezvous, NeedsATokenAcrossMachines) {
  const TemporaryFolder folder;
  const std::string train = "$FORETRAIN " + SmallTraining(folder) + "--steps 4 --timeout 1s ";
  const ProgramEnd none = RunCommand(folder.path(), Launch(1, FreePort(), "192.0.2.1") + train);
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.errors, AllOf(HasSubstr("FORETRAIN_JOB_TOKEN"), HasSubstr("openssl rand")));
  const ProgramEnd shorter =
      RunCommand(folder.path(), "FORETRAIN_JOB_TOKEN=secret " + Launch(1, FreePort()) + train);
  EXPECT_EQ(shorter.code, 2);
  EXPECT_THAT(shorter.errors, HasSubstr("the job token has 6 characters and needs 16"));
  const ProgramEnd alone = RunCommand(folder.path(), train + "--check-transfers crc32c");
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.errors, HasSubstr("for ranks that are processes"));
}

TEST(Rendezvous, TakesTheTokenFromAPrivateFile) {
  const TemporaryFolder folder;
  folder.Write("token", "0123456789abcdef0123\n");
  const std::string train = "$FORETRAIN " + SmallTraining(folder) + "--json --steps 4 ";
  int port = FreePort();
  const ProgramEnd end = RunCommand(
      folder.path(), "chmod 600 token; " +
                         Pair(Launch(0, port) + train + "--job-token token --check-transfers hmac",
                              kToken + Launch(1, port) + train + "--check-transfers hmac"));
  EXPECT_EQ(folder.Read("codes"), "0 0\n") << end.errors << folder.Read("err1");
  EXPECT_EQ(LossesOf(end.output).size(), 4U);
  port = FreePort();
  const ProgramEnd open = RunCommand(
      folder.path(), "chmod 644 token; " + Launch(0, port) + train + "--job-token token");
  EXPECT_EQ(open.code, 2);
  EXPECT_THAT(open.errors, HasSubstr("chmod 600"));
}

TEST(Rendezvous, EndsRanksWithDifferentTokens) {
  const TemporaryFolder folder;
  const std::string train =
      "$FORETRAIN " + SmallTraining(folder) + "--json --steps 4 --timeout 700ms ";
  const int port = FreePort();
  const ProgramEnd end =
      RunCommand(folder.path(),
                 Pair(kToken + Launch(0, port) + train,
                      "FORETRAIN_JOB_TOKEN=another-token-of-the-tests " + Launch(1, port) + train));
  EXPECT_EQ(folder.Read("codes"), "3 3\n");
  EXPECT_THAT(end.errors, AllOf(HasSubstr("rank 1; refused"), HasSubstr("another job token")));
  EXPECT_THAT(folder.Read("err1"), HasSubstr("rank 1 waited"));
}

constexpr std::string_view kNeedsNamespace =
    "needs root and iproute2, for a network namespace; runs as root in a container or in CI: ";

// A second host: a network namespace with a cable to this one.
class SecondHost {
 public:
  explicit SecondHost(const TemporaryFolder& folder) {
    const std::string id = std::to_string(getpid());
    space_ = "ft" + id;
    const std::string here = "fta" + id, there = "ftb" + id;
    made_ =
        RunCommand(folder.path(),
                   "ip netns add " + space_ + " && ip link add " + here + " type veth peer name " +
                       there + " netns " + space_ + " && ip addr add 10.231.77.1/30 dev " + here +
                       " && ip link set " + here + " up && ip -n " + space_ +
                       " addr add 10.231.77.2/30 dev " + there + " && ip -n " + space_ +
                       " link set " + there + " up && ip -n " + space_ + " link set lo up");
    folder_ = folder.path();
  }
  ~SecondHost() { RunCommand(folder_, "ip netns del " + space_); }
  SecondHost(const SecondHost&) = delete;
  SecondHost& operator=(const SecondHost&) = delete;
  const ProgramEnd& made() const { return made_; }
  std::string Exec() const { return "ip netns exec " + space_ + " "; }

 private:
  std::string space_, folder_;
  ProgramEnd made_;
};

// From the second host come strangers and a process with another token, then the right rank 1.
TEST(Rendezvous, LetsNoOtherHostIn) {
  const TemporaryFolder folder;
  const SecondHost host(folder);
  if (host.made().code != 0) {
    GTEST_SKIP() << kNeedsNamespace << host.made().errors;
  }
  const std::string train = SmallTraining(folder) + "--json --steps 4 ";
  const ProgramEnd threads = RunForetrain(folder.path(), train + "--store threads.db");
  ASSERT_EQ(threads.code, 0) << threads.errors;
  const int port = FreePort();
  const std::string meet = Launch(1, port, "10.231.77.1");
  const std::string knock =
      "'exec 3<>/dev/tcp/10.231.77.1/" + std::to_string(port) +
      "; printf \"P\\006\\0\\0\\0mesh 1\\013\\0\\0\\000127.0.0.1 9\" >&3; sleep 1'";
  const std::string attack =
      "(sleep 0.5; for i in 1 2 3 4 5; do " + host.Exec() + "bash -c " + knock +
      " & done; FORETRAIN_JOB_TOKEN=another-token-of-the-tests " + meet + host.Exec() +
      "$FORETRAIN " + train + "--timeout 1s > out2 2> err2; echo $? > code2; " + kToken + meet +
      host.Exec() + "$FORETRAIN " + train + "> out1 2> err1; echo $? > code1) & attack=$!; ";
  const ProgramEnd end =
      RunCommand(folder.path(), attack + kToken + Launch(0, port, "10.231.77.1") + "$FORETRAIN " +
                                    train + "--timeout 60s; code=$?; wait $attack; exit $code");
  EXPECT_EQ(end.code, 0) << end.errors;
  EXPECT_EQ(folder.Read("code2"), "3\n") << folder.Read("err2");
  EXPECT_EQ(folder.Read("code1"), "0\n") << folder.Read("err1");
  EXPECT_EQ(LossesOf(end.output), LossesOf(threads.output));
  // Without a token nothing listens.
  const ProgramEnd open = RunCommand(
      folder.path(), Launch(0, port, "10.231.77.1") + "$FORETRAIN " + train + "--timeout 1s");
  EXPECT_EQ(open.code, 2);
}

// A hundred connections from the second host, ten of each kind, while rank 0 waits for rank 1.
TEST(Rendezvous, StandsAHundredAttacksFromAnotherHost) {
  const TemporaryFolder folder;
  const SecondHost host(folder);
  if (host.made().code != 0) {
    GTEST_SKIP() << kNeedsNamespace << host.made().errors;
  }
  const std::string train = SmallTraining(folder) + "--json --steps 4 ";
  const ProgramEnd threads = RunForetrain(folder.path(), train + "--store threads.db");
  ASSERT_EQ(threads.code, 0) << threads.errors;

  const std::string address = "10.231.77.1";
  const int port = FreePort();
  std::mt19937_64 random(20);
  const auto noise = [&](int bytes) {
    std::string text;
    while (std::ssize(text) < bytes) text += static_cast<char>(random());
    return text;
  };
  const auto length = [](std::uint32_t bytes) {
    return std::string(reinterpret_cast<const char*>(&bytes), sizeof bytes);
  };
  for (int round = 0; round < 10; ++round) {
    const std::string greeting = "FTRAIN02" + noise(32);
    const std::string hello = greeting + "H" + length(8) + length(1) + length(2);
    const std::string payloads[] = {
        "",  // says nothing
        noise(50'000),
        "FTRAIN01" + noise(32),                                   // an older version
        greeting.substr(0, 8 + static_cast<int>(random() % 32)),  // a part of a greeting
        hello,                                                    // without a code
        hello + noise(32),                                        // with a wrong code
        greeting + "H" + length(0xffffffff),                      // claims 4 GiB
        greeting + noise(1) + length(static_cast<std::uint32_t>(random() % 200)) + noise(300),
        greeting + "F" + length(0) + noise(32),  // a failure before a hello
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n"};
    for (int kind = 0; kind < 10; ++kind) {
      folder.Write("attack" + std::to_string(round * 10 + kind), payloads[kind]);
    }
  }
  // Every third one also sends back what it hears.
  folder.Write("attack.sh",
               "attack() {\n"
               "  tries=0\n"
               "  until exec 3<>/dev/tcp/" +
                   address + "/" + std::to_string(port) +
                   "; do [ $((++tries)) -lt 300 ] || return; sleep 0.1; done\n"
                   "  echo $1 >> reached\n"
                   "  cat attack$1 >&3\n"
                   "  [ $(($1 % 3)) != 0 ] || timeout 2 cat <&3 >&3\n"
                   "  sleep 1\n"
                   "}\n"
                   "for i in $(seq 0 99); do attack $i & done 2> /dev/null\n"
                   "wait\n");
  // Rank 1 comes after all have connected: rank 0 stops listening once it is there.
  const std::string all_reached =
      "for i in $(seq 300); do [ $(cat reached 2> /dev/null | wc -l) -lt 100 ] || break; sleep "
      "0.1; done; ";
  const std::string attack = "(" + host.Exec() + "bash attack.sh 2> /dev/null & " + all_reached +
                             kToken + Launch(1, port, address) + host.Exec() + "$FORETRAIN " +
                             train + "> out1 2> err1; echo $? > code1; wait) & attack=$!; ";
  const ProgramEnd end =
      RunCommand(folder.path(), attack + kToken + Launch(0, port, address) + "$FORETRAIN " + train +
                                    "--timeout 60s; code=$?; wait $attack; exit $code");
  EXPECT_EQ(end.code, 0) << end.errors;
  EXPECT_EQ(folder.Read("code1"), "0\n") << folder.Read("err1");
  EXPECT_EQ(LossesOf(end.output), LossesOf(threads.output));
  const std::string reached = folder.Read("reached");
  EXPECT_EQ(std::count(reached.begin(), reached.end(), '\n'), 100) << end.errors;
}

// Steps come from other processes too.
TEST(TrainingProgress, DrawsAStepBeyondTheLastAsTheLast) {
  TrainingOptions options;
  options.job.steps = 3;
  TrainingProgress progress(options, /*first_step=*/0);
  testing::internal::CaptureStderr();
  for (const std::int64_t step : {std::int64_t{2}, std::int64_t{1} << 40, std::int64_t{-9}}) {
    StepReport report;
    report.step = step;
    progress.OnStep(report);
  }
  const std::string shown = testing::internal::GetCapturedStderr();
  EXPECT_THAT(shown, AllOf(HasSubstr("[########################] step 3/3"),
                           HasSubstr("[########################] step 1099511627777/3"),
                           HasSubstr("[                        ] step -8/3")));
}

}  // namespace
}  // namespace foretrain
