#include "runtime/processes/launched_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

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

// Then no other machine can reach the ranks.
TEST(LaunchedRank, MeetsAtLoopbackIfAllRanksAreOnOneMachine) {
  variables = {{"RANK", "0"},
               {"WORLD_SIZE", "2"},
               {"LOCAL_WORLD_SIZE", "2"},
               {"MASTER_ADDR", "host7"},
               {"MASTER_PORT", "29500"}};
  auto at = ReadLaunchedRank(&Get);
  ASSERT_TRUE(at.has_value()) << at.error().message;
  EXPECT_EQ(at->address, "127.0.0.1");
  variables["WORLD_SIZE"] = "4";
  at = ReadLaunchedRank(&Get);
  ASSERT_TRUE(at.has_value()) << at.error().message;
  EXPECT_EQ(at->address, "host7");
}

TEST(LaunchedRank, TakesTheTokenFromTheEnvironment) {
  variables = {
      {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "host7"}, {"MASTER_PORT", "29500"}};
  EXPECT_EQ(ReadLaunchedRank(&Get)->token, "");
  variables["FORETRAIN_JOB_TOKEN"] = "a secret of the job";
  EXPECT_EQ(ReadLaunchedRank(&Get)->token, "a secret of the job");
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

}  // namespace
}  // namespace foretrain
