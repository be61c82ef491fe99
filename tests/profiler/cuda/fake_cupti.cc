#include "tests/profiler/cuda/fake_cupti.h"

#if FORETRAIN_HAVE_CUPTI
#include <algorithm>
#include <cstdio>
#include <cstring>

namespace foretrain {
namespace {

CUpti_BuffersCallbackRequestFunc request = nullptr;
CUpti_BuffersCallbackCompleteFunc complete = nullptr;

CUptiResult Told(const char* entry) {
  FakeCupti& fake = TheFakeCupti();
  return fake.failing == entry ? fake.failure : CUPTI_SUCCESS;
}

std::size_t SizeOf(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(CUpti_ActivitySynchronization2);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return sizeof(CUpti_ActivityOverhead3);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    default:
      return sizeof(CUpti_ActivityDevice5);
  }
}

CUptiResult Next(std::uint8_t* buffer, std::size_t bytes, CUpti_Activity** record) {
  if (Told("ActivityGetNextRecord") != CUPTI_SUCCESS) return TheFakeCupti().failure;
  std::uint8_t* at = buffer;
  if (*record != nullptr) {
    at = reinterpret_cast<std::uint8_t*>(*record) + SizeOf((*record)->kind);
  }
  if (at >= buffer + bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(at);
  return CUPTI_SUCCESS;
}

CUptiResult FlushAll(std::uint32_t flag) {
  FakeCupti& fake = TheFakeCupti();
  fake.flushes.push_back(flag);
  if (Told("ActivityFlushAll") != CUPTI_SUCCESS) return fake.failure;
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
      std::memcpy(buffer + used, fake.records[at].data(), fake.records[at].size());
      used += fake.records[at].size();
    }
    complete(nullptr, 0, buffer, room, used);
  }
  fake.records.clear();
  return CUPTI_SUCCESS;
}

constexpr CUpti_CallbackId kCalls = 400;  // fewer than there are

void Enable(std::set<CUpti_CallbackId>& calls, CUpti_CallbackId call, bool enable) {
  if (enable) {
    calls.insert(call);
  } else {
    calls.erase(call);
  }
}

CuptiTable Table() {
  CuptiTable table;
  // A kind of calls enables all of them.
  table.ActivityEnable = [](CUpti_ActivityKind kind) {
    const CUptiResult result = Told("ActivityEnable");
    if (result != CUPTI_SUCCESS) return result;
    FakeCupti& fake = TheFakeCupti();
    fake.enabled.insert(kind);
    const bool runtime = kind == CUPTI_ACTIVITY_KIND_RUNTIME;
    if (!runtime && kind != CUPTI_ACTIVITY_KIND_DRIVER) return result;
    for (CUpti_CallbackId call = 1; call < kCalls; ++call) {
      Enable(runtime ? fake.runtime_calls : fake.driver_calls, call, true);
    }
    return result;
  };
  table.ActivityDisable = [](CUpti_ActivityKind kind) {
    TheFakeCupti().enabled.erase(kind);
    return CUPTI_SUCCESS;
  };
  table.ActivityEnableDriverApi = [](CUpti_CallbackId call, std::uint8_t enable) {
    Enable(TheFakeCupti().driver_calls, call, enable != 0);
    return Told("ActivityEnableDriverApi");
  };
  table.ActivityEnableRuntimeApi = [](CUpti_CallbackId call, std::uint8_t enable) {
    Enable(TheFakeCupti().runtime_calls, call, enable != 0);
    return Told("ActivityEnableRuntimeApi");
  };
  table.ActivityFlushAll = &FlushAll;
  table.ActivityGetNextRecord = &Next;
  table.ActivityGetNumDroppedRecords = [](CUcontext, std::uint32_t, std::size_t* dropped) {
    *dropped = std::exchange(TheFakeCupti().dropped, 0);
    return Told("ActivityGetNumDroppedRecords");
  };
  table.ActivityPushExternalCorrelationId = [](CUpti_ExternalCorrelationKind, std::uint64_t id) {
    TheFakeCupti().stack.push_back(id);
    TheFakeCupti().pushed.push_back(id);
    return Told("ActivityPushExternalCorrelationId");
  };
  table.ActivityPopExternalCorrelationId = [](CUpti_ExternalCorrelationKind, std::uint64_t* id) {
    auto& stack = TheFakeCupti().stack;
    if (stack.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
    *id = stack.back();
    stack.pop_back();
    return CUPTI_SUCCESS;
  };
  table.ActivityRegisterCallbacks = [](CUpti_BuffersCallbackRequestFunc asked,
                                       CUpti_BuffersCallbackCompleteFunc completed) {
    request = asked;
    complete = completed;
    return Told("ActivityRegisterCallbacks");
  };
  table.ActivityRegisterTimestampCallback = [](CUpti_TimestampCallbackFunc) {
    ++TheFakeCupti().timestamp_registrations;
    return Told("ActivityRegisterTimestampCallback");
  };
  table.ActivitySetAttribute = [](CUpti_ActivityAttribute, std::size_t*, void*) {
    return Told("ActivitySetAttribute");
  };
  table.EnableCallback = [](std::uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain,
                            CUpti_CallbackId) { return Told("EnableCallback"); };
  // The id of a node is its address.
  table.GetGraphNodeId = [](CUgraphNode node, std::uint64_t* id) {
    *id = reinterpret_cast<std::uintptr_t>(node);
    return CUPTI_SUCCESS;
  };
  table.GetResultString = [](CUptiResult, const char** text) {
    *text = "CUPTI_ERROR_OF_THE_TEST";
    return CUPTI_SUCCESS;
  };
  table.GetTimestamp = [](std::uint64_t* now) {
    *now = static_cast<std::uint64_t>(TheFakeCupti().now_ns);
    return Told("GetTimestamp");
  };
  table.GetVersion = [](std::uint32_t* version) {
    *version = CUPTI_API_VERSION;
    return CUPTI_SUCCESS;
  };
  table.Subscribe = [](CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback, void*) {
    if (Told("Subscribe") != CUPTI_SUCCESS) return TheFakeCupti().failure;
    ++TheFakeCupti().subscriptions;
    TheFakeCupti().resource = callback;
    *handle = reinterpret_cast<CUpti_SubscriberHandle>(&TheFakeCupti());
    return CUPTI_SUCCESS;
  };
  table.Unsubscribe = [](CUpti_SubscriberHandle) {
    --TheFakeCupti().subscriptions;
    return CUPTI_SUCCESS;
  };
  return table;
}

}  // namespace

FakeCupti& TheFakeCupti() {
  static FakeCupti fake;
  return fake;
}

void ResetFakeCupti() { TheFakeCupti() = FakeCupti(); }

CaptureSurroundings FakeSurroundings() {
  return {[](CuptiTable& table, char* why, std::size_t n) {
            table = Table();
            if (!TheFakeCupti().loads) std::snprintf(why, n, "libcupti was not found");
            return TheFakeCupti().loads;
          },
          [](const char* name) -> const char* {
            for (const auto& [known, value] : TheFakeCupti().environment) {
              if (known == name) return value.c_str();
            }
            return nullptr;
          },
          [] {
            ++TheFakeCupti().starts;
            return 0;
          },
          [] {
            ++TheFakeCupti().stops;
            return 0;
          }};
}

}  // namespace foretrain
#endif
