// Records spans and memory samples while a program runs: one lane for each thread, drained at the
// ends of steps. traces/store.h stores them.
//
//   queue thread ── Add ──► [chunk]─►[chunk]─► ... ──► Drain ── any one thread
//                              ▲ emptied chunks come back through `spare`
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "traces/timeline.h"

namespace foretrain {

// An unbounded queue from one writer to one reader. Add takes no lock. It allocates once a chunk,
// and not at all if the reader has handed a chunk back.
template <class T, int kChunk = 1024>
class ChunkQueue {
 public:
  ChunkQueue() : write_(new Chunk), read_(write_) {}
  ~ChunkQueue() {
    while (read_ != nullptr) delete std::exchange(read_, read_->next.load());
    delete spare_.load();
  }
  ChunkQueue(const ChunkQueue&) = delete;
  ChunkQueue& operator=(const ChunkQueue&) = delete;

  // For the writer.
  void Add(const T& value) {
    if (write_at_ == kChunk) Grow();
    write_->values[static_cast<std::size_t>(write_at_)] = value;
    write_->count.store(++write_at_, std::memory_order_release);
  }

  // For the reader: appends everything added so far to `out`.
  void Drain(std::vector<T>& out) {
    for (;;) {
      const int count = read_->count.load(std::memory_order_acquire);
      const auto begin = read_->values.begin();
      out.insert(out.end(), begin + read_at_, begin + count);
      read_at_ = count;
      if (count < kChunk) return;
      Chunk* const next = read_->next.load(std::memory_order_acquire);
      if (next == nullptr) return;
      delete spare_.exchange(std::exchange(read_, next), std::memory_order_acq_rel);
      read_at_ = 0;
    }
  }

 private:
  struct Chunk {
    std::array<T, kChunk> values;
    std::atomic<int> count{0};
    std::atomic<Chunk*> next{nullptr};
  };

  void Grow() {
    Chunk* next = spare_.exchange(nullptr, std::memory_order_acq_rel);
    if (next == nullptr) {
      next = new Chunk;
    } else {
      next->count.store(0, std::memory_order_relaxed);
      next->next.store(nullptr, std::memory_order_relaxed);
    }
    write_->next.store(next, std::memory_order_release);
    write_ = next;
    write_at_ = 0;
  }

  Chunk* write_;
  int write_at_ = 0;
  alignas(64) Chunk* read_;
  int read_at_ = 0;
  std::atomic<Chunk*> spare_{nullptr};
};

// Cost of recording and total of the recording threads, in nanoseconds of CPU time.
struct RecordingCost {
  std::int64_t recording_ns = 0;
  std::int64_t thread_ns = 0;
  std::int64_t spans = 0;

  // Share of the threads' CPU time, in [0, 1]; 0 before the first sample.
  double Share() const {
    return thread_ns == 0 ? 0.0
                          : static_cast<double>(recording_ns) / static_cast<double>(thread_ns);
  }
};

// Clocks that cost is measured by, in nanoseconds from any start.
struct RecorderClocks {
  std::int64_t (*wall_ns)();
  std::int64_t (*thread_cpu_ns)();  // CPU time of the calling thread
};

// The clocks of this machine.
RecorderClocks SystemClocks();

// The spans of one thread, and the cost of recording them. One recording in kSampleEvery is timed,
// by the wall clock: reading it takes 20 to 40 ns, the thread's CPU clock 200 to 700, as much as
// several recordings. A sample in which the thread lost its processor is cut off at kMaxSampleNs.
// The CPU clock gives the thread's total time.
class SpanLane {
 public:
  static constexpr int kSampleEvery = 128;
  static constexpr std::int64_t kMaxSampleNs = 20'000;

  // Runs recording(), which contains everything the thread does for the record: Add here, memory
  // samples elsewhere. Only for the lane's own thread.
  template <class Recording>
  void Record(Recording&& recording) {
    if (--until_sample_ > 0) {
      recording();
      return;
    }
    const std::int64_t begin_ns = BeginSample();
    recording();
    EndSample(begin_ns);
  }

  // Appends a span; to be called inside Record. About 10 ns.
  void Add(const Span& span) { spans_.Add(span); }

  // Updates the thread's CPU time; called at the end of a step.
  void MarkStep();

 private:
  friend class SpanRecorder;
  SpanLane(const RecorderClocks& clocks, std::int64_t wall_clock_ns, std::int64_t cpu_clock_ns)
      : clocks_(clocks), wall_clock_ns_(wall_clock_ns), cpu_clock_ns_(cpu_clock_ns) {}
  std::int64_t BeginSample();
  void EndSample(std::int64_t begin_ns);
  void Publish(std::int64_t cpu_ns);

  ChunkQueue<Span> spans_;
  int until_sample_ = 1;  // the first one too, so that short runs have a sample
  const RecorderClocks clocks_;
  const std::int64_t wall_clock_ns_;  // cost of one reading
  const std::int64_t cpu_clock_ns_;
  std::int64_t samples_ = 0;
  std::int64_t sampled_ns_ = 0;
  std::int64_t first_cpu_ns_ = -1;
  std::atomic<std::int64_t> recording_ns_{0};
  std::atomic<std::int64_t> thread_ns_{0};
};

class SpanRecorder {
 public:
  explicit SpanRecorder(const RecorderClocks& clocks = SystemClocks());

  // Adds a lane for one thread. It lives as long as the recorder. Safe from any thread.
  SpanLane& AddLane();

  // Appends the spans recorded so far to `out`, lane by lane, in their order. One thread at a time.
  void Drain(std::vector<Span>& out);

  // Cost up to each lane's newest sample or step mark. The two clock readings of each drained span
  // count too. The budget is 2 % of CPU time. Safe from any thread.
  RecordingCost Cost() const;

 private:
  const RecorderClocks clocks_;
  const std::int64_t wall_clock_ns_;  // cost of one reading
  const std::int64_t cpu_clock_ns_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<SpanLane>> lanes_;  // guarded by mutex_
  std::int64_t spans_ = 0;                        // number drained; guarded by mutex_
};

}  // namespace foretrain
