// Base of tests that need UCX's library.
#pragma once

#include <gtest/gtest.h>

#include "runtime/ucx/ucx.h"

namespace foretrain {

// Loads UCX before any thread of the test reads the environment. Skips the test if it is missing.
struct NeedsUcx : testing::Test {
  void SetUp() override {
    auto opened = OpenUcx();
    if (!opened.has_value()) {
      GTEST_SKIP() << opened.error().message << "; Debian: apt-get install libucx-dev";
    }
    ucx = *std::move(opened);
  }
  std::shared_ptr<const Ucx> ucx;
};

}  // namespace foretrain
