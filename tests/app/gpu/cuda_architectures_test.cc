// The machine code that a build of the plugin holds where no architecture was chosen.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/app/run_binary.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

// Architectures that cmake/cuda_architectures.cmake chooses if nvidia-smi prints `capabilities` and
// nvcc knows `codes`.
std::string Chosen(const std::string& capabilities, const std::string& codes) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() + "/bin");
  const auto program = [&](const std::string& name, const std::string& text) {
    const std::string path = folder.Write("bin/" + name, "#!/bin/sh\n" + text);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  };
  program("nvidia-smi",
          capabilities.empty() ? "exit 9\n" : "printf '%s\\n' " + capabilities + "\n");
  const std::string nvcc = program("nvcc", "printf '%s\\n' " + codes + "\n");
  folder.Write("chosen.cmake", "cmake_minimum_required(VERSION 3.25)\ninclude(" +
                                   SourcePath("cmake/cuda_architectures.cmake") +
                                   ")\nft_cuda_architectures(" + nvcc +
                                   " \"80-real;90-virtual\" chosen)\nmessage(\"${chosen}\")\n");
  return RunCommand(folder.path(), "PATH=\"$PWD/bin:$PATH\" cmake -P chosen.cmake").errors;
}

TEST(CudaArchitectures, AreThoseOfTheMachinesGpusIfNvccKnowsThem) {
  const std::string codes = "sm_75 sm_80 sm_90 sm_100 sm_120";
  EXPECT_EQ(Chosen("10.0", codes), "100-real\n");
  EXPECT_EQ(Chosen("9.0 12.0 9.0", codes), "90-real;120-real\n");
  EXPECT_EQ(Chosen("12.0 6.1", codes), "120-real\n");
  EXPECT_EQ(Chosen("10.3", codes), "80-real;90-virtual\n");  // from PTX
  EXPECT_EQ(Chosen("7.0", codes + " sm_70"), "80-real;90-virtual\n");
  EXPECT_EQ(Chosen("", codes), "80-real;90-virtual\n");  // there is no GPU
}

}  // namespace
}  // namespace foretrain
