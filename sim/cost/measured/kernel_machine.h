// The published figures of a device that models of single kernels need.
#pragma once

namespace foretrain {

struct KernelMachine {
  int multiprocessors = 1;
  double half_flop_per_s = 0;     // dense peak at 16 bits; all formats' rates are shares of it
  double memory_bytes_per_s = 0;  // published
  // To the other devices of its unit, one direction: by links, else by PCIe. Without peer access
  // half of PCIe, because each byte passes it twice. 0: unknown, or no rate serves any pair (mesh).
  double link_bytes_per_s = 0;
  bool linked = false;        // by links, not by PCIe
  bool link_reduces = false;  // switches reduce (NVLink SHARP)

  bool operator==(const KernelMachine&) const = default;
};

}  // namespace foretrain
