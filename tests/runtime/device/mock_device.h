// A synchronous device in host memory, for tests of the code above the device table: copies, sums,
// and a call that fails on demand.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/device_api.h"

namespace foretrain {

// State shared by the mock's entries; static, so tests reset it.
struct MockDevice {
  std::atomic<std::int64_t> calls{0};             // calls of all entries that can fail
  std::atomic<std::int64_t> fail_at{-1};          // this call, counted from 0, fails; -1: none
  std::atomic<std::int64_t> live_allocations{0};  // not yet released
  std::atomic<std::int64_t> capacity{1LL << 40};  // free bytes that memory() reports

  void Reset() {
    calls = 0;
    fail_at = -1;
    capacity = 1LL << 40;
  }
};
MockDevice& Mock();

// Supports copy, fill, sum over ranks, and fp32 GEMM, add and squared norm; no other kernel.
const FtDeviceApi& MockDeviceApi();

}  // namespace foretrain
