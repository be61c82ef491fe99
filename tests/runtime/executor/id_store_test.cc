#include "runtime/processes/id_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "tests/runtime/ranks/free_port.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;

std::map<std::string, std::string> variables;
const char* Get(const char* name) {
  const auto found = variables.find(name);
  return found == variables.end() ? nullptr : found->second.c_str();
}

TEST(LaunchedRank, IsReadFromTheLaunchersVariables) {
  variables = {};
  auto at = ReadLaunchedRank(&Get);
  ASSERT_TRUE(at.has_value());
  EXPECT_EQ(at->world, 1);
  variables = {
      {"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "host7"}, {"MASTER_PORT", "29500"}};
  at = ReadLaunchedRank(&Get);
  ASSERT_TRUE(at.has_value()) << at.error().message;
  EXPECT_EQ(at->rank, 3);
  EXPECT_EQ(at->world, 8);
  EXPECT_EQ(at->address, "host7");
  EXPECT_EQ(at->port, 29500);
}

TEST(LaunchedRank, IsReadFromWhatMpirunAndSrunSet) {
  // Open MPI with all ranks on one machine: no meeting address is set, and none is needed.
  variables = {{"OMPI_COMM_WORLD_RANK", "1"},
               {"OMPI_COMM_WORLD_SIZE", "2"},
               {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  auto at = ReadLaunchedRank(&Get);
  ASSERT_TRUE(at.has_value()) << at.error().message;
  EXPECT_EQ(at->rank, 1);
  EXPECT_EQ(at->world, 2);
  EXPECT_EQ(at->local, 1);
  EXPECT_EQ(at->address, "127.0.0.1");
  EXPECT_EQ(at->port, 29500);
  // With several machines it is required.
  variables["OMPI_COMM_WORLD_SIZE"] = "4";
  EXPECT_FALSE(ReadLaunchedRank(&Get).has_value());
  variables["MASTER_ADDR"] = "host7";
  EXPECT_FALSE(ReadLaunchedRank(&Get).has_value());
  variables["MASTER_PORT"] = "1234";
  at = ReadLaunchedRank(&Get);
  ASSERT_TRUE(at.has_value()) << at.error().message;
  EXPECT_EQ(at->address, "host7");
  EXPECT_EQ(at->port, 1234);
  // MPICH's variables; torchrun's win over both.
  variables = {{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}, {"MPI_LOCALNRANKS", "3"}};
  at = ReadLaunchedRank(&Get);
  ASSERT_TRUE(at.has_value()) << at.error().message;
  EXPECT_EQ(at->rank, 2);
  // A script under sbatch has SLURM_PROCID too; only srun's processes know the number of tasks.
  variables = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}};
  at = ReadLaunchedRank(&Get);
  ASSERT_TRUE(at.has_value());
  EXPECT_EQ(at->world, 1);
  variables = {{"SLURM_PROCID", "3"},
               {"SLURM_STEP_NUM_TASKS", "4"},
               {"SLURM_STEP_NUM_NODES", "1"},
               {"SLURM_LOCALID", "3"}};
  at = ReadLaunchedRank(&Get);
  ASSERT_TRUE(at.has_value()) << at.error().message;
  EXPECT_EQ(at->local, 3);
  EXPECT_EQ(at->world, 4);
}

// torchrun's agent itself listens at MASTER_PORT.
TEST(LaunchedRank, MeetsBesideTorchrunsStore) {
  variables = {{"RANK", "0"},
               {"WORLD_SIZE", "2"},
               {"MASTER_ADDR", "localhost"},
               {"MASTER_PORT", "29500"},
               {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
  const auto at = ReadLaunchedRank(&Get);
  ASSERT_TRUE(at.has_value()) << at.error().message;
  EXPECT_EQ(at->port, 29501);
}

TEST(LaunchedRank, RefusesWhatItCannotMean) {
  const std::map<std::string, std::string> good = {
      {"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "host7"}, {"MASTER_PORT", "29500"}};
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"RANK", "8"}, {"WORLD_SIZE", "many"}, {"MASTER_PORT", "70000"}}) {
    variables = good;
    variables[name] = value;
    const auto at = ReadLaunchedRank(&Get);
    ASSERT_FALSE(at.has_value()) << name;
    EXPECT_THAT(at.error().message, AllOf(HasSubstr(name), HasSubstr("\"" + value + "\"")));
  }
  for (const char* name : {"WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    variables = good;
    variables.erase(name);
    const auto at = ReadLaunchedRank(&Get);
    ASSERT_FALSE(at.has_value());
    EXPECT_THAT(at.error().message, HasSubstr(std::string(name) + " is not set"));
  }
}

TEST(TcpIdStore, HandsValuesFromOneRankToTheOthers) {
  const int port = FreePort();
  // Arbitrary bytes, as an id has.
  const std::string value("\0\1\377 id", 6);
  std::vector<std::string> got(3);
  std::vector<std::thread> threads;
  // The others start first and retry until rank 0 listens.
  for (const int rank : {1, 2}) {
    threads.emplace_back([&, rank] {
      auto store = MakeTcpIdStore({rank, 3, 0, "127.0.0.1", port}, 10 * kSecond);
      ASSERT_TRUE(store.has_value()) << store.error().message;
      auto value_of = (*store)->Get("nccl tp of ranks 0 1", nullptr);
      ASSERT_TRUE(value_of.has_value()) << value_of.error().message;
      got[static_cast<std::size_t>(rank)] = *value_of;
      ASSERT_TRUE((*store)->Put("came " + std::to_string(rank), "").has_value());
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  auto store = MakeTcpIdStore({0, 3, 0, "127.0.0.1", port}, 10 * kSecond);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  ASSERT_TRUE((*store)->Put("nccl tp of ranks 0 1", value).has_value());
  for (const char* name : {"came 1", "came 2"}) {
    ASSERT_TRUE((*store)->Get(name, nullptr).has_value()) << name;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(got[1], value);
  EXPECT_EQ(got[2], value);
}

TEST(TcpIdStore, GivesUpInTimeAndSaysWhereItAsked) {
  const int port = FreePort();
  auto nobody = MakeTcpIdStore({1, 2, 0, "127.0.0.1", port}, kSecond / 5);
  ASSERT_TRUE(nobody.has_value());
  auto value = (*nobody)->Get("an id", nullptr);
  ASSERT_FALSE(value.has_value());
  EXPECT_EQ(value.error().code, ErrorCode::kTimeout);
  EXPECT_THAT(value.error().message,
              AllOf(HasSubstr("rank 1 waited"), HasSubstr("127.0.0.1:" + std::to_string(port)),
                    HasSubstr("refused")));
  auto first = MakeTcpIdStore({0, 2, 0, "127.0.0.1", port}, kSecond / 5);
  ASSERT_TRUE(first.has_value()) << first.error().message;
  value = (*nobody)->Get("an id", nullptr);
  ASSERT_FALSE(value.has_value());
  EXPECT_THAT(value.error().message, HasSubstr("nobody has told of it"));
  // Two servers cannot listen at one port.
  EXPECT_FALSE(MakeTcpIdStore({0, 2, 0, "127.0.0.1", port}, kSecond / 5).has_value());
}

}  // namespace
}  // namespace foretrain
