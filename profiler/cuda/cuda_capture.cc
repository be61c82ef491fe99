#include "profiler/cuda/cuda_capture.h"

#include <time.h>

#include <cstdio>

#include "profiler/cuda/launch_calls.h"

namespace foretrain {
namespace {

// The open CudaCapture; null if there is none.
std::atomic<CudaCapture*> current{nullptr};

// The op for which the calling thread launches, and its step.
struct AtWork {
  LabelTable::Label label;
  std::int32_t step = 0;
};
thread_local AtWork at_work;

// The clock of host spans, so that only the run's origin must be subtracted from records.
std::uint64_t MonotonicNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

constexpr CUpti_ActivityKind kOfLaunches[] = {
    CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER,
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
    CUPTI_ACTIVITY_KIND_OVERHEAD};
constexpr CUpti_ActivityKind kOfWork[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                          CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2,
                                          CUPTI_ACTIVITY_KIND_MEMSET};

// Graph nodes are reported while the host creates them.
constexpr CUpti_CallbackId kGraphCalls[] = {CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED,
                                            CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED};
// Launches by threads of a library. NCCL calls the driver.
constexpr CUpti_CallbackId kWatchedLaunches[] = {
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz};

// The stream of one of these launches.
CUstream StreamOf(CUpti_CallbackId id, const void* parameters) {
  const bool is_plain = id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel ||
                        id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz;
  if (is_plain) return static_cast<const cuLaunchKernel_params*>(parameters)->hStream;
  return static_cast<const cuLaunchKernelEx_params*>(parameters)->config->hStream;
}

}  // namespace

// Callbacks from CUPTI, on its own threads or on launching ones. No exception may leave them.
struct CuptiCallbacks {
  static void Request(std::uint8_t** buffer, std::size_t* bytes, std::size_t* max_records) {
    *buffer = nullptr;
    *bytes = 0;
    *max_records = 0;  // as many as fit
    CudaCapture* const capture = current.load();
    if (capture == nullptr) return;
    try {
      *buffer = capture->buffers_.Request();
    } catch (...) {
      return;  // no memory for the list counts as no buffer
    }
    if (*buffer != nullptr) *bytes = ActivityBuffers::kBytes;
  }

  static void Complete(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                       std::size_t valid_bytes) {
    CudaCapture* const capture = current.load();
    if (capture == nullptr || buffer == nullptr) return;
    try {
      capture->buffers_.Complete(buffer, valid_bytes);
    } catch (...) {
      // The records are lost. Memory has run out, which will end the run.
    }
  }

  static void Told(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
    CudaCapture* const capture = current.load();
    if (capture == nullptr || data == nullptr) return;
    try {
      if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
        Node(*capture, id, *static_cast<const CUpti_ResourceData*>(data));
      } else if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
        Launch(*capture, id, *static_cast<const CUpti_CallbackData*>(data));
      }
    } catch (...) {
      // No memory for a tag: the kernel belongs to its graph as a whole, or to no op.
    }
  }

  static void Node(CudaCapture& capture, CUpti_CallbackId id, const CUpti_ResourceData& data) {
    const auto* const graph = static_cast<const CUpti_GraphData*>(data.resourceDescriptor);
    if (graph == nullptr) return;
    const auto& get_id = capture.cupti_.GetGraphNodeId;
    std::uint64_t node = 0, original = 0;
    if (get_id(graph->node, &node) != CUPTI_SUCCESS) return;
    if (id == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED) {
      capture.AddNode(node, at_work.label);
    } else if (id == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED &&
               get_id(graph->originalNode, &original) == CUPTI_SUCCESS) {
      capture.CopyNode(node, original);
    }
  }

  // A thread with an op has an external id, which tags its launches.
  static void Launch(CudaCapture& capture, CUpti_CallbackId id, const CUpti_CallbackData& data) {
    if (data.callbackSite != CUPTI_API_ENTER || at_work.label.op_id >= 0) return;
    capture.TagLaunch(StreamOf(id, data.functionParams), data.correlationId);
  }
};

CudaCapture::~CudaCapture() {
  if (subscriber_ == nullptr) return;
  DisableAll();
  current = nullptr;
  static_cast<void>(cupti_.Unsubscribe(subscriber_));
}

bool CudaCapture::Check(CUptiResult result, const char* what, char* why, std::size_t n) const {
  if (result == CUPTI_SUCCESS) return true;
  std::snprintf(why, n, "CUPTI: %s: %s", what, CuptiText(cupti_, result));
  return false;
}

// CUPTI serves one client: if another profiler is attached, it keeps the kernels, and only ranges
// are given to it.
bool CudaCapture::OtherTool(char* why, std::size_t n) const {
  for (const char* name : {"NSYS_PROFILING_SESSION_ID", "CUDA_INJECTION64_PATH"}) {
    const char* const value = surroundings_.environment(name);
    if (value == nullptr || value[0] == '\0') continue;
    std::snprintf(why, n,
                  "another tool profiles this process (%s is set) and has the kernels; its ranges "
                  "have the names of ops",
                  name);
    return true;
  }
  return false;
}

// Subscribes and registers clock and buffers. Any failure leaves the run without records, not
// without training.
bool CudaCapture::Prepare(char* why, std::size_t n) {
  if (!surroundings_.load(cupti_, why, n)) return false;
  const CUptiResult result = cupti_.Subscribe(&subscriber_, &CuptiCallbacks::Told, nullptr);
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
    std::snprintf(why, n,
                  "another tool uses CUPTI in this process, which serves one at a time; its ranges "
                  "have the names of ops");
    return false;
  }
  if (!Check(result, "subscribe", why, n)) return false;
  std::uint8_t zeroed = 1;
  std::size_t size = sizeof zeroed;
  // Must precede enabling any kind, and happen once a process: a second registration corrupts
  // times.
  return Check(cupti_.ActivityRegisterTimestampCallback(&MonotonicNs), "set the clock", why, n) &&
         Check(cupti_.ActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size,
                                           &zeroed),
               "set an attribute", why, n) &&
         Check(
             cupti_.ActivityRegisterCallbacks(&CuptiCallbacks::Request, &CuptiCallbacks::Complete),
             "register buffers", why, n);
}

// A capture that failed once is not tried again in this process, because CUPTI keeps state.
FtStatus CudaCapture::Open(std::int32_t level, char* why, std::size_t n) noexcept {
  level_ = level;
  if (is_open_) return FT_OK;
  if (subscriber_ != nullptr) {
    std::snprintf(why, n, "CUPTI failed in an earlier run of this process");
    return FT_UNSUPPORTED;
  }
  if (OtherTool(why, n)) return FT_UNSUPPORTED;
  current = this;
  is_open_ = Prepare(why, n);
  return is_open_ ? FT_OK : FT_UNSUPPORTED;
}

// An external correlation comes only before the record of a call, and on an H200 CUPTI 13.0
// recorded no call when single ones were enabled without their kind. So the kinds are enabled, then
// all calls disabled, then the few enabled. A CUPTI that cannot choose records all calls, of which
// ParseRecord keeps the launches.
bool CudaCapture::EnableCalls(char* why, std::size_t n) {
  if (cupti_.CanChooseCalls()) {
    DisableCalls();
    for (const CUpti_CallbackId call : kRuntimeLaunches) {
      if (!Check(cupti_.ActivityEnableRuntimeApi(call, 1), "record a call", why, n)) return false;
    }
    for (const CUpti_CallbackId call : kDriverLaunches) {
      if (!Check(cupti_.ActivityEnableDriverApi(call, 1), "record a call", why, n)) return false;
    }
  }
  for (const CUpti_CallbackId call : kGraphCalls) {
    if (!Check(cupti_.EnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE, call),
               "watch graphs", why, n)) {
      return false;
    }
  }
  for (const CUpti_CallbackId call : kWatchedLaunches) {
    if (!Check(cupti_.EnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API, call),
               "watch launches", why, n)) {
      return false;
    }
  }
  return true;
}

bool CudaCapture::Enable(char* why, std::size_t n) {
  const auto enable = [&](CUpti_ActivityKind kind) {
    if (!Check(cupti_.ActivityEnable(kind), "record activity", why, n)) return false;
    enabled_.push_back(kind);
    return true;
  };
  for (const CUpti_ActivityKind kind : kOfLaunches) {
    if (!enable(kind)) return false;
  }
  for (const CUpti_ActivityKind kind : kOfWork) {
    if (level_ == FT_CAPTURE_FULL && !enable(kind)) return false;
  }
  return EnableCalls(why, n);
}

// Errors are ignored: a call that cannot be disabled costs time.
void CudaCapture::DisableCalls() {
  for (CUpti_CallbackId call = 1; call < CUPTI_RUNTIME_TRACE_CBID_SIZE; ++call) {
    static_cast<void>(cupti_.ActivityEnableRuntimeApi(call, 0));
  }
  for (CUpti_CallbackId call = 1; call < CUPTI_DRIVER_TRACE_CBID_SIZE; ++call) {
    static_cast<void>(cupti_.ActivityEnableDriverApi(call, 0));
  }
}

// Errors are ignored: records stop mattering, and there is no one to tell.
void CudaCapture::DisableAll() {
  for (const CUpti_ActivityKind kind : enabled_) static_cast<void>(cupti_.ActivityDisable(kind));
  enabled_.clear();
  if (!is_open_) return;
  if (cupti_.CanChooseCalls()) DisableCalls();
  for (const CUpti_CallbackId call : kWatchedLaunches) {
    static_cast<void>(cupti_.EnableCallback(0, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API, call));
  }
}

FtStatus CudaCapture::Start(char* why, std::size_t n) noexcept {
  try {
    if (is_open_ && !Enable(why, n)) {
      DisableAll();
      return FT_FAILED;
    }
  } catch (...) {
    std::snprintf(why, n, "CUPTI: out of host memory");
    return FT_OUT_OF_MEMORY;
  }
  recording_ = is_open_;
  return FT_OK;
}

void CudaCapture::Stop() noexcept {
  recording_ = false;
  DisableAll();
}

FtStatus CudaCapture::Clock(std::int64_t* now_ns, char* why, std::size_t n) noexcept {
  std::uint64_t now = 0;
  if (!is_open_ || !Check(cupti_.GetTimestamp(&now), "read the clock", why, n)) return FT_FAILED;
  *now_ns = static_cast<std::int64_t>(now);
  return FT_OK;
}

FtStatus CudaCapture::OpenCounters(std::span<const std::int32_t> devices, std::int64_t interval_ns,
                                   char* why, std::size_t n) noexcept {
  if (is_open_) return counters_.Open(cupti_.library, devices, interval_ns, why, n);
  std::snprintf(why, n, "CUPTI records nothing here");
  return FT_UNSUPPORTED;
}

// The op stays in at_work even outside a window: graphs captured before the window name their nodes
// by it.
FtStatus CudaCapture::Push(const FtOpTag& tag) noexcept {
  at_work = {{tag.op_id, tag.rank}, tag.step};
  if (!recording_.load(std::memory_order_relaxed)) return FT_OK;
  try {
    const ExternalId id{labels_.Of(tag.op_id, tag.rank), tag.step};
    const CUptiResult result = cupti_.ActivityPushExternalCorrelationId(
        CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, id.Pack());
    return result == CUPTI_SUCCESS ? FT_OK : FT_FAILED;
  } catch (...) {
    return FT_OUT_OF_MEMORY;
  }
}

FtStatus CudaCapture::Pop() noexcept {
  at_work = {};
  if (!is_open_) return FT_OK;
  std::uint64_t last = 0;
  const CUptiResult result =
      cupti_.ActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last);
  // The window may have opened or closed since the push, so an empty stack is fine.
  return result == CUPTI_SUCCESS || result == CUPTI_ERROR_QUEUE_EMPTY ? FT_OK : FT_FAILED;
}

// The stream of an op keeps its entry until the next op: a library may launch after the call.
void CudaCapture::HandsOut(const void* stream) noexcept {
  if (!recording_.load(std::memory_order_relaxed) || at_work.label.op_id < 0) return;
  try {
    const std::lock_guard<std::mutex> lock(tags_mutex_);
    FtActivity& tag = streams_[stream];
    tag = FtActivity{};
    tag.kind = FT_ACTIVITY_TAG;
    tag.op_id = at_work.label.op_id;
    tag.rank = at_work.label.rank;
    tag.step = at_work.step;
  } catch (...) {
    // The library's kernels then belong to no op.
  }
}

void CudaCapture::TagLaunch(const void* stream, std::uint64_t correlation) {
  const std::lock_guard<std::mutex> lock(tags_mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  new_tags_.push_back(found->second);
  new_tags_.back().correlation = correlation;
}

// Called while a graph is captured or cloned; the lock is not held around calls of CUPTI, which may
// call back.
void CudaCapture::AddNode(std::uint64_t node, const LabelTable::Label& label) {
  if (label.op_id < 0) return;
  const std::lock_guard<std::mutex> lock(tags_mutex_);
  nodes_[node] = label;
  FtActivity tag{};
  tag.kind = FT_ACTIVITY_GRAPH_NODE;
  tag.graph_node = node;
  tag.op_id = label.op_id;
  tag.rank = label.rank;
  new_tags_.push_back(tag);
}

void CudaCapture::CopyNode(std::uint64_t node, std::uint64_t original) {
  LabelTable::Label label;
  {
    const std::lock_guard<std::mutex> lock(tags_mutex_);
    const auto found = nodes_.find(original);
    if (found == nodes_.end()) return;
    label = found->second;
  }
  AddNode(node, label);
}

}  // namespace foretrain
