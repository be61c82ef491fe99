// Base of tests whose ranks are processes.
#pragma once

#include <gtest/gtest.h>

#include "runtime/ucx/ucx_library.h"

namespace foretrain {

// Loads UCX before any thread of the test reads the environment. Skips the test if it is missing.
struct NeedsUcx : testing::Test {
  void SetUp() override {
    if (const auto ucx = LoadUcx(); !ucx.has_value()) {
      GTEST_SKIP() << ucx.error().message << "; Debian: apt-get install libucx0";
    }
  }
};

}  // namespace foretrain
