// A device table with a recording of its own, made of another: what is launched between push and
// pop is one kernel, on a clock 5 s ahead of the host's. Its n-th capture call fails on demand.
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
  std::atomic<std::int64_t> calls{0};     // of the capture entries that can fail
  std::atomic<std::int64_t> fail_at{-1};  // this call, counted from 0, and all after it fail
  std::atomic<bool> unsupported{false};   // as under another tool
  std::atomic<bool> wants_names{false};
  std::atomic<int> starts{0}, stops{0};
  std::mutex mutex;
  std::vector<FtActivity> records;  // guarded by mutex, as all below
  std::vector<std::string> names;   // of tags
  std::int64_t dropped = 0;         // to be told by the next drain
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

inline CaptureDevice& TheCaptureDevice() {
  static CaptureDevice device;
  return device;
}

namespace capture_device {

constexpr std::int64_t kAhead = 5'000'000'000;

inline std::int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
             .count() +
         kAhead;
}
inline bool Fails() {
  CaptureDevice& device = TheCaptureDevice();
  const std::int64_t fail_at = device.fail_at.load();
  return device.calls.fetch_add(1) >= fail_at && fail_at >= 0;
}
inline FtStatus Say(char* why, std::size_t n) {
  std::snprintf(why, n, "the mock was told to fail");
  return FT_FAILED;
}

struct Begun {
  FtOpTag tag{};
  std::int64_t start_ns = 0;
};
inline thread_local Begun begun;

inline FtStatus Open(std::int32_t, char* why, std::size_t n) {
  if (Fails()) return Say(why, n);
  if (!TheCaptureDevice().unsupported) return FT_OK;
  std::snprintf(why, n, "another tool records it");
  return FT_UNSUPPORTED;
}
inline FtStatus Start(char* why, std::size_t n) {
  if (Fails()) return Say(why, n);
  ++TheCaptureDevice().starts;
  return FT_OK;
}
inline FtStatus Stop(char* why, std::size_t n) {
  if (Fails()) return Say(why, n);
  ++TheCaptureDevice().stops;
  return FT_OK;
}
inline FtStatus Clock(std::int64_t* now_ns, char* why, std::size_t n) {
  if (Fails()) return Say(why, n);
  *now_ns = Now();
  return FT_OK;
}
inline std::int32_t WantsNames() { return TheCaptureDevice().wants_names ? 1 : 0; }
inline FtStatus Push(const FtOpTag* tag) {
  if (Fails()) return FT_FAILED;
  begun = {*tag, Now()};
  if (tag->name == nullptr) return FT_OK;
  CaptureDevice& device = TheCaptureDevice();
  const std::lock_guard<std::mutex> lock(device.mutex);
  device.names.emplace_back(tag->name);
  return FT_OK;
}
inline FtStatus Pop() {
  if (Fails()) return FT_FAILED;
  CaptureDevice& device = TheCaptureDevice();
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
inline FtStatus Drain(std::int32_t, FtActivity* out, std::int64_t capacity, std::int64_t* count,
                      std::int64_t* dropped, char* why, std::size_t n) {
  *count = *dropped = 0;
  if (Fails()) return Say(why, n);
  CaptureDevice& device = TheCaptureDevice();
  const std::lock_guard<std::mutex> lock(device.mutex);
  while (*count < capacity && !device.records.empty()) {
    out[(*count)++] = device.records.back();
    device.records.pop_back();
  }
  *dropped = device.dropped;
  device.dropped = 0;
  return FT_OK;
}

}  // namespace capture_device

// The table of `base` with the recording of TheCaptureDevice().
inline FtDeviceApi WithCapture(const FtDeviceApi& base) {
  FtDeviceApi api = base;
  api.name = "recording mock";
  api.capture_open = &capture_device::Open;
  api.capture_start = &capture_device::Start;
  api.capture_stop = &capture_device::Stop;
  api.capture_clock = &capture_device::Clock;
  api.capture_wants_names = &capture_device::WantsNames;
  api.capture_push = &capture_device::Push;
  api.capture_pop = &capture_device::Pop;
  api.capture_drain = &capture_device::Drain;
  return api;
}

}  // namespace foretrain
