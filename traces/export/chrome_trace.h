// Writes runs as a Chrome JSON trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open. A
// forecast and its measurement go to one file, one above the other. traces/import reads traces.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/io/file_system.h"
#include "base/result.h"
#include "traces/kernels/kernel_table.h"
#include "traces/store.h"
#include "traces/timeline.h"

namespace foretrain {

// Receives the next bytes of a text that is written in pieces.
using TextSink = std::function<Result<void>(std::string_view)>;

// How a run appears in a trace. Texts are copied.
struct ChromeRun {
  std::string title{};  // "predicted 3 (8b-dp4)"
  // decoder layers; if known, blocks are named embedding, layers and head
  std::optional<int> layers{};
  const KernelTable* kernels = nullptr;  // borrowed; null: none
};

// Writes one JSON object: Begin, then any number of AddRun, then End. It needs 64 KiB of text
// besides the timeline. Times are microseconds with three decimals, so nothing is rounded.
//
//   process   one for each run and rank, "TITLE rank R", in the order of AddRun
//   thread    one for each queue, in the order of Queue, and one for the step windows
//   X events  spans, named after their op; category = op class; args: id (as text: it exceeds the
//             exact range of JavaScript numbers), description, step, bytes, wait_us; on device
//             queues kernels: an array with the name and launch of each of the op's kernels
//   C events  "device memory" and so on: bytes by category, one event for each moment of change
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

// Writes `runs` of a store to `path` in the order given, loading one at a time. An existing file is
// replaced only if writing succeeds.
//
// Errors: kInvalidArgument, no such run; kCorruptInput, a damaged run; errors of writing.
Result<void> ExportChromeTrace(const StoreReader& reader, std::span<const RunId> runs,
                               FileSystem& files, const std::string& path);

}  // namespace foretrain
