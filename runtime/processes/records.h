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
};

// `offset_ns` is added to all times.
std::string PackSpans(std::span<const Span> spans, std::int64_t offset_ns);
std::string PackMemory(std::span<const MemorySample> samples, std::int64_t offset_ns);
std::string PackWindow(const StepWindow& window, std::int64_t offset_ns);
std::string PackScalars(const StepScalars& scalars, std::int64_t offset_ns);
std::string PackRouting(const RoutedCounts& counts);

// Hands what was packed to the sink; what does not have the size of its kind is left out.
void Deliver(char what, const std::string& text, RunSink& sink);

// Steps, times and peaks.
std::string PackSummary(const RunSummary& summary);
RunSummary UnpackSummary(const std::string& text);
// Adds the ranks of another process, which come behind.
void AddSummary(const RunSummary& of, RunSummary& to);

}  // namespace foretrain
