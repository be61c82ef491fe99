#include "tests/app/gpu/fake_cuda.h"

#include <sstream>

namespace foretrain {
namespace {

constexpr const char* kLibraries = FORETRAIN_FAKE_CUDA;
constexpr const char* kReport = "cuda-report.txt";

}  // namespace

bool HasFakeCuda() { return kLibraries[0] != '\0'; }

bool HasFakeCupti() { return FORETRAIN_HAVE_CUPTI != 0; }

std::string FakeCudaLibrary(const std::string& name) {
  return std::string(kLibraries) + "/" + name;
}

CudaRun RunOnFakeCuda(const TemporaryFolder& folder, const std::string& settings,
                      const std::string& arguments, const std::string& environment) {
  folder.Write(kReport, "");
  CudaRun run;
  run.end =
      RunCommand(folder.path(), std::string("LD_LIBRARY_PATH=") + kLibraries +
                                    " FORETRAIN_FAKE_CUDA=" + settings + ",report=" + kReport +
                                    " " + environment + " \"$FORETRAIN\" " + arguments);
  std::istringstream report(folder.Read(kReport));
  std::string word;
  std::int64_t value = 0;
  while (report >> word >> value) run.report[word] = value;
  return run;
}

std::string SmallCudaTraining(const TemporaryFolder& folder) {
  folder.Write("model.json", R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 2,
    "n_positions": 64, "vocab_size": 256})");
  std::string text;
  for (int i = 0; i < 400; ++i) text += "what is written once is read " + std::to_string(i * i);
  folder.Write("text.txt", text);
  return "train --model model.json --data text.txt --steps 3 --sequence 32 --global-batch 4 "
         "--micro-batch 1 ";
}

}  // namespace foretrain
