// The published figures of a device that models of single kernels need.
#pragma once

#include <algorithm>

namespace foretrain {

struct KernelMachine {
  int multiprocessors = 1;
  double half_flop_per_s = 0;     // dense peak at 16 bits; all formats' rates are shares of it
  double memory_bytes_per_s = 0;  // published
  // To the other devices of its unit, one direction: by links, else by PCIe. Without peer access
  // half of PCIe, because each byte passes it twice. 0: unknown, or no rate serves any pair (mesh).
  double link_bytes_per_s = 0;
  bool linked = false;            // by links, not by PCIe
  bool link_reduces = false;      // switches reduce (NVLink SHARP)
  bool halves_fp32_sums = false;  // DeviceSpec::halves_fp32_sums

  bool operator==(const KernelMachine&) const = default;
};

// FLOP per second of kernels that reach `share` of the 16-bit peak where sums cost nothing extra;
// their format's peak is `peak_share` times the 16-bit one. Halved sums leave a kernel twice as
// much time to load operands: it reaches twice the share, at most the peak.
inline double TensorRate(const KernelMachine& machine, double share, double peak_share = 1) {
  const double reached = machine.halves_fp32_sums ? std::min(2 * share, peak_share) : share;
  return reached * machine.half_flop_per_s;
}

}  // namespace foretrain
