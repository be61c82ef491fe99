// A device table with a recording of its own, derived from another table: the work launched between
// push and pop is one kernel, on a clock 5 s ahead of the host's. Its n-th capture call fails on
// demand.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include "base/device_api.h"

namespace foretrain {

struct CaptureDevice {
  std::atomic<std::int64_t> calls{0};     // calls of capture entries that can fail
  std::atomic<std::int64_t> fail_at{-1};  // this call, counted from 0, and all after it fail
  std::atomic<bool> unsupported{false};   // as if another tool held the interface
  std::atomic<bool> wants_names{false};
  std::atomic<int> starts{0}, stops{0};
  std::mutex mutex;
  std::vector<FtActivity> records;  // guarded by mutex, as is everything below
  std::vector<std::string> names;   // of tags
  std::int64_t dropped = 0;         // reported by the next drain
  std::uint64_t correlation = 0;

  void Reset() {
    calls = 0;
    fail_at = -1;
    unsupported = wants_names = false;
    starts = stops = 0;
    records.clear();
    names.clear();
    dropped = 0;
  }
};

// Each `kNumber` is a separate device, whose clock is as many seconds further ahead.
template <int kNumber = 0>
CaptureDevice& TheCaptureDevice() {
  static CaptureDevice device;
  return device;
}

namespace capture_device {

constexpr std::int64_t kAhead = 5'000'000'000;

template <int kNumber>
struct Entries {
  struct Begun {
    FtOpTag tag{};
    std::int64_t start_ns = 0;
  };
  static inline thread_local Begun begun;

  static CaptureDevice& Here() { return TheCaptureDevice<kNumber>(); }
  static std::int64_t Now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
               .count() +
           kAhead + kNumber * std::int64_t{1'000'000'000};
  }
  static bool Fails() {
    const std::int64_t fail_at = Here().fail_at.load();
    return Here().calls.fetch_add(1) >= fail_at && fail_at >= 0;
  }
  static FtStatus Say(char* why, std::size_t n) {
    std::snprintf(why, n, "the mock was told to fail");
    return FT_FAILED;
  }

  static FtStatus Open(std::int32_t, char* why, std::size_t n) {
    if (Fails()) return Say(why, n);
    if (!Here().unsupported) return FT_OK;
    std::snprintf(why, n, "another tool records it");
    return FT_UNSUPPORTED;
  }
  static FtStatus Start(char* why, std::size_t n) {
    if (Fails()) return Say(why, n);
    ++Here().starts;
    return FT_OK;
  }
  static FtStatus Stop(char* why, std::size_t n) {
    if (Fails()) return Say(why, n);
    ++Here().stops;
    return FT_OK;
  }
  static FtStatus Clock(std::int64_t* now_ns, char* why, std::size_t n) {
    if (Fails()) return Say(why, n);
    *now_ns = Now();
    return FT_OK;
  }
  static std::int32_t WantsNames() { return Here().wants_names ? 1 : 0; }
  static FtStatus Push(const FtOpTag* tag) {
    if (Fails()) return FT_FAILED;
    begun = {*tag, Now()};
    if (tag->name == nullptr) return FT_OK;
    const std::lock_guard<std::mutex> lock(Here().mutex);
    Here().names.emplace_back(tag->name);
    return FT_OK;
  }
  static FtStatus Pop() {
    if (Fails()) return FT_FAILED;
    CaptureDevice& device = Here();
    const std::lock_guard<std::mutex> lock(device.mutex);
    FtActivity activity{};
    activity.correlation = ++device.correlation;
    activity.kind = FT_ACTIVITY_TAG;
    activity.op_id = begun.tag.op_id;
    activity.step = begun.tag.step;
    activity.rank = begun.tag.rank;
    device.records.push_back(activity);
    activity.op_id = -1;
    activity.start_ns = begun.start_ns;
    activity.end_ns = Now();
    activity.name = "mock_kernel";
    for (const FtActivityKind kind : {FT_ACTIVITY_LAUNCH, FT_ACTIVITY_KERNEL}) {
      activity.kind = kind;
      device.records.push_back(activity);
    }
    return FT_OK;
  }
  static FtStatus Drain(std::int32_t, FtActivity* out, std::int64_t capacity, std::int64_t* count,
                        std::int64_t* dropped, char* why, std::size_t n) {
    *count = *dropped = 0;
    if (Fails()) return Say(why, n);
    CaptureDevice& device = Here();
    const std::lock_guard<std::mutex> lock(device.mutex);
    while (*count < capacity && !device.records.empty()) {
      out[(*count)++] = device.records.back();
      device.records.pop_back();
    }
    *dropped = device.dropped;
    device.dropped = 0;
    return FT_OK;
  }
};

}  // namespace capture_device

// The table of `base` with the recording of TheCaptureDevice<kNumber>().
template <int kNumber = 0>
FtDeviceApi WithCapture(const FtDeviceApi& base) {
  using Here = capture_device::Entries<kNumber>;
  FtDeviceApi api = base;
  api.name = "recording mock";
  api.capture_open = &Here::Open;
  api.capture_start = &Here::Start;
  api.capture_stop = &Here::Stop;
  api.capture_clock = &Here::Clock;
  api.capture_wants_names = &Here::WantsNames;
  api.capture_push = &Here::Push;
  api.capture_pop = &Here::Pop;
  api.capture_drain = &Here::Drain;
  return api;
}

}  // namespace foretrain
