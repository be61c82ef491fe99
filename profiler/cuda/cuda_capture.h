// Records a CUDA device by CUPTI's activity records, and emits NVTX ranges and profiler windows for
// other tools. profiler/cuda/capture_entries.cc exports it, profiler/capture_session.h uses it.
//
//   push(op) ─► external id on the thread's stack ─ launches ─► record(correlation),
//   tag(correlation)
//   CUPTI's threads ─ filled buffers ─► ActivityBuffers ─► Drain ─► FtActivity
#pragma once

#include <cupti.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/device_api.h"
#include "profiler/cuda/activity_buffers.h"
#include "profiler/cuda/activity_records.h"
#include "profiler/cuda/cupti_table.h"
#include "profiler/cuda/label_table.h"
#include "profiler/cuda/ranges.h"

namespace foretrain {

// Functions of the environment that the capture calls; tests replace them.
struct CaptureSurroundings {
  bool (*load)(CuptiTable& table, char* why, std::size_t n) = nullptr;
  const char* (*environment)(const char* name) = nullptr;  // getenv
  int (*profiler_start)() = nullptr;                       // cudaProfilerStart and its result
  int (*profiler_stop)() = nullptr;
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
  FtStatus Stop(char* why, std::size_t n) noexcept;
  FtStatus Clock(std::int64_t* now_ns, char* why, std::size_t n) noexcept;
  bool WantsNames() const { return ranges_.IsShown(); }
  FtStatus Push(const FtOpTag& tag) noexcept;
  FtStatus Pop() noexcept;
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
  void CopyNode(std::uint64_t node, std::uint64_t original);

  const CaptureSurroundings surroundings_;
  CuptiTable cupti_;
  Ranges ranges_;
  std::int32_t level_ = 0;
  bool is_open_ = false;  // records can be read
  CUpti_SubscriberHandle subscriber_ = nullptr;
  std::vector<CUpti_ActivityKind> enabled_;
  std::atomic<bool> recording_{false};

  ActivityBuffers buffers_;
  ActivityBuffers::Filled buffer_{};  // the buffer being read
  CUpti_Activity* record_ = nullptr;  // the last record read from it
  LabelTable labels_;
  std::unordered_map<const char*, const char*> known_names_;  // library's pointer -> our copy
  std::set<std::string> names_;

  std::mutex nodes_mutex_;  // not held around calls of CUPTI
  std::unordered_map<std::uint64_t, LabelTable::Label> nodes_;
  std::vector<std::uint64_t> new_nodes_;  // not yet drained
};

}  // namespace foretrain
