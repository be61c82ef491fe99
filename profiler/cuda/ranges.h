// NVTX ranges named after ops, for Nsight Systems and other tools. If none is attached, a range
// costs one pointer read, and no name is made.
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

  // Asks for a domain; NVTX returns none if no tool is attached.
  void Open() {
    if (domain_ == nullptr) domain_ = nvtxDomainCreateA("foretrain");
  }
  bool IsShown() const { return domain_ != nullptr; }

  // Ranges nest for each thread.
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
