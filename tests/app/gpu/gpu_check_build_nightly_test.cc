// tools/gpu-check on an existing build, without a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/app/run_binary.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

TEST(GpuCheckOnABuild, DoesWithoutAGpuWhatCanBeDone) {
  const char* const build = std::getenv("FORETRAIN_GPU_CHECK_BUILD");
  if (build == nullptr) {
    GTEST_SKIP() << "needs a build of foretrain and the target gpu_tests: set "
                    "FORETRAIN_GPU_CHECK_BUILD to its folder, such as build/release";
  }
  const TemporaryFolder folder;
  const std::string at = std::filesystem::path(SourcePath("")) / build;
  const ProgramEnd end = RunCommand(
      folder.path(), "'" + SourcePath("tools/gpu-check") + "' --allow-no-gpu --build '" + at +
                         "' --out out --parts devices,tests,memcheck,steps,calibrate,bench");
  const auto state = nlohmann::json::parse(folder.Read("out/gpu-check.json"));
  if (!state.at("machine").at("gpus").empty()) {
    GTEST_SKIP()
        << "this machine has a GPU: run tools/gpu-check itself, or this where there is none";
  }
  EXPECT_EQ(end.code, 0) << end.output << end.errors;
  const nlohmann::json& parts = state.at("parts");
  for (const char* part : {"devices", "tests", "steps", "calibrate", "bench"}) {
    EXPECT_EQ(parts.at(part).at("status"), "needs a GPU") << part;
  }
  EXPECT_EQ(parts.at("steps").at("results").at("losses").at("cpu").size(), 3);
  EXPECT_GT(parts.at("bench")
                .at("results")
                .at("rows")
                .at(0)
                .at("ours")
                .at(0)
                .at("measured")
                .at("step_time_s")
                .get<double>(),
            0);
}

}  // namespace
}  // namespace foretrain
