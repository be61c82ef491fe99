// Records of a process as bytes for sending to rank 0. All processes run the same build, so plain
// structs are sent as they lie in memory.
#pragma once

#include <span>
#include <string>

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

// `clock` converts all times to rank 0's clock.
std::string PackSpans(std::span<const Span> spans, const ClockFit& clock);
std::string PackMemory(std::span<const MemorySample> samples, const ClockFit& clock);
std::string PackWindow(const StepWindow& window, const ClockFit& clock);
std::string PackScalars(const StepScalars& scalars, const ClockFit& clock);
std::string PackRouting(RoutedCounts counts);
std::string PackCounters(std::span<const Counter> counters, const ClockFit& clock);

// For a process whose first rank is `rank`: its clock readings on rank 0's clock, with the error of
// both conversions. `exchanges` are its readings of that clock, used if the device has none.
std::string PackCapture(int rank, CaptureReport report, const ClockFit& clock,
                        std::span<const ClockSample> exchanges);

// True if a message type is a record.
bool IsRecord(char what);
// Passes packed records to the sink; records of a wrong size are ignored.
void Deliver(char what, const std::string& text, RunSink& sink);

// Steps, times and peaks.
std::string PackSummary(RunSummary summary);
RunSummary UnpackSummary(const std::string& text);
// Appends the ranks of another process.
void AddSummary(const RunSummary& of, RunSummary& to);

}  // namespace foretrain
