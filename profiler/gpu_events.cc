#include "profiler/gpu_events.h"

#include <utility>

namespace foretrain {
namespace {

// Structures and numbers of NVML's event functions, from its reference manual.
constexpr int kSuccess = 0;
constexpr unsigned long long kSingleBitEcc = 0x1, kDoubleBitEcc = 0x2, kXid = 0x8;
constexpr int kMaxTaken = 64;  // of one call, so that a burst of events cannot hold the caller

struct EventData {  // nvmlEventData_t
  NvmlDevice* device = nullptr;
  unsigned long long type = 0;
  unsigned long long data = 0;  // the number of an XID
  unsigned gpu_instance = 0, compute_instance = 0;
};

}  // namespace

struct GpuEvents::Functions {
  int (*supported)(NvmlDevice*, unsigned long long*) = nullptr;
  int (*create)(void**) = nullptr;
  int (*free)(void*) = nullptr;
  int (*subscribe)(NvmlDevice*, unsigned long long, void*) = nullptr;
  int (*wait)(void*, EventData*, unsigned) = nullptr;
};

GpuEvents::GpuEvents(std::unique_ptr<Functions> functions) : functions_(std::move(functions)) {}

GpuEvents::~GpuEvents() {
  if (set_ != nullptr) functions_->free(set_);
}

// Each GPU has a set of its own, so an event needs no search for its GPU.
std::unique_ptr<GpuEvents> GpuEvents::Open(const Nvml& nvml, NvmlDevice* gpu) {
  auto functions = std::make_unique<Functions>();
  Functions& f = *functions;
  const bool found = nvml.Find("nvmlDeviceGetSupportedEventTypes", f.supported) &&
                     nvml.Find("nvmlEventSetCreate", f.create) &&
                     nvml.Find("nvmlEventSetFree", f.free) &&
                     nvml.Find("nvmlDeviceRegisterEvents", f.subscribe) &&
                     nvml.Find("nvmlEventSetWait_v2", f.wait);
  unsigned long long types = 0;
  if (!found || f.supported(gpu, &types) != kSuccess) return nullptr;
  types &= kSingleBitEcc | kDoubleBitEcc | kXid;
  if (types == 0) return nullptr;
  std::unique_ptr<GpuEvents> out(new GpuEvents(std::move(functions)));
  if (f.create(&out->set_) != kSuccess || f.subscribe(gpu, types, out->set_) != kSuccess) {
    return nullptr;
  }
  return out;
}

// A timeout of 0 returns at once if no event is there.
GpuEvents::Taken GpuEvents::Take() const {
  Taken taken;
  for (int i = 0; i < kMaxTaken; ++i) {
    EventData event;
    if (functions_->wait(set_, &event, /*timeout_ms=*/0) != kSuccess) break;
    if (event.type == kXid) {
      taken.xids.push_back(static_cast<int>(event.data));
    } else {
      taken.memory_error = true;
    }
  }
  return taken;
}

}  // namespace foretrain
