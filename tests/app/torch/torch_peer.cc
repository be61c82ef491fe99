#include "tests/app/torch/torch_peer.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/app/run_binary.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

// Finds the module without importing it, which takes seconds.
bool HasModule(const std::string& python, const std::string& module) {
  const std::string command = "'" + python +
                              "' -c 'import importlib.util as u, sys; sys.exit(u.find_spec(\"" +
                              module + "\") is None)' >/dev/null 2>&1";
  return std::system(command.c_str()) == 0;
}
bool HasTorch(const std::string& python) { return HasModule(python, "torch"); }

nlohmann::json Train(const char* script, const std::string& folder, const std::string& arguments) {
  const ProgramEnd end =
      RunCommand(folder, "'" + TorchPython() + "' '" + SourcePath(script) + "' " + arguments);
  EXPECT_EQ(end.code, 0) << end.errors;
  return nlohmann::json::parse(end.output, nullptr, false);
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
  return Train("tests/torch/train.py", folder, arguments);
}

nlohmann::json ProfileInTorch(const std::string& folder, const std::string& arguments) {
  return Train("tests/torch/traced.py", folder, arguments);
}

nlohmann::json SnapshotInTorch(const std::string& folder, const std::string& arguments) {
  return Train("tests/torch/snapshot.py", folder, arguments);
}

nlohmann::json PairedInTorch(const std::string& folder, const std::string& arguments) {
  return Train("tests/torch/paired.py", folder, arguments);
}

nlohmann::json ScheduleInTorch(const std::string& folder, const std::string& arguments) {
  return Train("tests/torch/schedules.py", folder, arguments);
}

bool HasTransformers() {
  const std::string python = TorchPython();
  return !python.empty() && HasModule(python, "transformers");
}

bool HasPeft() { return HasTransformers() && HasModule(TorchPython(), "peft"); }

bool HasMegatron() {
  const std::string python = TorchPython();
  return !python.empty() && HasModule(python, "megatron.core") && HasModule(python, "psutil");
}

nlohmann::json CheckpointsInMegatron(const std::string& folder, const std::string& arguments) {
  return Train("tests/torch/megatron_peer.py", folder, arguments);
}

nlohmann::json WeightsInLibrary(const std::string& folder, const std::string& arguments) {
  return Train("tests/torch/weights.py", folder, arguments);
}

bool HasTensorBoard() {
  const std::string python = TorchPython();
  return !python.empty() && HasModule(python, "tensorboard");
}

nlohmann::json EventsByTensorBoard(const std::string& folder) {
  return Train("tests/torch/events.py", folder, ".");
}

nlohmann::json TrainInLibrary(const std::string& folder, const std::string& arguments) {
  return Train("tests/torch/library.py", folder, arguments);
}

}  // namespace foretrain
