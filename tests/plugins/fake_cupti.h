// Controls of the tests' libcupti, tests/plugins/fake_cupti.cc: what it was told, and what it
// answers.
#pragma once

#include <cupti.h>

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace foretrain {

struct FakeCupti {
  // Adds a record for the next flush, which copies it into a buffer.
  template <class Record>
  void Add(const Record& record) {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&record);
    records.emplace_back(bytes, bytes + sizeof record);
  }
  bool Enables(CUpti_ActivityKind kind) const { return enabled.count(kind) > 0; }

  std::vector<std::vector<std::uint8_t>> records;
  std::size_t records_a_buffer = 1000;  // at most
  std::size_t dropped = 0;
  std::string failing;  // the function that fails, without "cupti": "ActivityEnable"
  CUptiResult failure = CUPTI_ERROR_UNKNOWN;
  std::uint32_t version = CUPTI_API_VERSION;

  // PM sampling.
  struct Busy {
    std::size_t device = 0;
    std::uint64_t start_ns = 0, end_ns = 0;
  };
  std::string chip = "GH100";
  std::size_t counters_a_pass = 100;
  bool realtime_samples = true;       // samples have times of CLOCK_REALTIME, else of MONOTONIC
  std::uint64_t sample_shift_ns = 0;  // added to their starts
  bool overflow = false;              // of the hardware's buffer
  std::vector<Busy> busy;  // kernels that the tests' CUDA runtime ran, by CLOCK_MONOTONIC

  std::set<CUpti_ActivityKind> enabled;
  std::set<CUpti_CallbackId> runtime_calls, driver_calls;  // recorded ones
  std::vector<std::uint64_t> pushed;                       // by all threads
  std::vector<std::uint32_t> flushes;                      // their flags
  int timestamp_registrations = 0;
  int subscriptions = 0;
  CUpti_CallbackFunc callback = nullptr;
  std::set<std::pair<CUpti_CallbackDomain, CUpti_CallbackId>> callbacks;  // enabled ones
};

// Within the library: its controls, the lock around them, and the answer of a call, which may fail
// on demand.
using FakeLock = std::lock_guard<std::recursive_mutex>;
FakeCupti& TheFake();
std::recursive_mutex& TheFakeMutex();
CUptiResult Told(const char* entry);

}  // namespace foretrain
