#include "profiler/span_recorder.h"

#include <time.h>

#include <algorithm>
#include <chrono>

namespace foretrain {
namespace {

constexpr int kCalibrationReads = 64;

std::int64_t ThreadCpuNs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

std::int64_t WallNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Smallest time between two consecutive readings: the undisturbed cost of one reading.
std::int64_t ReadingNs(std::int64_t (*read)()) {
  std::int64_t min = read();
  std::int64_t before = min;
  min = INT64_MAX;
  for (int i = 0; i < kCalibrationReads; ++i) {
    const std::int64_t now = read();
    min = std::min(min, now - before);
    before = now;
  }
  return std::max<std::int64_t>(min, 0);
}

}  // namespace

RecorderClocks SystemClocks() { return {WallNs, ThreadCpuNs}; }

// The CPU clock is read outside the timed part, since it costs more than a recording.
std::int64_t SpanLane::BeginSample() {
  until_sample_ = kSampleEvery;
  if (first_cpu_ns_ < 0) first_cpu_ns_ = clocks_.thread_cpu_ns();
  return clocks_.wall_ns();
}

// The sample includes one reading of the wall clock, which is subtracted.
void SpanLane::EndSample(std::int64_t begin_ns) {
  const std::int64_t took_ns = clocks_.wall_ns() - begin_ns - wall_clock_ns_;
  ++samples_;
  sampled_ns_ += std::clamp<std::int64_t>(took_ns, 0, kMaxSampleNs);
  Publish(clocks_.thread_cpu_ns());
}

// Brings the thread's CPU time up to date at a step's end: samples alone may lie far apart.
void SpanLane::MarkStep() {
  if (samples_ > 0) Publish(clocks_.thread_cpu_ns());
}

void SpanLane::Publish(std::int64_t cpu_ns) {
  // The first recording was the first sample. Each later sample ended a round of kSampleEvery.
  const std::int64_t recordings =
      1 + (samples_ - 1) * kSampleEvery + (kSampleEvery - until_sample_);
  recording_ns_.store(
      recordings * sampled_ns_ / samples_ + samples_ * (2 * wall_clock_ns_ + cpu_clock_ns_),
      std::memory_order_relaxed);
  thread_ns_.store(cpu_ns - first_cpu_ns_, std::memory_order_relaxed);
}

SpanRecorder::SpanRecorder(const RecorderClocks& clocks)
    : clocks_(clocks),
      wall_clock_ns_(ReadingNs(clocks.wall_ns)),
      cpu_clock_ns_(ReadingNs(clocks.thread_cpu_ns)) {}

// Lanes are never removed, so references stay valid.
SpanLane& SpanRecorder::AddLane() {
  const std::lock_guard<std::mutex> lock(mutex_);
  lanes_.push_back(std::unique_ptr<SpanLane>(new SpanLane(clocks_, wall_clock_ns_, cpu_clock_ns_)));
  return *lanes_.back();
}

void SpanRecorder::Drain(std::vector<Span>& out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::size_t before = out.size();
  for (const auto& lane : lanes_) lane->spans_.Drain(out);
  spans_ += static_cast<std::int64_t>(out.size() - before);
}

// Lanes publish their costs with relaxed stores: values may lag by one sample, but are never torn.
RecordingCost SpanRecorder::Cost() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  RecordingCost cost;
  cost.spans = spans_;
  cost.recording_ns = spans_ * 2 * wall_clock_ns_;  // a span's start and end
  for (const auto& lane : lanes_) {
    cost.recording_ns += lane->recording_ns_.load(std::memory_order_relaxed);
    cost.thread_ns += lane->thread_ns_.load(std::memory_order_relaxed);
  }
  return cost;
}

}  // namespace foretrain
