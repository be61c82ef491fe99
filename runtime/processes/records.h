// Records of a process as bytes for sending to rank 0, which checks every value that comes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/executor/executor.h"
#include "runtime/run/run_sink.h"

namespace foretrain {

// Message types of records.
enum RecordMessage : char {
  kSpans = 'X',
  kMemory = 'M',
  kWindow = 'W',
  kScalars = 'C',
  kRouting = 'R',
  kCounters = 'N',
  kCapture = 'V',
};

constexpr std::size_t kRecordsOfAMessage = 100'000;  // 6 MB of spans

// `clock` converts all times to rank 0's clock.
std::string PackSpans(std::span<const Span> spans, const ClockFit& clock);
std::string PackMemory(std::span<const MemorySample> samples, const ClockFit& clock);
std::string PackWindow(const StepWindow& window, const ClockFit& clock);
std::string PackScalars(const StepScalars& scalars, const ClockFit& clock);
std::string PackRouting(const RoutedCounts& counts);
std::string PackCounters(std::span<const Counter> counters, const ClockFit& clock);

// For a process whose first rank is `rank`: its clock readings on rank 0's clock, with the error of
// both conversions. `exchanges` are its readings of that clock, used if the device has none.
std::string PackCapture(int rank, CaptureReport report, const ClockFit& clock,
                        std::span<const ClockSample> exchanges);

// The records that a process may send.
struct RecordLimits {
  int rank = 0;  // its own
  int world = 1;
  std::int64_t first_step = 0, end_step = INT32_MAX;
};

// True if a message type is a record.
constexpr bool IsRecord(char type) {
  return std::string_view("XMWCRNV").find(type) != std::string_view::npos;
}
// Passes packed records to the sink. Returns false, and passes nothing, if one is damaged or
// outside the limits: another rank or step, an unknown kind, a time beyond two years.
bool Deliver(char type, const std::string& text, const RecordLimits& limits, RunSink& sink);

// Steps, times and peaks.
std::string PackSummary(const RunSummary& summary);
// `nullopt` if the text is damaged or a number is impossible.
std::optional<RunSummary> UnpackSummary(const std::string& text);
// Appends the ranks of another process.
void AddSummary(const RunSummary& of, RunSummary& to);

}  // namespace foretrain
