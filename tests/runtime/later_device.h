// A device that works later, over one that works at once: each queue is a thread that does what it
// was given in order, after delays. For tests of what a GPU's queues and events do to the runtime.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/device_api.h"

namespace foretrain {

// What the device's entries share; static, so tests reset it.
struct LaterDevice {
  std::atomic<std::int64_t> calls{0};     // of any entry that can fail, but event_query
  std::atomic<std::int64_t> fail_at{-1};  // this call, counted from 0, fails; -1: none
  // Of event_query, which is called as often as there is time for; likewise.
  std::atomic<std::int64_t> queries{0}, query_fail_at{-1};
  std::atomic<std::int64_t> works{0};      // pieces of work begun
  std::atomic<std::int64_t> break_at{-1};  // this one fails, and with it the device; -1: none
  std::atomic<std::int64_t> kernels{0};    // of them kernels
  std::atomic<std::int64_t> hang_at{-1};   // this kernel does not end before `released`
  std::atomic<bool> hang_reads{false};     // copies of one number do not end before `released`
  std::atomic<bool> released{false};
  std::atomic<int> devices{1};  // that the table shows; all are of `inner`'s first
  // Copies that touched another device's memory, but those that read it behind an event of that
  // device, for which the queue has waited: these are `peer_reads`.
  std::atomic<std::int64_t> foreign{0}, peer_reads{0};
  std::atomic<std::uint64_t> delays{0};  // seed of sleeps up to 200 µs before works; 0: none
  std::atomic<bool> broken{false};
  // Of each kind, made and not yet given back.
  std::atomic<std::int64_t> allocations{0}, pinned{0}, queues{0}, events{0}, shares{0}, graphs{0};
  std::atomic<std::int64_t> shared_queues{0};  // made in shares so far
  // Times that a queue held back its work for an event of another one.
  std::atomic<std::int64_t> waits{0};

  // Of graph_begin, graph_end and graph_launch together: counted from 0, this call fails; -1: none.
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

// Its table over `inner`, which works at once and outlives it; for one `inner` at a time.
const FtDeviceApi& LaterDeviceApi(const FtDeviceApi& inner);

// Gives a queue, as FtDeviceApi::native_queue names it, work to do in its turn.
void GiveLater(void* queue, void (*work)(void*), void* argument);

}  // namespace foretrain
