// A tool that NVTX loads if NVTX_INJECTION64_PATH names it. It writes the name of each range to the
// file FORETRAIN_FAKE_NVTX, and "end" where a range ends without one that began.
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace {

std::mutex mutex;
thread_local int open_ranges = 0;

void Write(const char* line) {
  const std::lock_guard<std::mutex> lock(mutex);
  static std::FILE* const file = std::fopen(std::getenv("FORETRAIN_FAKE_NVTX"), "w");
  if (file == nullptr) return;
  std::fprintf(file, "%s\n", line);
  std::fflush(file);
}

nvtxDomainHandle_t Create(const char* name) {
  Write(name);
  return reinterpret_cast<nvtxDomainHandle_t>(&mutex);
}
int Push(nvtxDomainHandle_t, const nvtxEventAttributes_t* attributes) {
  Write(attributes->message.ascii);
  return open_ranges++;
}
int Pop(nvtxDomainHandle_t) {
  if (--open_ranges < 0) Write("end");
  return open_ranges;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_table) {
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned count = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &count) == 0) return 0;
  *functions[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(&Create);
  *functions[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(&Push);
  *functions[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(&Pop);
  return 1;
}
