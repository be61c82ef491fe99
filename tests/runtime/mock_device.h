// A synchronous device on host memory for tests of what lies above the device table: copies, sums,
// and a call that fails on demand.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/device_api.h"

namespace foretrain {

// What the mock's entries share; static, so tests reset it.
struct MockDevice {
  std::atomic<std::int64_t> calls{0};             // of any entry that can fail
  std::atomic<std::int64_t> fail_at{-1};          // this call, counted from 0, fails; -1: none
  std::atomic<std::int64_t> live_allocations{0};  // not yet released
  std::atomic<std::int64_t> capacity{1LL << 40};  // bytes that memory() calls free

  void Reset() {
    calls = 0;
    fail_at = -1;
    capacity = 1LL << 40;
  }
};
MockDevice& Mock();

// Copy, fill, sum over ranks and fp32 GEMM, add, squared norm; every other kernel is missing.
const FtDeviceApi& MockDeviceApi();

}  // namespace foretrain
