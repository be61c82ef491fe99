// Writes runs as a Chrome JSON trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open. A
// forecast and its measurement go to one file, one above the other. traces/import reads traces.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/io/file_system.h"
#include "base/result.h"
#include "traces/export/trace_flows.h"
#include "traces/kernels/kernel_table.h"
#include "traces/run.h"
#include "traces/timeline.h"

namespace foretrain {

// Receives the next bytes of a text that is written in pieces.
using TextSink = std::function<Result<void>(std::string_view)>;

// How a run appears in a trace. Texts are copied; all pointers and spans are borrowed.
struct ChromeRun {
  std::string title{};  // "predicted 3 (8b-dp4)"
  // decoder layers; if known, blocks are named embedding, layers and head
  std::optional<int> layers{};
  const KernelTable* kernels = nullptr;  // null: none
  // Added to all times, so that steps of two runs begin together. own_trace.h takes it away again.
  std::int64_t shift_ns = 0;
  FlowOptions flows{};
  std::span<const Counter> counters{};  // series of the run: loss, power
};

// Writes one JSON object: Begin, then any number of AddRun, then End. It needs 64 KiB of text
// besides the timeline. Times are microseconds with three decimals, so nothing is rounded.
//
//   process   one for each run and rank, "TITLE rank R", in the order of AddRun
//   thread    one for each queue, in the order of Queue, and one for the step windows. Spans of a
//             queue that overlap, as those of several streams, go to further ones, "compute 2", so
//             that the slices of a thread nest
//   X events  spans, named after their op; category = op class; args: id (as text: it exceeds the
//             exact range of JavaScript numbers), description, step, bytes, wait_us; on device
//             queues kernels: an array with the name and launch of each of the op's kernels
//   C events  "device memory" and so on: bytes by category, one event for each moment of change;
//             the run's counters by name
//   s, f      flows: "counterpart" from an op of the paired step to that of the other run,
//   "transfer"
//             from a send to its receive. A flow begins in the span that starts first
//   M events  besides titles "shift" with the nanoseconds that were added to the process' times
class ChromeTraceWriter {
 public:
  explicit ChromeTraceWriter(TextSink sink);
  ~ChromeTraceWriter();
  ChromeTraceWriter(const ChromeTraceWriter&) = delete;
  ChromeTraceWriter& operator=(const ChromeTraceWriter&) = delete;

  // Errors: those of the sink. `timeline` must be sorted.
  Result<void> Begin();
  Result<void> AddRun(const Timeline& timeline, const ChromeRun& run);
  Result<void> End();

 private:
  class Writer;
  std::unique_ptr<Writer> writer_;
};

// A run of a store and how it appears; its title and kernels are those of the run.
struct StoredChromeRun {
  const StoredRun* run = nullptr;
  ChromeRun how{};
};

// Writes `runs` to `path` in the order given. An existing file is replaced only if writing
// succeeds.
//
// Errors: those of writing.
Result<void> WriteChromeTrace(std::span<const StoredChromeRun> runs, FileSystem& files,
                              const std::string& path);

}  // namespace foretrain
