// Ranks on four hosts: network namespaces joined by a bridge, each with its own shared memory, so
// that tensors travel over TCP. Slow: it starts twelve processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/app/commands/small_run.h"
#include "tests/app/run_binary.h"
#include "tests/runtime/ranks/free_port.h"
#include "tests/runtime/ucx/needs_ucx.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

constexpr int kHosts = 4;

std::string AddressOfHost(int host) { return "10.231.78." + std::to_string(host + 1); }

// The hosts and the namespace of their bridge, removed with the object.
class Hosts {
 public:
  explicit Hosts(const TemporaryFolder& folder) : folder_(folder.path()) {
    std::string make = "ip netns add " + Name(kHosts) + " && ip -n " + Name(kHosts) +
                       " link add bridge type bridge && ip -n " + Name(kHosts) +
                       " link set bridge up";
    for (int host = 0; host < kHosts; ++host) {
      const std::string port = "port" + std::to_string(host);
      make += " && ip netns add " + Name(host) + " && ip -n " + Name(host) +
              " link add net type veth peer name " + port + " netns " + Name(kHosts) +
              " && ip -n " + Name(kHosts) + " link set " + port + " master bridge up && ip -n " +
              Name(host) + " addr add " + AddressOfHost(host) + "/24 dev net && ip -n " +
              Name(host) + " link set net up && ip -n " + Name(host) + " link set lo up";
    }
    made_ = RunCommand(folder_, make + " && " + Exec(0) + "true");
  }
  ~Hosts() {
    for (int host = 0; host <= kHosts; ++host) RunCommand(folder_, "ip netns del " + Name(host));
  }
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;
  const ProgramEnd& made() const { return made_; }
  // Prefix of a command that runs on a host. Hosts share no memory: an IPC namespace each.
  std::string Exec(int host) const { return "ip netns exec " + Name(host) + " unshare --ipc "; }

 private:
  std::string Name(int host) const {
    return "ftn" + std::to_string(getpid()) + "x" + std::to_string(host);
  }
  std::string folder_;
  ProgramEnd made_;
};

// A rank on each host; rank 0 in the foreground. Rank r's exit code goes to code<r>, its process id
// to pid<r>. `meanwhile` runs in the background.
std::string OnHosts(const Hosts& hosts, const std::string& train, const std::string& meanwhile) {
  const int port = FreePort();
  std::string script;
  for (int rank = kHosts - 1; rank >= 0; --rank) {
    const std::string number = std::to_string(rank);
    const std::string one =
        "FORETRAIN_JOB_TOKEN=0123456789abcdef0123 MASTER_ADDR=" + AddressOfHost(0) +
        " MASTER_PORT=" + std::to_string(port) + " WORLD_SIZE=" + std::to_string(kHosts) +
        " RANK=" + number + " " + hosts.Exec(rank) + "bash -c 'echo $$ > pid" + number +
        "; exec $FORETRAIN " + train + "'";
    script += rank > 0 ? "(" + one + " > out" + number + " 2> err" + number + "; echo $? > code" +
                             number + ") & "
                       : meanwhile + one + "; code=$?; touch ended; wait; exit $code";
  }
  return script;
}

struct FourHosts : NeedsUcx {
  // SmallTraining as two ranks that share the batch, times two that share each layer.
  std::string Train(int steps) const {
    return SmallTraining(folder) + "--ranks 4 --tp 2 --json --timeout 60s --steps " +
           std::to_string(steps) + " ";
  }
  const TemporaryFolder folder;
};

TEST_F(FourHosts, TrainAsThreadsToTheBit) {
  const Hosts hosts(folder);
  if (hosts.made().code != 0) {
    GTEST_SKIP() << "needs root, iproute2 and util-linux, for network namespaces; runs as root in "
                    "a container or in CI: "
                 << hosts.made().errors;
  }
  const ProgramEnd threads = RunForetrain(folder.path(), Train(4) + "--store threads.db");
  ASSERT_EQ(threads.code, 0) << threads.errors;
  for (const char* check : {"", "--check-transfers hmac"}) {
    const ProgramEnd end = RunCommand(folder.path(), OnHosts(hosts, Train(4) + check, ""));
    EXPECT_EQ(end.code, 0) << end.errors << folder.Read("err1");
    for (const char* code : {"code1", "code2", "code3"}) EXPECT_EQ(folder.Read(code), "0\n");
    EXPECT_EQ(LossesOf(end.output), LossesOf(threads.output));
  }
}

TEST_F(FourHosts, NameARankThatIsKilled) {
  const Hosts hosts(folder);
  if (hosts.made().code != 0) {
    GTEST_SKIP() << "needs root, iproute2 and util-linux, for network namespaces; runs as root in "
                    "a container or in CI: "
                 << hosts.made().errors;
  }
  const std::string kill =
      "(n=0; until grep -q '\"step\"' stdout || [ $((n += 1)) -gt 600 ]; do sleep 0.1; done; "
      "touch killed; kill -KILL $(cat pid2)) & ";
  const ProgramEnd end = RunCommand(folder.path(), OnHosts(hosts, Train(1'000'000), kill));
  EXPECT_EQ(end.code, 3) << end.errors;
  EXPECT_THAT(end.errors, HasSubstr("rank 2: its process has ended without saying why"));
  for (const char* errors : {"err1", "err3"}) {
    EXPECT_THAT(folder.Read(errors), HasSubstr("rank 2: its process has ended")) << errors;
  }
  EXPECT_EQ(folder.Read("code2"), "137\n");
  const auto time = [this](const char* name) {
    return std::filesystem::last_write_time(folder.path() + "/" + name);
  };
  // A second, and what a busy machine adds.
  EXPECT_LE(time("ended") - time("killed"), std::chrono::seconds(20));
}

}  // namespace
}  // namespace foretrain
