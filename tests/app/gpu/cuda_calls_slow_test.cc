// Each function of the CUDA runtime that the plugin calls fails in turn.
#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <sstream>
#include <string>

#include "tests/app/gpu/fake_cuda.h"

namespace foretrain {
namespace {

enum class Ends {
  kWithSentence,  // exit code 3
  kWithoutGpu,    // exit code 2: the GPU cannot do what the options ask for
  kGoesOn,        // the run does without; what it should have released may be left
};

struct Call {
  const char* function;
  int number;  // the call that fails
  Ends ends = Ends::kWithSentence;
  const char* settings = "gpus=1";
  const char* options = "";
};
void PrintTo(const Call& call, std::ostream* out) { *out << call.function << " " << call.number; }

constexpr const char* kTwoGpus = "gpus=2";
constexpr const char* kFourRanks = "--dp 4";
constexpr const char* kGraphs = "--cuda-graphs on --capture off";
constexpr const char* kShares = "--dp 2 --sm-share 4";

class CudaCalls : public testing::TestWithParam<Call> {};

TEST_P(CudaCalls, AFailureIsOneSentenceAndLeavesNothing) {
  if (!HasFakeCuda()) GTEST_SKIP() << kWithoutFakeCuda;
  const Call& call = GetParam();
  const TemporaryFolder folder;
  const std::string failure =
      std::string(",fail=") + call.function + ":" + std::to_string(call.number);
  const CudaRun run = RunOnFakeCuda(
      folder, call.settings + failure,
      SmallCudaTraining(folder) + "--device cuda --offload-optimizer host " + call.options);
  const int code = call.ends == Ends::kWithSentence ? 3 : call.ends == Ends::kWithoutGpu ? 2 : 0;
  EXPECT_EQ(run.end.code, code) << run.end.errors;
  std::int64_t sentences = 0;
  std::istringstream lines(run.end.errors);
  for (std::string line; std::getline(lines, line);) {
    const bool is_note = line.find("recorded") != std::string::npos;
    sentences += line.rfind("foretrain: ", 0) == 0 && !is_note ? 1 : 0;
  }
  EXPECT_EQ(sentences, code == 0 ? 0 : 1) << run.end.errors;
  for (const auto& [word, value] : run.report) {
    const bool may_be_left = call.ends == Ends::kGoesOn && word != "complaints";
    EXPECT_LE(value, may_be_left ? 1 : 0) << word << "\n" << run.end.errors;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Functions, CudaCalls,
    testing::Values(
        Call{"cudaGetDeviceCount", 1, Ends::kWithoutGpu}, Call{"cudaSetDevice", 1},
        Call{"cudaSetDevice", 40}, Call{"cudaDeviceGetAttribute", 1}, Call{"cudaMemGetInfo", 1},
        Call{"cudaMalloc", 1}, Call{"cudaMalloc", 2}, Call{"cudaHostAlloc", 1},
        Call{"cudaFree", 1, Ends::kGoesOn}, Call{"cudaFreeHost", 1, Ends::kGoesOn},
        Call{"cudaStreamCreateWithFlags", 1}, Call{"cudaStreamCreateWithFlags", 3},
        Call{"cudaStreamDestroy", 1, Ends::kGoesOn}, Call{"cudaStreamSynchronize", 1},
        Call{"cudaStreamSynchronize", 5}, Call{"cudaStreamWaitEvent", 1},
        Call{"cudaStreamWaitEvent", 9}, Call{"cudaEventCreateWithFlags", 1},
        Call{"cudaEventCreateWithFlags", 20}, Call{"cudaEventDestroy", 1, Ends::kGoesOn},
        Call{"cudaEventRecord", 1}, Call{"cudaEventRecord", 30}, Call{"cudaEventQuery", 1},
        Call{"cudaEventElapsedTime", 1}, Call{"cudaMemcpyAsync", 1}, Call{"cudaMemcpyAsync", 12},
        Call{"cudaMemsetAsync", 1}, Call{"cudaFuncSetAttribute", 1}, Call{"cudaLaunchKernel", 1},
        Call{"cudaLaunchKernel", 50},
        Call{"cudaDeviceCanAccessPeer", 1, Ends::kWithSentence, kTwoGpus, kFourRanks},
        Call{"cudaDeviceEnablePeerAccess", 1, Ends::kWithSentence, kTwoGpus, kFourRanks},
        Call{"cudaStreamBeginCapture", 1, Ends::kGoesOn, "gpus=1", kGraphs},
        Call{"cudaStreamEndCapture", 1, Ends::kWithSentence, "gpus=1", kGraphs},
        Call{"cudaGraphInstantiate", 1, Ends::kGoesOn, "gpus=1", kGraphs},
        Call{"cudaGraphLaunch", 1, Ends::kWithSentence, "gpus=1", kGraphs},
        Call{"cudaGraphDestroy", 1, Ends::kGoesOn, "gpus=1", kGraphs},
        Call{"cudaGraphExecDestroy", 1, Ends::kGoesOn, "gpus=1", kGraphs},
        Call{"cudaGetDriverEntryPointByVersion", 1, Ends::kWithoutGpu, "gpus=1", kShares},
        Call{"cuDeviceGetDevResource", 1, Ends::kWithSentence, "gpus=1", kShares},
        Call{"cuDevSmResourceSplitByCount", 1, Ends::kWithSentence, "gpus=1", kShares},
        Call{"cuDevResourceGenerateDesc", 2, Ends::kWithSentence, "gpus=1", kShares},
        Call{"cuGreenCtxCreate", 2, Ends::kWithSentence, "gpus=1", kShares},
        Call{"cuGreenCtxStreamCreate", 2, Ends::kWithSentence, "gpus=1", kShares},
        Call{"cuGreenCtxDestroy", 1, Ends::kGoesOn, "gpus=1", kShares},
        Call{"cudaProfilerStart", 1, Ends::kGoesOn},
        Call{"cudaRuntimeGetVersion", 1, Ends::kGoesOn}),
    [](const auto& test) {
      return std::string(test.param.function) + std::to_string(test.param.number);
    });

}  // namespace
}  // namespace foretrain
