// An NVML for tests: four GPUs connected as FAKE_LINKS says. 1: 0 and 1 by four NVLinks, the others
// by PCIe and the host. 2: all by 18 links to switches. 0: the library does not start.
//
// GPU 1 is a Hopper with GPM counters, ECC and events; the others have none of these. Tests raise
// events by FakeNvmlRaise, or in another process by FORETRAIN_FAKE_XID=79, the number of an XID.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>

namespace {

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
struct Device {
  int number;
};
constexpr int kInvalidArgument = 2, kNotSupported = 3, kTimeout = 10;
Device devices[4] = {{0}, {1}, {2}, {3}};

void SetPci(int number, PciInfo* pci) {
  std::memset(pci, 0, sizeof *pci);
  std::snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", 0x1B + number);
}

// Structures of GPM and of events, as in NVML's manual.
struct GpmSupport {
  unsigned version, is_supported;
};
struct GpmMetric {
  unsigned id;
  int status;
  double value;
  const char* names[3];
};
struct GpmMetricsGet {
  unsigned version, count;
  int *from, *to;
  GpmMetric metrics[333];
};
struct EventData {
  Device* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
constexpr unsigned long long kEventTypes = 0x1 | 0x2 | 0x4 | 0x8;

// Percentages, and MiB a second. This GPU has no fp64 pipes to count.
struct GpmValue {
  unsigned id;
  double value;
};
constexpr GpmValue kGpmValues[] = {{2, 80},  {3, 40},  {4, 5},     {5, 60},    {10, 70},  {12, 20},
                                   {13, 10}, {20, 64}, {21, 1024}, {60, 2048}, {61, 4096}};

std::mutex mutex;
std::deque<EventData> events;                       // guarded by mutex
unsigned long long corrected = 2, uncorrected = 0;  // guarded by mutex
int samples_taken = 0;                              // guarded by mutex
int handles = 0;  // samples and event sets that were not freed; guarded by mutex

}  // namespace

extern "C" {
// An XID (type 0x8, its number in `data`), or an ECC error that was corrected (0x1) or not (0x2).
void FakeNvmlRaise(unsigned long long type, unsigned long long data) {
  const std::lock_guard<std::mutex> lock(mutex);
  corrected += type == 0x1;
  uncorrected += type == 0x2;
  events.push_back({&devices[1], type, data, ~0U, ~0U});
}
int FakeNvmlHandles() {
  const std::lock_guard<std::mutex> lock(mutex);
  return handles;
}
int nvmlInit_v2() { return FAKE_LINKS == 0 ? 9 : 0; }
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int) { return "Driver Not Loaded"; }
int nvmlSystemGetDriverVersion(char* version, unsigned n) {
  std::snprintf(version, n, "580.1");
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 4;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device** device) {
  *device = &devices[index];
  return index < 4 ? 0 : 2;
}
int nvmlDeviceGetName(Device*, char* name, unsigned n) {
  std::snprintf(name, n, "NVIDIA H200");
  return 0;
}
int nvmlDeviceGetPciInfo_v3(Device* device, PciInfo* pci) {
  SetPci(device->number, pci);
  return 0;
}
// 2 and 3 share one switch, 0 and 1 are below several; each pair has a NUMA node of its own.
int nvmlDeviceGetTopologyCommonAncestor(Device* a, Device* b, int* level) {
  const bool same_node = a->number / 2 == b->number / 2;
  *level = !same_node ? 50 : a->number / 2 == 1 ? 10 : 20;
  return 0;
}
int nvmlDeviceGetNvLinkState(Device* device, unsigned link, int* state) {
  const bool pair = FAKE_LINKS == 1 && device->number < 2 && link < 4;
  *state = pair || FAKE_LINKS == 2 ? 1 : 0;
  return 0;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device* device, unsigned, PciInfo* pci) {
  SetPci(1 - device->number, pci);
  return 0;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(Device*, unsigned, int* type) {
  *type = FAKE_LINKS == 2 ? 2 : 0;
  return 0;
}
// Readings of an older driver: GPU 1 has all of them, the others neither power nor PCIe link, as in
// a virtual machine.
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, Device** device) {
  for (Device& one : devices) {
    PciInfo pci;
    SetPci(one.number, &pci);
    if (std::strstr(pci.bus_id, bus_id) != nullptr) *device = &one;
  }
  return 0;
}
int nvmlDeviceGetClockInfo(Device* device, unsigned clock, unsigned* mhz) {
  *mhz = clock == 1 ? (device->number == 1 ? 1410 : 1411) : 2619;
  return 0;
}
int nvmlDeviceGetPowerUsage(Device* device, unsigned* milliwatts) {
  *milliwatts = 699'500;
  return device->number == 1 ? 0 : kNotSupported;
}
int nvmlDeviceGetTemperature(Device*, unsigned, unsigned* celsius) {
  *celsius = 71;
  return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(Device*, unsigned long long* reasons) {
  *reasons = 0x4;
  return 0;
}
int nvmlDeviceGetCurrPcieLinkGeneration(Device* device, unsigned* generation) {
  *generation = 5;
  return device->number == 1 ? 0 : kNotSupported;
}
int nvmlDeviceGetCurrPcieLinkWidth(Device* device, unsigned* lanes) {
  *lanes = 16;
  return device->number == 1 ? 0 : kNotSupported;
}
int nvmlDeviceGetTotalEccErrors(Device* device, int type, int, unsigned long long* count) {
  const std::lock_guard<std::mutex> lock(mutex);
  *count = type == 0 ? corrected : uncorrected;
  return device->number == 1 ? 0 : kNotSupported;
}
int nvmlDeviceGetUtilizationRates(Device*, unsigned* rates) {
  rates[0] = 37;
  rates[1] = 12;
  return 0;
}
int nvmlGpmQueryDeviceSupport(Device* device, GpmSupport* support) {
  support->is_supported = device->number == 1 ? 1 : 0;
  return support->version == 1 ? 0 : kInvalidArgument;
}
int nvmlGpmSampleAlloc(int** sample) {
  const std::lock_guard<std::mutex> lock(mutex);
  ++handles;
  *sample = new int(0);
  return 0;
}
int nvmlGpmSampleFree(int* sample) {
  const std::lock_guard<std::mutex> lock(mutex);
  --handles;
  delete sample;
  return 0;
}
int nvmlGpmSampleGet(Device* device, int* sample) {
  const std::lock_guard<std::mutex> lock(mutex);
  *sample = ++samples_taken;
  return device->number == 1 ? 0 : kNotSupported;
}
// Metrics between two samples in the wrong order, or between one and itself, are an error.
int nvmlGpmMetricsGet(GpmMetricsGet* get) {
  if (get->version != 1 || *get->from <= 0 || *get->from >= *get->to) return kInvalidArgument;
  for (unsigned i = 0; i < get->count; ++i) {
    GpmMetric& metric = get->metrics[i];
    metric.status = kNotSupported;
    for (const GpmValue& known : kGpmValues) {
      if (known.id != metric.id) continue;
      metric.value = known.value;
      metric.status = 0;
    }
  }
  return 0;
}
int nvmlDeviceGetSupportedEventTypes(Device* device, unsigned long long* types) {
  *types = device->number == 1 ? kEventTypes : 0;
  return 0;
}
int nvmlEventSetCreate(int** set) { return nvmlGpmSampleAlloc(set); }
int nvmlEventSetFree(int* set) { return nvmlGpmSampleFree(set); }
int nvmlDeviceRegisterEvents(Device* device, unsigned long long types, int*) {
  if (const char* const xid = std::getenv("FORETRAIN_FAKE_XID"); xid != nullptr) {
    FakeNvmlRaise(0x8, std::strtoull(xid, nullptr, 10));
  }
  return device->number == 1 && (types & ~kEventTypes) == 0 ? 0 : kNotSupported;
}
int nvmlEventSetWait_v2(int*, EventData* data, unsigned) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (events.empty()) return kTimeout;
  *data = events.front();
  events.pop_front();
  return 0;
}
}
