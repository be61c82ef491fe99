// An NVML for tests: four GPUs connected as FAKE_LINKS says. 1: 0 and 1 by four NVLinks, the others
// by PCIe and the host. 2: all by 18 links to switches. 0: the library does not start.
#include <cstdio>
#include <cstring>

namespace {

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
struct Device {
  int number;
};
constexpr int kNotSupported = 3;
Device devices[4] = {{0}, {1}, {2}, {3}};

void SetPci(int number, PciInfo* pci) {
  std::memset(pci, 0, sizeof *pci);
  std::snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", 0x1B + number);
}

}  // namespace

extern "C" {
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
}
