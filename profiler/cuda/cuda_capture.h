// Records a CUDA device by CUPTI's activity records. profiler/cuda/capture_entries.cc exports it,
// profiler/capture_session.h uses it.
//
//   push(op) ─► external id on the thread's stack ─ launches ─► record(correlation),
//   tag(correlation)
//   push(op) ─ HandsOut(stream) ─ another thread launches on it ─► callback ─► tag(correlation)
//   CUPTI's threads ─ filled buffers ─► ActivityBuffers ─► Drain ─► FtActivity
#pragma once

#include <cupti.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/device_api.h"
#include "profiler/cuda/activity_buffers.h"
#include "profiler/cuda/activity_records.h"
#include "profiler/cuda/counter_sampler.h"
#include "profiler/cuda/cupti_table.h"
#include "profiler/cuda/label_table.h"

namespace foretrain {

// Functions of the environment that the capture calls; tests replace them.
struct CaptureSurroundings {
  bool (*load)(CuptiTable& table, char* why, std::size_t n) = nullptr;
  const char* (*environment)(const char* name) = nullptr;  // getenv
};

// One in a process, because CUPTI's callbacks carry no argument of ours. Thread rules are those of
// base/device_api.h. No function throws.
class CudaCapture {
 public:
  explicit CudaCapture(const CaptureSurroundings& surroundings) : surroundings_(surroundings) {}
  ~CudaCapture();
  CudaCapture(const CudaCapture&) = delete;
  CudaCapture& operator=(const CudaCapture&) = delete;

  FtStatus Open(std::int32_t level, char* why, std::size_t n) noexcept;
  FtStatus Start(char* why, std::size_t n) noexcept;
  void Stop() noexcept;
  FtStatus Clock(std::int64_t* now_ns, char* why, std::size_t n) noexcept;
  FtStatus Push(const FtOpTag& tag) noexcept;
  // A library gets the stream for the calling thread's op. Launches on it by threads without an op
  // belong to that op, until the stream is handed out for another.
  void HandsOut(const void* stream) noexcept;
  FtStatus Pop() noexcept;
  // FT_UNSUPPORTED unless kernels can be recorded: both need the same library.
  FtStatus OpenCounters(std::span<const std::int32_t> devices, std::int64_t interval_ns, char* why,
                        std::size_t n) noexcept;
  CounterSampler& counters() { return counters_; }
  FtStatus Drain(bool idle, FtActivity* out, std::int64_t capacity, std::int64_t* count,
                 std::int64_t* dropped, char* why, std::size_t n) noexcept;

 private:
  friend struct CuptiCallbacks;

  bool OtherTool(char* why, std::size_t n) const;
  bool Check(CUptiResult result, const char* what, char* why, std::size_t n) const;
  bool Prepare(char* why, std::size_t n);
  bool Enable(char* why, std::size_t n);
  bool EnableCalls(char* why, std::size_t n);
  void DisableCalls();
  void DisableAll();
  // Moves on to the next buffer with records; false if there is none.
  bool NextBuffer();
  bool Flush(bool idle, std::int64_t* dropped, char* why, std::size_t n);
  bool AddRecord(const CUpti_Activity& record, FtActivity& out);
  const char* Kept(const char* name);
  // Records the op of a graph's node: the op at work when it was created, or that of the node it
  // copies.
  void AddNode(std::uint64_t node, const LabelTable::Label& label);
  void TagLaunch(const void* stream, std::uint64_t correlation);
  void CopyNode(std::uint64_t node, std::uint64_t original);

  const CaptureSurroundings surroundings_;
  CuptiTable cupti_;
  std::int32_t level_ = 0;
  bool is_open_ = false;  // records can be read
  CUpti_SubscriberHandle subscriber_ = nullptr;
  std::vector<CUpti_ActivityKind> enabled_;
  std::atomic<bool> recording_{false};

  ActivityBuffers buffers_;
  ActivityBuffers::Filled buffer_{};  // the buffer being read
  CUpti_Activity* record_ = nullptr;  // the last record read from it
  LabelTable labels_;
  CounterSampler counters_;
  std::unordered_map<const char*, const char*> known_names_;  // library's pointer -> our copy
  std::set<std::string> names_;

  std::mutex tags_mutex_;  // guards all below; not held around calls of CUPTI
  std::unordered_map<std::uint64_t, LabelTable::Label> nodes_;
  std::unordered_map<const void*, FtActivity> streams_;  // tags of their last ops
  std::vector<FtActivity> new_tags_;                     // of launches and nodes, not yet drained
};

}  // namespace foretrain
