// What a process records, as bytes on their way to rank 0's. The processes are of one build: plain
// structs are sent as they lie in memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/executor.h"
#include "runtime/run_sink.h"

namespace foretrain {

// Letters of the messages that hold them.
enum RecordMessage : char {
  kSpans = 'X',
  kMemory = 'M',
  kWindow = 'W',
  kScalars = 'C',
  kRouting = 'R',
  kCounters = 'N',
  kCapture = 'V',
};

// `clock` brings all times to rank 0's.
std::string PackSpans(std::span<const Span> spans, const ClockFit& clock);
std::string PackMemory(std::span<const MemorySample> samples, const ClockFit& clock);
std::string PackWindow(const StepWindow& window, const ClockFit& clock);
std::string PackScalars(const StepScalars& scalars, const ClockFit& clock);
std::string PackRouting(const RoutedCounts& counts);
std::string PackCounters(std::span<const Counter> counters, const ClockFit& clock);

// Of a process whose first rank is `rank`: its clock readings on rank 0's clock, and the error of
// both conversions together. `exchanges` are its readings of that clock, which stand where a device
// has none.
std::string PackCapture(int rank, const CaptureReport& report, const ClockFit& clock,
                        std::span<const ClockSample> exchanges);

// Whether such a message is one of these.
bool IsRecord(char what);
// Hands what was packed to the sink; what does not have the size of its kind is left out.
void Deliver(char what, const std::string& text, RunSink& sink);

// Steps, times and peaks.
std::string PackSummary(const RunSummary& summary);
RunSummary UnpackSummary(const std::string& text);
// Adds the ranks of another process, which come behind.
void AddSummary(const RunSummary& of, RunSummary& to);

}  // namespace foretrain
