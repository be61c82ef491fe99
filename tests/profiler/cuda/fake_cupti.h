// A CUPTI without a GPU: it remembers calls, fills buffers with records provided by a test, and
// fails a call on demand.
#pragma once

#if FORETRAIN_HAVE_CUPTI
#include <cupti.h>

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "profiler/cuda/cuda_capture.h"

namespace foretrain {

struct FakeCupti {
  // Adds a record for the next flush, which copies it into a buffer.
  template <class Record>
  void Add(const Record& record) {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&record);
    records.emplace_back(bytes, bytes + sizeof record);
  }

  std::vector<std::vector<std::uint8_t>> records;
  std::size_t records_a_buffer = 1000;
  std::size_t dropped = 0;
  std::string failing;  // the name of the entry that fails, "ActivityEnable"
  CUptiResult failure = CUPTI_ERROR_UNKNOWN;
  bool loads = true;
  std::vector<std::pair<std::string, std::string>> environment;

  std::set<CUpti_ActivityKind> enabled;
  std::set<CUpti_CallbackId> runtime_calls, driver_calls;  // enabled ones
  std::vector<std::uint64_t> stack;
  std::vector<std::uint64_t> pushed;
  std::vector<std::uint32_t> flushes;  // their flags
  int timestamp_registrations = 0;
  int subscriptions = 0;
  int starts = 0, stops = 0;  // of profiler windows
  std::int64_t now_ns = 0;
  CUpti_CallbackFunc resource = nullptr;
};

// Static, because CUPTI's functions carry no argument of ours. Each test starts with a fresh one.
FakeCupti& TheFakeCupti();
void ResetFakeCupti();

// CUPTI, environment and CUDA runtime as the capture sees them.
CaptureSurroundings FakeSurroundings();

}  // namespace foretrain
#endif
