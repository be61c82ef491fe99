#include "traces/metrics/gpu/faults.h"

#include <array>
#include <cmath>
#include <optional>
#include <tuple>

namespace foretrain {
namespace {

struct XidText {
  int xid;
  FaultText text;
};

// In short words from NVIDIA's XID catalog (docs.nvidia.com/deploy/xid-errors): description, and
// the immediate or the usual action.
constexpr std::array kXids{
    XidText{13,
            {"a kernel left the bounds of an array or ran an illegal instruction",
             "run the program under compute-sanitizer"}},
    XidText{31,
            {"a kernel accessed an illegal address (memory page fault)",
             "run the program under compute-sanitizer"}},
    XidText{43,
            {"it stopped working for a program after a fault of that program, and is healthy",
             "look for the program's own error"}},
    XidText{45,
            {"a program's work was removed, because the program ended or an error came before",
             "look for another XID before this one"}},
    XidText{48,
            {"a memory error that ECC cannot correct (double bit)",
             "reset the GPU or restart the machine"}},
    XidText{63,
            {"a faulty row of its memory is to be remapped",
             "training may go on; reset the GPU when convenient, which remaps the row"}},
    XidText{64,
            {"a faulty row of its memory could not be remapped",
             "reset the GPU, and contact its vendor if this happens again"}},
    XidText{74,
            {"an NVLink connection failed, at this GPU or at its remote end",
             "reset the GPU or restart the machine, and look at `nvidia-smi nvlink -e`"}},
    XidText{79,
            {"it has fallen off the PCIe bus",
             "restart the machine, and contact its vendor if this happens again"}},
    XidText{92,
            {"ECC corrects memory errors at a high rate",
             "training may go on; contact the vendor if this happens again"}},
    XidText{94,
            {"a memory error, contained in one program",
             "start that program again, and reset the GPU when convenient"}},
    XidText{95,
            {"a memory error, not contained in one program",
             "reset the GPU before any program uses it again"}},
    XidText{119,
            {"its system processor (GSP) did not answer the driver",
             "reset the GPU, and switch the machine off and on if this happens again"}},
};

// The kind of ECC errors that a series counts.
std::optional<GpuFaultKind> EccKind(std::string_view series) {
  if (series == "gpu_ecc_uncorrected") return GpuFaultKind::kUncorrectedEcc;
  if (series == "gpu_ecc_corrected") return GpuFaultKind::kCorrectedEcc;
  return std::nullopt;
}

}  // namespace

FaultText TextOf(const GpuFault& fault) {
  if (fault.kind == GpuFaultKind::kUncorrectedEcc) {
    return {"memory errors that ECC could not correct", "reset the GPU or restart the machine"};
  }
  if (fault.kind == GpuFaultKind::kCorrectedEcc) {
    return {"memory errors that ECC corrected", "nothing is to be done while they are rare"};
  }
  for (const XidText& known : kXids) {
    if (known.xid == fault.xid) return known.text;
  }
  return {"not one of the common errors",
          "look it up in NVIDIA's XID catalog (docs.nvidia.com/deploy/xid-errors)"};
}

std::string Describe(const GpuFault& fault, std::string_view bus_id) {
  const FaultText text = TextOf(fault);
  std::string out = "rank " + std::to_string(fault.rank) + "'s GPU";
  if (!bus_id.empty()) out += " " + std::string(bus_id);
  out += " reported ";
  if (fault.kind == GpuFaultKind::kXid) {
    out += "XID " + std::to_string(fault.xid);
    if (fault.count > 1) out += " " + std::to_string(fault.count) + " times";
    out += ": ";
  } else {
    out += std::to_string(fault.count) + " ";
  }
  return out + std::string(text.meaning) + "; " + std::string(text.remedy);
}

// ECC counts only grow until the driver is loaded again; a smaller one starts a new count.
std::vector<GpuFault> GpuFaultWatch::Take(std::span<const Counter> counters) {
  std::map<std::tuple<int, GpuFaultKind, int>, GpuFault> faults;
  const auto add = [&faults](const Counter& at, GpuFaultKind kind, int xid, std::int64_t count) {
    GpuFault& fault = faults[{at.rank, kind, xid}];
    if (fault.count == 0) fault = {kind, at.rank, xid, 0, at.time_ns};
    fault.count += count;
  };
  for (const Counter& counter : counters) {
    // Bounds what a file may say.
    if (!(counter.value >= 0 && counter.value < 0x1p53)) continue;
    if (counter.name == "gpu_xid" && counter.value <= 0xFFFF) {
      add(counter, GpuFaultKind::kXid, static_cast<int>(counter.value), 1);
    }
    const std::optional<GpuFaultKind> kind = EccKind(counter.name);
    if (!kind) continue;
    const auto [before, first] = counts_.try_emplace({counter.rank, *kind}, counter.value);
    const auto grown = static_cast<std::int64_t>(counter.value - before->second);
    if (grown > 0) add(counter, *kind, 0, grown);
    before->second = counter.value;
  }
  std::vector<GpuFault> out;
  for (const auto& [key, fault] : faults) out.push_back(fault);
  return out;
}

std::vector<GpuFault> GpuFaultsOf(std::span<const Counter> counters) {
  return GpuFaultWatch().Take(counters);
}

}  // namespace foretrain
