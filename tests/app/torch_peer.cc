#include "tests/app/torch_peer.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/app/run_binary.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

// Finds the module without the seconds that importing it takes.
bool HasTorch(const std::string& python) {
  const std::string command =
      "'" + python +
      "' -c 'import importlib.util as u, sys; sys.exit(u.find_spec(\"torch\") is None)' "
      ">/dev/null 2>&1";
  return std::system(command.c_str()) == 0;
}

}  // namespace

std::string TorchPython() {
  if (const char* named = std::getenv("FORETRAIN_TORCH_PYTHON"); named != nullptr) {
    return HasTorch(named) ? named : "";
  }
  for (const char* python : {"python3", "/usr/bin/python3"}) {
    if (HasTorch(python)) return python;
  }
  return "";
}

nlohmann::json TrainInTorch(const std::string& folder, const std::string& arguments) {
  const ProgramEnd end = RunCommand(
      folder, "'" + TorchPython() + "' '" + SourcePath("tests/torch/train.py") + "' " + arguments);
  EXPECT_EQ(end.code, 0) << end.errors;
  return nlohmann::json::parse(end.output, nullptr, false);
}

}  // namespace foretrain
