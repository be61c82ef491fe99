// Writes runs as a Chrome JSON trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open: a
// forecast and its measurement lie in one file, one above the other. Leaves out import.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/file_system.h"
#include "base/result.h"
#include "traces/store.h"
#include "traces/timeline.h"

namespace foretrain {

// Takes the next bytes of a text that is written in pieces.
using TextSink = std::function<Result<void>(std::string_view)>;

// What a run is called in a trace. Borrowed texts are copied.
struct ChromeRun {
  std::string title{};          // "predicted 3 (8b-dp4)"
  std::optional<int> layers{};  // decoder layers, where known: names embedding, layers and head
};

// Writes one JSON object: Begin, then any number of AddRun, then End. Memory beyond the timeline
// given is bounded by 64 KiB of text. Times are microseconds with three decimals, so nothing is
// rounded.
//
//   process   one per run and rank, "TITLE rank R", in the order of AddRun
//   thread    one per queue, in the order of Queue, and one for the step windows
//   X events  spans: named as their op, category = op class; args: id (a text: it does not fit a
//   JavaScript
//             number), what it is, step, bytes, wait_us
//   C events  "device memory" and its like: bytes by category, one event per moment at which any
//   changed
class ChromeTraceWriter {
 public:
  explicit ChromeTraceWriter(TextSink sink);
  ~ChromeTraceWriter();
  ChromeTraceWriter(const ChromeTraceWriter&) = delete;
  ChromeTraceWriter& operator=(const ChromeTraceWriter&) = delete;

  // Errors: those of the sink. `timeline` is sorted.
  Result<void> Begin();
  Result<void> AddRun(const Timeline& timeline, const ChromeRun& run);
  Result<void> End();

 private:
  class Writer;
  std::unique_ptr<Writer> writer_;
};

// Writes `runs` of a store to `path`, one loaded at a time, in the order given; a file there is
// replaced, and removed again where writing fails.
//
// Errors: kInvalidArgument, no such run; kCorruptInput, a damaged run; those of writing.
Result<void> ExportChromeTrace(const StoreReader& reader, std::span<const RunId> runs,
                               FileSystem& files, const std::string& path);

}  // namespace foretrain
