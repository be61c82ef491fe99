// The program with the plugin, over the tests' CUDA libraries: kernels are the plugin's own PTX,
// and streams, events, graphs, pinned memory, shares, peers, cuBLASLt, cuDNN and NCCL are the
// tests'.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/app/commands/small_run.h"
#include "tests/app/gpu/fake_cuda.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

class CudaProgram : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasFakeCuda()) GTEST_SKIP() << kWithoutFakeCuda;
    train_ = SmallCudaTraining(folder_);
  }

  // Losses of a training that must succeed and leave nothing on the device.
  std::vector<double> Losses(const std::string& settings, const std::string& options) {
    const CudaRun run = RunOnFakeCuda(folder_, settings, train_ + "--json " + options);
    EXPECT_EQ(run.end.code, 0) << run.end.errors;
    if (run.end.code != 0) return {};
    for (const auto& [word, value] : run.report) {
      if (value > 0) ADD_FAILURE() << word << " " << value << "\n" << run.end.errors;
    }
    output_ = run.end.output;
    std::vector<double> losses;
    std::istringstream lines(output_);
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line, nullptr, false);
      if (json.is_object() && json.contains("step")) losses.push_back(json["loss"]);
    }
    return losses;
  }
  void ExpectLosses(const std::vector<double>& actual, const std::vector<double>& expected,
                    double tolerance) {
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_NEAR(actual[i], expected[i], tolerance * expected[i]) << "step " << i;
    }
  }

  TemporaryFolder folder_;
  std::string train_, output_;
};

// The logits alone of 64 sequences of 1,024 tokens are 64 * 1024 * 50257 * 4 B = 12.3 GiB.
TEST_F(CudaProgram, RunsNoRowOfTheBenchmarkThatDoesNotFit) {
  const CudaRun run =
      RunOnFakeCuda(folder_, "gpus=1,capability=89,memory=8192",
                    "bench --device cuda --only gpt2-124m-b64-fp32 --json --store bench.db");
  EXPECT_EQ(run.end.code, 1) << run.end.errors;
  const auto row = nlohmann::json::parse(run.end.output)["rows"][0];
  EXPECT_THAT(row["does_not_fit"].get<std::string>(),
              testing::AllOf(HasSubstr("1 ranks on one device need "),
                             HasSubstr("free are 8.00 GiB of 8.00 GiB")));
  EXPECT_TRUE(row.contains("predicted"));
  EXPECT_FALSE(row.contains("measured") || row.contains("failed"));
}

TEST_F(CudaProgram, ListsItsGpus) {
  const CudaRun run = RunOnFakeCuda(folder_, "gpus=2,memory=4096", "devices");
  EXPECT_EQ(run.end.code, 0) << run.end.errors;
  EXPECT_THAT(run.end.output, HasSubstr("device 1, NVIDIA H200"));
  EXPECT_THAT(run.end.output, HasSubstr("4.00 GiB free of 4.00 GiB"));
}

TEST_F(CudaProgram, RanksOnGpusOfTheirOwnTrainOverNccl) {
  const std::vector<double> cpu = Losses("gpus=0", "");
  ASSERT_EQ(cpu.size(), 3U);
  EXPECT_LT(cpu[2], cpu[0]);
  for (const char* plan : {"--dp 2", "--tp 2", "--pp 2", "--dp 2 --zero 3"}) {
    SCOPED_TRACE(plan);
    ExpectLosses(Losses("gpus=2,late=3", std::string("--device cuda ") + plan), cpu, 1e-6);
  }
}

TEST_F(CudaProgram, RanksShareGpusThatReadEachOther) {
  const std::vector<double> one = Losses("gpus=1", "--device cuda --dp 2");
  ASSERT_EQ(one.size(), 3U);
  EXPECT_EQ(Losses("gpus=1,order=reverse", "--device cuda --dp 2"), one);
  EXPECT_EQ(Losses("gpus=1,late=5", "--device cuda --dp 2 --sm-share 4"), one);
  EXPECT_EQ(Losses("gpus=2,late=5", "--device cuda:1 --dp 2"), one);
  ExpectLosses(Losses("gpus=2", "--device cuda --dp 4"), one, 1e-6);
}

TEST_F(CudaProgram, GraphsChangeNoBit) {
  for (const char* plan : {"", "--tp 2 --precision bf16"}) {
    SCOPED_TRACE(plan);
    const std::string options = std::string("--device cuda --capture off ") + plan;
    const std::vector<double> without = Losses("gpus=1,late=1", options);
    ASSERT_EQ(without.size(), 3U);
    EXPECT_EQ(Losses("gpus=1,late=2", options + " --cuda-graphs on"), without);
    EXPECT_THAT(output_, HasSubstr("graph"));
  }
}

TEST_F(CudaProgram, OffloadsThroughPinnedMemory) {
  const std::vector<double> cpu = Losses("gpus=0", "");
  for (const char* plan : {"--offload-optimizer host", "--offload-activations host"}) {
    SCOPED_TRACE(plan);
    ExpectLosses(Losses("gpus=1,late=4", std::string("--device cuda ") + plan), cpu, 1e-6);
  }
}

TEST_F(CudaProgram, SaysWhatDoesNotFitTheGpu) {
  const CudaRun run = RunOnFakeCuda(folder_, "memory=64", train_ + "--device cuda");
  EXPECT_EQ(run.end.code, 3);
  EXPECT_THAT(run.end.errors, HasSubstr("out of device memory: asked 0.06 GiB"));
}

}  // namespace
}  // namespace foretrain
