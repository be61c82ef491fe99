// An asynchronous device on top of a synchronous one: each queue is a thread that runs its work in
// order, after delays. It tests the runtime with queues and events as on a GPU. The host cannot
// access the device's memory (later_memory.h).
#pragma once

#include <atomic>
#include <cstdint>

#include "base/device_api.h"

namespace foretrain {

// State shared by the device's entries; static, so tests reset it.
struct LaterDevice {
  std::atomic<std::int64_t> calls{0};     // calls of all entries that can fail, except event_query
  std::atomic<std::int64_t> fail_at{-1};  // this call, counted from 0, fails; -1: none
  // Calls of event_query, whose number depends on time; as above.
  std::atomic<std::int64_t> queries{0}, query_fail_at{-1};
  std::atomic<std::int64_t> works{0};      // work items begun
  std::atomic<std::int64_t> break_at{-1};  // this one fails and breaks the device; -1: none
  std::atomic<std::int64_t> kernels{0};    // kernels among them
  std::atomic<std::int64_t> hang_at{-1};   // this kernel does not end before `released`
  std::atomic<bool> hang_reads{false};     // copies of one number do not end before `released`
  std::atomic<bool> released{false};
  std::atomic<int> devices{1};  // number that the table shows; all use `inner`'s first
  // Copies that access another device's memory. peer_reads counts those that read it after an event
  // of that device for which the queue waited; foreign counts all others.
  std::atomic<std::int64_t> foreign{0}, peer_reads{0};
  std::atomic<std::uint64_t> delays{0};  // seed of sleeps up to 200 µs before work items; 0: none
  std::atomic<bool> broken{false};
  // Objects created and not yet destroyed, by kind.
  std::atomic<std::int64_t> allocations{0}, pinned{0}, queues{0}, events{0}, shares{0}, graphs{0};
  std::atomic<std::int64_t> shared_queues{0};  // created in shares so far
  // Number of times that a queue waited for another queue's event.
  std::atomic<std::int64_t> waits{0};

  // Calls of graph_begin, graph_end and graph_launch. fail_at: this call, from 0, fails; -1: none.
  std::atomic<std::int64_t> graph_calls{0}, graph_fail_at{-1};
  std::atomic<std::int64_t> graph_launches{0};

  std::int64_t Live() const { return allocations + pinned + queues + events + shares + graphs; }
  void Reset() {
    calls = queries = works = kernels = waits = shared_queues = graph_calls = graph_launches = 0;
    fail_at = query_fail_at = break_at = hang_at = graph_fail_at = -1;
    released = broken = hang_reads = false;
    delays = 0;
    devices = 1;
    foreign = peer_reads = 0;
  }
};
LaterDevice& Later();

// The table on top of `inner`, which is synchronous and outlives it; for one `inner` at a time.
const FtDeviceApi& LaterDeviceApi(const FtDeviceApi& inner);

// Gives work to a queue, identified as FtDeviceApi::native_queue does.
void GiveLater(void* queue, void (*work)(void*), void* argument);

}  // namespace foretrain
