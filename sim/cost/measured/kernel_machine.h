// The published figures of a device that models of single kernels need.
#pragma once

namespace foretrain {

struct KernelMachine {
  int multiprocessors = 1;
  double half_flop_per_s = 0;     // dense peak at 16 bits; all formats' rates are shares of it
  double memory_bytes_per_s = 0;  // published

  bool operator==(const KernelMachine&) const = default;
};

}  // namespace foretrain
