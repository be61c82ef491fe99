// The tests' libcupti, loaded by the code under test, and the surroundings of its capture.
#pragma once

#if FORETRAIN_HAVE_CUPTI
#include <string>
#include <utility>
#include <vector>

#include "profiler/cuda/cuda_capture.h"
#include "tests/plugins/fake_cupti.h"

namespace foretrain {

struct FakeSurroundings {
  std::string library = {};  // that is loaded; empty: the tests' libcupti
  std::vector<std::pair<std::string, std::string>> environment = {};
};

// Static, because the functions carry no argument of ours. Each test starts with fresh ones.
FakeCupti& TheFakeCupti();
FakeSurroundings& Surroundings();
void ResetFakeCupti();

// CUPTI and environment as the capture sees them.
CaptureSurroundings MakeSurroundings();

}  // namespace foretrain
#endif
