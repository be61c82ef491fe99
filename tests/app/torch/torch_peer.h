// Trains in PyTorch (tests/torch/train.py), for tests that compare foretrain's training with it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace foretrain {

// A Python with torch: the one that FORETRAIN_TORCH_PYTHON names, otherwise python3 in the path or
// in /usr/bin. Empty if there is none.
std::string TorchPython();

// Skip reason if TorchPython() is empty, with what to install.
inline constexpr const char* kNoTorch =
    "no python3 with torch: apt-get install python3-torch libopenblas0-pthread, or let "
    "FORETRAIN_TORCH_PYTHON name a python that has it; then tools/test -L torch runs this";

// Whether that Python has the transformers library, and what to install if not.
bool HasTransformers();
inline constexpr const char* kNoTransformers =
    "no python3 with torch and transformers: pip install torch transformers, and let "
    "FORETRAIN_TORCH_PYTHON name that python; then tools/test -L torch runs this";

// The same with the PEFT library.
bool HasPeft();
inline constexpr const char* kNoPeft =
    "no python3 with torch, transformers and peft: pip install torch transformers peft, and let "
    "FORETRAIN_TORCH_PYTHON name that python; then tools/test -L torch runs this";

// The same with Megatron-core.
bool HasMegatron();
inline constexpr const char* kNoMegatron =
    "no python3 with torch, megatron-core and psutil: pip install torch megatron-core psutil, and "
    "let FORETRAIN_TORCH_PYTHON name that python; then tools/test -L torch runs this";

// The JSON printed by tests/torch/megatron_peer.py, run in `folder`. Fails the test if the script
// fails.
nlohmann::json CheckpointsInMegatron(const std::string& folder, const std::string& arguments);

// Whether that Python has TensorBoard, and what to install if not.
bool HasTensorBoard();
inline constexpr const char* kNoTensorBoard =
    "no python3 with torch and tensorboard: pip install torch tensorboard, and let "
    "FORETRAIN_TORCH_PYTHON name that python; then tools/test -L torch runs this";

// The JSON printed by tests/torch/events.py, which reads TensorBoard's events of a folder with
// TensorBoard. Fails the test if the script fails.
nlohmann::json EventsByTensorBoard(const std::string& folder);

// The JSON printed by tests/torch/library.py, run in `folder`. Fails the test if the script fails.
nlohmann::json TrainInLibrary(const std::string& folder, const std::string& arguments);

// The JSON printed by tests/torch/weights.py, run in `folder`. Fails the test if the script fails.
nlohmann::json WeightsInLibrary(const std::string& folder, const std::string& arguments);

// The JSON printed by tests/torch/traced.py, run in `folder`. Fails the test if the script fails.
nlohmann::json ProfileInTorch(const std::string& folder, const std::string& arguments);

// The JSON printed by tests/torch/snapshot.py, run in `folder`. Fails the test if the script fails.
nlohmann::json SnapshotInTorch(const std::string& folder, const std::string& arguments);

// The JSON printed by tests/torch/paired.py, run in `folder`. Fails the test if the script fails.
nlohmann::json PairedInTorch(const std::string& folder, const std::string& arguments);

// The JSON printed by tests/torch/schedules.py, run in `folder`. Fails the test if the script
// fails.
nlohmann::json ScheduleInTorch(const std::string& folder, const std::string& arguments);

// The JSON printed by tests/torch/train.py, run in `folder`. Fails the test if the script fails.
nlohmann::json TrainInTorch(const std::string& folder, const std::string& arguments);

}  // namespace foretrain
