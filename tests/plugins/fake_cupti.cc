// A libcupti for tests. It remembers calls, fills buffers with records, and fails a call on demand.
// Loaded with the tests' CUDA runtime it records that runtime's calls and work; otherwise a test
// provides the records. Like CUPTI, it records what was enabled when a call began, and ties a call
// to the external id on top of the calling thread's stack.
#include "tests/plugins/fake_cupti.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "profiler/cuda/activity_records.h"
#include "tests/plugins/cuda/observer.h"

namespace foretrain {
namespace {

FakeCupti fake;
std::recursive_mutex mutex;  // guards fake; a callback may call CUPTI
CUpti_BuffersCallbackRequestFunc request = nullptr;
CUpti_BuffersCallbackCompleteFunc complete = nullptr;
CUpti_TimestampCallbackFunc clock = nullptr;
thread_local std::vector<std::uint64_t> external_ids;
std::uint32_t last_correlation = 0;  // guarded by mutex

using Lock = FakeLock;

std::uint64_t Now() {
  if (clock != nullptr) return clock();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

std::size_t SizeOf(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(KernelRecord);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CopyRecord);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(PeerCopyRecord);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(FillRecord);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(ApiRecord);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(WaitRecord);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return sizeof(OverheadRecord);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(TagRecord);
    default:
      return sizeof(CUpti_ActivityDevice5);
  }
}

void Enable(std::set<CUpti_CallbackId>& calls, CUpti_CallbackId call, bool enable) {
  if (enable) {
    calls.insert(call);
  } else {
    calls.erase(call);
  }
}

// ---- what the tests' CUDA runtime tells

// Calls of the runtime and of the driver that a call consists of; 0: none.
struct Calls {
  CUpti_CallbackId runtime = 0, driver = 0;
};
Calls CallsOf(FakeCall call) {
  switch (call) {
    case FakeCall::kLaunchKernel:
#if CUPTI_API_VERSION >= 130000
      return {CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000,
              CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel};
#else
      return {CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
              CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel};
#endif
    case FakeCall::kLaunchLibraryKernel:
      return {0, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx};
    case FakeCall::kLaunchGraph:
      return {CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000,
              CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch};
    case FakeCall::kCopy:
      return {CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020, 0};
    case FakeCall::kFill:
      return {CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020, 0};
    case FakeCall::kWaitForEvent:
      return {CUPTI_RUNTIME_TRACE_CBID_cudaStreamWaitEvent_v3020, 0};
    case FakeCall::kWaitForStream:
      return {CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020, 0};
    case FakeCall::kAskEvent:
      return {CUPTI_RUNTIME_TRACE_CBID_cudaEventQuery_v3020, 0};
  }
  return {};
}

CUpti_ActivityKind KindOf(FakeWorkKind kind) {
  switch (kind) {
    case FakeWorkKind::kKernel:
      return CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    case FakeWorkKind::kCopy:
      return CUPTI_ACTIVITY_KIND_MEMCPY;
    case FakeWorkKind::kPeerCopy:
      return CUPTI_ACTIVITY_KIND_MEMCPY2;
    case FakeWorkKind::kFill:
      return CUPTI_ACTIVITY_KIND_MEMSET;
    case FakeWorkKind::kNone:
      break;
  }
  return CUPTI_ACTIVITY_KIND_INVALID;
}

// The state of a call between its begin and end.
struct OpenCall {
  std::uint64_t start_ns = 0;
  bool runtime = false, driver = false, wait = false;  // is recorded
};
thread_local OpenCall open_call;

// The callback of a driver's launch, which CUPTI makes on the launching thread.
void CallBack(CUpti_CallbackId id, void* stream, std::uint32_t correlation) {
  if (fake.callbacks.count({CUPTI_CB_DOMAIN_DRIVER_API, id}) == 0) return;
  CUlaunchConfig config{};
  config.hStream = static_cast<CUstream>(stream);
  cuLaunchKernel_params plain{};
  plain.hStream = config.hStream;
  cuLaunchKernelEx_params extended{};
  extended.config = &config;
  CUpti_CallbackData data{};
  data.callbackSite = CUPTI_API_ENTER;
  data.functionParams =
      id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel ? static_cast<const void*>(&plain) : &extended;
  data.correlationId = correlation;
  fake.callback(nullptr, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
  data.callbackSite = CUPTI_API_EXIT;
  fake.callback(nullptr, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
}

FakeOrigin Begin(FakeCall call, void* stream) {
  const Lock lock(mutex);
  FakeOrigin origin{++last_correlation, 0};
  for (const auto kind :
       {FakeWorkKind::kKernel, FakeWorkKind::kCopy, FakeWorkKind::kPeerCopy, FakeWorkKind::kFill}) {
    if (fake.Enables(KindOf(kind))) origin.kinds |= 1U << static_cast<unsigned>(kind);
  }
  const Calls calls = CallsOf(call);
  const bool waits = call == FakeCall::kWaitForEvent || call == FakeCall::kWaitForStream;
  open_call = {Now(), fake.runtime_calls.count(calls.runtime) > 0,
               fake.driver_calls.count(calls.driver) > 0,
               waits && fake.Enables(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION)};
  CallBack(calls.driver, stream, origin.correlation);
  return origin;
}

// The record of a call, and before it the tag of the thread's current external id.
void AddCall(CUpti_ActivityKind kind, CUpti_CallbackId call, std::uint32_t correlation) {
  if (!external_ids.empty() && fake.Enables(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)) {
    TagRecord tag{};
    tag.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    tag.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
    tag.externalId = external_ids.back();
    tag.correlationId = correlation;
    fake.Add(tag);
  }
  ApiRecord record{};
  record.kind = kind;
  record.cbid = call;
  record.start = open_call.start_ns;
  record.end = Now();
  record.correlationId = correlation;
  fake.Add(record);
}

void End(FakeCall call, FakeOrigin origin) {
  const Lock lock(mutex);
  const Calls calls = CallsOf(call);
  if (open_call.driver) AddCall(CUPTI_ACTIVITY_KIND_DRIVER, calls.driver, origin.correlation);
  if (open_call.runtime) AddCall(CUPTI_ACTIVITY_KIND_RUNTIME, calls.runtime, origin.correlation);
  if (!open_call.wait) return;
  WaitRecord wait{};
  wait.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  wait.type = call == FakeCall::kWaitForEvent
                  ? CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT
                  : CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
  wait.start = open_call.start_ns;
  wait.end = Now();
  wait.correlationId = origin.correlation;
  fake.Add(wait);
}

// Adds a record of device work with the fields that all kinds have.
template <class Record>
void AddWork(Record record, const FakeWork& work, FakeOrigin origin, FakePlace place,
             std::int64_t start_ns, std::int64_t end_ns) {
  record.kind = KindOf(work.kind);
  record.start = static_cast<std::uint64_t>(start_ns);
  record.end = static_cast<std::uint64_t>(end_ns);
  record.deviceId = static_cast<std::uint32_t>(place.device);
  record.streamId = static_cast<std::uint32_t>(place.stream);
  record.correlationId = origin.correlation;
  record.graphNodeId = place.node;
  if constexpr (requires { record.bytes; }) record.bytes = work.bytes;
  fake.Add(record);
}

void Worked(const FakeWork& work, FakeOrigin origin, FakePlace place, std::int64_t start_ns,
            std::int64_t end_ns) {
  if ((origin.kinds >> static_cast<unsigned>(work.kind) & 1U) == 0) return;
  const Lock lock(mutex);
  if (work.kind == FakeWorkKind::kKernel) {
    fake.busy.push_back({static_cast<std::size_t>(place.device),
                         static_cast<std::uint64_t>(start_ns), static_cast<std::uint64_t>(end_ns)});
  }
  const auto add = [&](auto record) { AddWork(record, work, origin, place, start_ns, end_ns); };
  switch (work.kind) {
    case FakeWorkKind::kKernel: {
      KernelRecord kernel{};
      kernel.name = work.name;
      kernel.gridX = static_cast<std::int32_t>(work.grid[0]);
      kernel.gridY = static_cast<std::int32_t>(work.grid[1]);
      kernel.gridZ = static_cast<std::int32_t>(work.grid[2]);
      kernel.blockX = static_cast<std::int32_t>(work.block[0]);
      kernel.blockY = static_cast<std::int32_t>(work.block[1]);
      kernel.blockZ = static_cast<std::int32_t>(work.block[2]);
      kernel.registersPerThread = static_cast<std::uint16_t>(work.registers);
      kernel.staticSharedMemory = static_cast<std::int32_t>(work.static_shared_bytes);
      kernel.dynamicSharedMemory = static_cast<std::int32_t>(work.dynamic_shared_bytes);
      return add(kernel);
    }
    case FakeWorkKind::kCopy:
      return add(CopyRecord{});
    case FakeWorkKind::kPeerCopy:
      return add(PeerCopyRecord{});
    case FakeWorkKind::kFill:
      return add(FillRecord{});
    case FakeWorkKind::kNone:
      break;
  }
}

// The handle of a node is its number.
void MadeNode(std::uint64_t node, std::uint64_t original) {
  const Lock lock(mutex);
  const CUpti_CallbackId id =
      original == 0 ? CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED : CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED;
  if (fake.callbacks.count({CUPTI_CB_DOMAIN_RESOURCE, id}) == 0) return;
  CUpti_GraphData graph{};
  graph.node = reinterpret_cast<CUgraphNode>(node);
  graph.originalNode = reinterpret_cast<CUgraphNode>(original);
  CUpti_ResourceData data{};
  data.resourceDescriptor = &graph;
  fake.callback(nullptr, CUPTI_CB_DOMAIN_RESOURCE, id, &data);
}

constexpr FakeCudaObserver kObserver{.begin = &Begin,
                                     .end = &End,
                                     .worked = &Worked,
                                     .now = [] { return static_cast<std::int64_t>(Now()); },
                                     .made_node = &MadeNode};

constexpr CUpti_CallbackId kCalls = 400;  // fewer than there are

}  // namespace

FakeCupti& TheFake() { return fake; }
std::recursive_mutex& TheFakeMutex() { return mutex; }
CUptiResult Told(const char* entry) {
  const std::string function = std::string("cupti") + entry;
  if (cudaFakeFails != nullptr && cudaFakeFails(function.c_str())) return fake.failure;
  return fake.failing == entry ? fake.failure : CUPTI_SUCCESS;
}

extern "C" {
#define FT_EXPORT __attribute__((visibility("default")))

FT_EXPORT FakeCupti* fake_cupti() { return &fake; }

// A kind of calls enables all of them.
FT_EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  const Lock lock(mutex);
  const CUptiResult result = Told("ActivityEnable");
  if (result != CUPTI_SUCCESS) return result;
  fake.enabled.insert(kind);
  const bool runtime = kind == CUPTI_ACTIVITY_KIND_RUNTIME;
  if (!runtime && kind != CUPTI_ACTIVITY_KIND_DRIVER) return result;
  for (CUpti_CallbackId call = 1; call < kCalls; ++call) {
    Enable(runtime ? fake.runtime_calls : fake.driver_calls, call, true);
  }
  return result;
}
FT_EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  const Lock lock(mutex);
  fake.enabled.erase(kind);
  return CUPTI_SUCCESS;
}
FT_EXPORT CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId call, std::uint8_t enable) {
  const Lock lock(mutex);
  Enable(fake.driver_calls, call, enable != 0);
  return Told("ActivityEnableDriverApi");
}
FT_EXPORT CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId call, std::uint8_t enable) {
  const Lock lock(mutex);
  Enable(fake.runtime_calls, call, enable != 0);
  return Told("ActivityEnableRuntimeApi");
}
FT_EXPORT CUptiResult cuptiActivityFlushAll(std::uint32_t flag) {
  const Lock lock(mutex);
  fake.flushes.push_back(flag);
  if (const CUptiResult result = Told("ActivityFlushAll"); result != CUPTI_SUCCESS) return result;
  std::size_t at = 0;
  while (at < fake.records.size()) {
    std::uint8_t* buffer = nullptr;
    std::size_t room = 0, max = 0, used = 0;
    request(&buffer, &room, &max);
    if (buffer == nullptr) {
      fake.dropped += fake.records.size() - at;
      break;
    }
    for (std::size_t i = 0; i < fake.records_a_buffer && at < fake.records.size(); ++i, ++at) {
      if (used + fake.records[at].size() > room) break;
      std::memcpy(buffer + used, fake.records[at].data(), fake.records[at].size());
      used += fake.records[at].size();
    }
    complete(nullptr, 0, buffer, room, used);
  }
  fake.records.clear();
  return CUPTI_SUCCESS;
}
FT_EXPORT CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t bytes,
                                                 CUpti_Activity** record) {
  const Lock lock(mutex);
  if (const CUptiResult result = Told("ActivityGetNextRecord"); result != CUPTI_SUCCESS) {
    return result;
  }
  std::uint8_t* at = buffer;
  if (*record != nullptr) {
    at = reinterpret_cast<std::uint8_t*>(*record) + SizeOf((*record)->kind);
  }
  if (at >= buffer + bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(at);
  return CUPTI_SUCCESS;
}
FT_EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t,
                                                        std::size_t* dropped) {
  const Lock lock(mutex);
  *dropped = std::exchange(fake.dropped, 0);
  return Told("ActivityGetNumDroppedRecords");
}
FT_EXPORT CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind,
                                                             std::uint64_t id) {
  const Lock lock(mutex);
  external_ids.push_back(id);
  fake.pushed.push_back(id);
  return Told("ActivityPushExternalCorrelationId");
}
FT_EXPORT CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind,
                                                            std::uint64_t* id) {
  const Lock lock(mutex);
  if (external_ids.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  *id = external_ids.back();
  external_ids.pop_back();
  return Told("ActivityPopExternalCorrelationId");
}
FT_EXPORT CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc asked,
                                                     CUpti_BuffersCallbackCompleteFunc completed) {
  request = asked;
  complete = completed;
  return Told("ActivityRegisterCallbacks");
}
FT_EXPORT CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc now) {
  ++fake.timestamp_registrations;
  clock = now;
  return Told("ActivityRegisterTimestampCallback");
}
FT_EXPORT CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute, std::size_t*, void*) {
  return Told("ActivitySetAttribute");
}
FT_EXPORT CUptiResult cuptiEnableCallback(std::uint32_t enable, CUpti_SubscriberHandle,
                                          CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  const Lock lock(mutex);
  if (const CUptiResult result = Told("EnableCallback"); result != CUPTI_SUCCESS) return result;
  if (enable != 0) {
    fake.callbacks.insert({domain, id});
  } else {
    fake.callbacks.erase({domain, id});
  }
  return CUPTI_SUCCESS;
}
FT_EXPORT CUptiResult cuptiGetGraphNodeId(CUgraphNode node, std::uint64_t* id) {
  *id = reinterpret_cast<std::uintptr_t>(node);
  return CUPTI_SUCCESS;
}
FT_EXPORT CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "CUPTI_ERROR_OF_THE_TEST";
  return CUPTI_SUCCESS;
}
FT_EXPORT CUptiResult cuptiGetTimestamp(std::uint64_t* now) {
  *now = Now();
  return Told("GetTimestamp");
}
FT_EXPORT CUptiResult cuptiGetVersion(std::uint32_t* version) {
  *version = fake.version;
  return CUPTI_SUCCESS;
}
FT_EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback,
                                     void*) {
  const Lock lock(mutex);
  if (const CUptiResult result = Told("Subscribe"); result != CUPTI_SUCCESS) return result;
  ++fake.subscriptions;
  fake.callback = callback;
  *handle = reinterpret_cast<CUpti_SubscriberHandle>(&fake);
  if (cudaFakeObserve != nullptr) cudaFakeObserve(&kObserver);
  return CUPTI_SUCCESS;
}
FT_EXPORT CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) {
  const Lock lock(mutex);
  --fake.subscriptions;
  fake.callbacks.clear();
  return CUPTI_SUCCESS;
}
}  // extern "C"

}  // namespace foretrain
