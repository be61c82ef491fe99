// Converts CUPTI's records to the records of base/device_api.h. Pure: calls no library.
#pragma once

#include <cupti.h>

#include <cstdint>

#include "base/device_api.h"

namespace foretrain {

// The oldest structures that have the fields we read. CUPTI only appends to a structure and names
// the longer one anew, so these read the records of CUDA 12.2 to 13 (docs/profiling.md).
using KernelRecord = CUpti_ActivityKernel9;
using CopyRecord = CUpti_ActivityMemcpy5;
using PeerCopyRecord = CUpti_ActivityMemcpyPtoP4;
using FillRecord = CUpti_ActivityMemset4;
using ApiRecord = CUpti_ActivityAPI;
using TagRecord = CUpti_ActivityExternalCorrelation;
using WaitRecord = CUpti_ActivitySynchronization;
using OverheadRecord = CUpti_ActivityOverhead;

// Content of our external ids: op and rank as a number of LabelTable, and the step.
struct ExternalId {
  std::uint32_t label = 0;
  std::int32_t step = 0;

  std::uint64_t Pack() const {
    return std::uint64_t{label} << 32 | static_cast<std::uint32_t>(step);
  }
  static ExternalId Unpack(std::uint64_t id) {
    return {static_cast<std::uint32_t>(id >> 32), static_cast<std::int32_t>(id & 0xFFFFFFFFU)};
  }
};

enum class ParsedRecord : std::uint8_t {
  kActivity,  // `activity` is filled; a kernel's name belongs to the library
  kTag,       // `activity` has the correlation, `external` its meaning
  kNothing,   // a kind, or another tool's id, without meaning for us
};

// Times are copied unchanged: 0 if none was taken.
ParsedRecord ParseRecord(const CUpti_Activity& record, FtActivity& activity, ExternalId& external);

}  // namespace foretrain
