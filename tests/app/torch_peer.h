// Trains in PyTorch (tests/torch/train.py), for tests that hold foretrain's training against it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace foretrain {

// A python that has torch: the one that FORETRAIN_TORCH_PYTHON names, else python3 of the path or
// /usr/bin. Empty where there is none.
std::string TorchPython();

// Why a test skips where TorchPython() is empty, and what to install.
inline constexpr const char* kNoTorch =
    "no python3 with torch: apt-get install python3-torch libopenblas0-pthread, or let "
    "FORETRAIN_TORCH_PYTHON name a python that has it; then tools/test -L torch runs this";

// Whether that python has the transformers library too, and what to install where not.
bool HasTransformers();
inline constexpr const char* kNoTransformers =
    "no python3 with torch and transformers: pip install torch transformers, and let "
    "FORETRAIN_TORCH_PYTHON name that python; then tools/test -L torch runs this";

// The JSON that tests/torch/library.py prints, run in `folder`. Fails the test where it fails.
nlohmann::json TrainInLibrary(const std::string& folder, const std::string& arguments);

// The JSON that tests/torch/traced.py prints, run in `folder`. Fails the test where it fails.
nlohmann::json ProfileInTorch(const std::string& folder, const std::string& arguments);

// The JSON that tests/torch/train.py prints, run in `folder`. Fails the test where it fails.
nlohmann::json TrainInTorch(const std::string& folder, const std::string& arguments);

}  // namespace foretrain
