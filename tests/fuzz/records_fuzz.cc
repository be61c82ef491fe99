// A message of another process: the type of a record or of a summary, then its text. What is
// accepted is within the limits.
#include <cmath>
#include <string>

#include "runtime/processes/records.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace foretrain;

constexpr RecordLimits kLimits{.rank = 1, .world = 4, .end_step = 8};

struct IgnoringSink : RunSink {};

// An accepted record is accepted again once it is packed.
void CheckPacked(RecordMessage type, const std::string& text) {
  IgnoringSink sink;
  FT_CHECK(Deliver(type, text, kLimits, sink));
}

struct CheckingSink : RunSink {
  void OnSpans(std::span<const Span> spans) override {
    CheckPacked(RecordMessage::kSpans, PackSpans(spans, {}));
    for (const Span& span : spans) {
      FT_CHECK(!Name(span.queue).empty() && !Name(span.op_class).empty());
      FT_CHECK(span.step >= -1 && span.step < 8 && span.rank >= 0 && span.rank < 4);
      FT_CHECK(!Describe(span.op).empty() && span.start_ns <= span.end_ns);
    }
  }
  void OnMemory(std::span<const MemorySample> samples) override {
    CheckPacked(RecordMessage::kMemory, PackMemory(samples, {}));
    for (const MemorySample& sample : samples) {
      FT_CHECK(!Name(sample.category).empty() && !Name(sample.space).empty());
    }
  }
  void OnStepWindow(const StepWindow& window) override {
    FT_CHECK(window.step < 8);
    CheckPacked(RecordMessage::kWindow, PackWindow(window, {}));
  }
  void OnScalars(const StepScalars& scalars) override {
    FT_CHECK(scalars.rank == 1);
    CheckPacked(RecordMessage::kScalars, PackScalars(scalars, {}));
  }
  void OnRouting(const RoutedCounts& counts) override {
    CheckPacked(RecordMessage::kRouting, PackRouting(counts));
  }
  void OnCounters(std::span<const Counter> counters) override {
    CheckPacked(RecordMessage::kCounters, PackCounters(counters, {}));
  }
  void OnCapture(int rank, const CaptureReport& report) override {
    FT_CHECK(rank == 1 && report.counts.records >= 0);
    CheckPacked(RecordMessage::kCapture, PackCapture(rank, report, {}, {}));
  }
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto type = static_cast<char>(data[0]);
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  CheckingSink sink;
  static_cast<void>(Deliver(type, text, kLimits, sink));
  if (const auto summary = UnpackSummary(text)) {
    FT_CHECK(std::isfinite(summary->seconds));
    FT_CHECK(UnpackSummary(PackSummary(*summary)).has_value());
    RunSummary sum;
    AddSummary(*summary, sum);
  }
  return 0;
}
