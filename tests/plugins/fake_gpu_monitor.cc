// A driver and its monitor for tests, with two GPUs. The second one's power and PCIe link are not
// told, as in a virtual machine. nvmlInit_v2 answers FAKE_INIT.
#include <cstring>

#define FT_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kNotSupported = 3;
int gpus[2] = {0, 1};

int NumberOf(const void* gpu) { return *static_cast<const int*>(gpu); }

}  // namespace

FT_EXPORT int cuInit(unsigned) { return 0; }
// CUDA's device 0 is the GPU that the monitor would list second.
FT_EXPORT int cuDeviceGet(int* handle, int device) {
  *handle = device;
  return device < 2 ? 0 : 101;
}
FT_EXPORT int cuDeviceGetPCIBusId(char* text, int, int handle) {
  std::strcpy(text, handle == 0 ? "0000:65:00.0" : "0000:17:00.0");
  return 0;
}

FT_EXPORT int nvmlInit_v2() { return FAKE_INIT; }
FT_EXPORT int nvmlShutdown() { return 0; }
FT_EXPORT const char* nvmlErrorString(int result) {
  return result == 9 ? "Driver Not Loaded" : "Unknown Error";
}
FT_EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** gpu) {
  *gpu = &gpus[std::strcmp(bus_id, "0000:65:00.0") == 0 ? 0 : 1];
  return 0;
}
FT_EXPORT int nvmlDeviceGetClockInfo(void* gpu, unsigned clock, unsigned* mhz) {
  *mhz = clock == 1 ? 1410 + static_cast<unsigned>(NumberOf(gpu)) : 2619;
  return 0;
}
FT_EXPORT int nvmlDeviceGetPowerUsage(void* gpu, unsigned* milliwatts) {
  *milliwatts = 699'500;
  return NumberOf(gpu) == 0 ? 0 : kNotSupported;
}
FT_EXPORT int nvmlDeviceGetTemperature(void*, unsigned, unsigned* celsius) {
  *celsius = 71;
  return 0;
}
// The name of older drivers alone.
FT_EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
  *reasons = 0x4;
  return 0;
}
FT_EXPORT int nvmlDeviceGetCurrPcieLinkGeneration(void* gpu, unsigned* generation) {
  *generation = 5;
  return NumberOf(gpu) == 0 ? 0 : kNotSupported;
}
FT_EXPORT int nvmlDeviceGetCurrPcieLinkWidth(void* gpu, unsigned* lanes) {
  *lanes = 16;
  return NumberOf(gpu) == 0 ? 0 : kNotSupported;
}
