#include "profiler/cuda/activity_records.h"

#include <algorithm>
#include <span>

#include "profiler/cuda/launch_calls.h"

namespace foretrain {
namespace {

// The kind has been checked by the caller.
template <class Record>
const Record& As(const CUpti_Activity& record) {
  return reinterpret_cast<const Record&>(record);
}

template <class Record>
void FillTimes(const Record& record, FtActivityKind kind, FtActivity& activity) {
  activity.kind = kind;
  activity.start_ns = static_cast<std::int64_t>(record.start);
  activity.end_ns = static_cast<std::int64_t>(record.end);
  if constexpr (requires { record.correlationId; }) activity.correlation = record.correlationId;
}

// Device, stream and graph node, which only device work has.
template <class Record>
void FillWork(const Record& record, FtActivityKind kind, FtActivity& activity) {
  FillTimes(record, kind, activity);
  activity.graph_node = record.graphNodeId;
  activity.device = static_cast<std::int32_t>(record.deviceId);
  activity.stream = static_cast<std::int32_t>(record.streamId);
}

template <class Record>
void FillBytes(const Record& record, FtActivityKind kind, FtActivity& activity) {
  FillWork(record, kind, activity);
  activity.bytes = static_cast<std::int64_t>(record.bytes);
}

FtKernelLaunch LaunchOf(const KernelRecord& record) {
  return {.grid = {record.gridX, record.gridY, record.gridZ},
          .block = {record.blockX, record.blockY, record.blockZ},
          .registers = record.registersPerThread,
          .static_shared_bytes = record.staticSharedMemory,
          .dynamic_shared_bytes = record.dynamicSharedMemory};
}

// Other calls than launches are recorded if CUPTI cannot choose calls.
ParsedRecord ParseCall(const ApiRecord& record, std::span<const CUpti_CallbackId> launches,
                       FtActivity& activity) {
  if (std::find(launches.begin(), launches.end(), record.cbid) == launches.end()) {
    return ParsedRecord::kNothing;
  }
  FillTimes(record, FT_ACTIVITY_LAUNCH, activity);
  return ParsedRecord::kActivity;
}

}  // namespace

// CUPTI's records share a header with their kind; the kind decides the structure after it. Tags of
// other tools (another external kind) are ignored.
ParsedRecord ParseRecord(const CUpti_Activity& record, FtActivity& activity, ExternalId& external) {
  activity = FtActivity{};
  activity.op_id = -1;
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL:
      FillWork(As<KernelRecord>(record), FT_ACTIVITY_KERNEL, activity);
      activity.name = As<KernelRecord>(record).name;
      activity.launch = LaunchOf(As<KernelRecord>(record));
      return ParsedRecord::kActivity;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      FillBytes(As<CopyRecord>(record), FT_ACTIVITY_COPY, activity);
      return ParsedRecord::kActivity;
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      FillBytes(As<PeerCopyRecord>(record), FT_ACTIVITY_COPY, activity);
      return ParsedRecord::kActivity;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      FillBytes(As<FillRecord>(record), FT_ACTIVITY_FILL, activity);
      return ParsedRecord::kActivity;
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      return ParseCall(As<ApiRecord>(record), kRuntimeLaunches, activity);
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return ParseCall(As<ApiRecord>(record), kDriverLaunches, activity);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      FillTimes(As<WaitRecord>(record), FT_ACTIVITY_WAIT, activity);
      return ParsedRecord::kActivity;
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      FillTimes(As<OverheadRecord>(record), FT_ACTIVITY_OVERHEAD, activity);
      return ParsedRecord::kActivity;
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const TagRecord& tag = As<TagRecord>(record);
      if (tag.externalKind != CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0) {
        return ParsedRecord::kNothing;
      }
      activity.kind = FT_ACTIVITY_TAG;
      activity.correlation = tag.correlationId;
      external = ExternalId::Unpack(tag.externalId);
      return ParsedRecord::kTag;
    }
    default:
      return ParsedRecord::kNothing;
  }
}

}  // namespace foretrain
