// NVTX ranges with the names of ops, for Nsight Systems and other tools. Where none is attached a
// range costs the reading of a pointer, and no name is made.
#pragma once

#include <nvtx3/nvToolsExt.h>

namespace foretrain {

class Ranges {
 public:
  Ranges() = default;
  ~Ranges() {
    if (domain_ != nullptr) nvtxDomainDestroy(domain_);
  }
  Ranges(const Ranges&) = delete;
  Ranges& operator=(const Ranges&) = delete;

  // Asks whether a tool is there; NVTX hands out no domain without one.
  void Open() {
    if (domain_ == nullptr) domain_ = nvtxDomainCreateA("foretrain");
  }
  bool IsShown() const { return domain_ != nullptr; }

  // Ranges nest by thread.
  void Push(const char* name) const {
    if (domain_ == nullptr) return;
    nvtxEventAttributes_t attributes{};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = name != nullptr ? name : "op";
    nvtxDomainRangePushEx(domain_, &attributes);
  }
  void Pop() const {
    if (domain_ != nullptr) nvtxDomainRangePop(domain_);
  }

 private:
  nvtxDomainHandle_t domain_ = nullptr;
};

}  // namespace foretrain
