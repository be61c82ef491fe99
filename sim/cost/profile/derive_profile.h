// A device profile from published peaks, for machines that were not measured. runtime/calibrate
// measures profiles.
#pragma once

#include "sim/config/cluster/cluster_spec.h"
#include "sim/cost/profile/device_profile.h"

namespace foretrain {

// The assumed profile of a device of `cluster`. Every value is marked kDefault, and `assumptions`
// says so for people. If the peak of a format is not published, the next known one replaces it:
// fp8, bf16, fp16, tf32, fp32, in either direction. `assumptions` names it.
//
// If the GPU's architecture is known (sim/cost/profile/architectures.json), its kernel model prices
// compute in 16 bits or fewer, and rates agree with it. Everything else uses these defaults,
// unproven on the machine:
//   GEMM       0.75 of the dense peak for large ones (of 183 shapes on A100 published by SimuMax,
//              p10 0.62, median 0.72, p90 0.76). Filling and draining the device takes 6 us each,
//              which halves the rate of a GEMM of about 1.4 GFLOP on A100.
//   attention  0.5 forward, 0.4 backward of the peak, causal half counted (Dao 2023, figure 4).
//   memory     0.85 of the peak bandwidth (Calculon 0.90 from 100 MB, SimuMax 0.91 on A100).
//   kernel     3 us each; 1.5 us between kernels; 2 us to wake; launch: the system's host_op_s.
//   links, PCIe, network   a share of the rate, and hops from networks.csv and collectives.csv.
//              Devices behind one PCIe switch share its connection to the host. Devices without
//              peer access pass everything through host memory, twice over PCIe.
//   host       0.7 of its memory's rate (200 GB/s if unknown), shared by the ranks of a node;
//              10 GB/s per core if these are known.
//   overlap    compute takes 1.1 times as long while communication overlaps it: between the 2 %
//              and 15 % of multiprocessors that Calculon charges for network and links.
// A CPU rank with unknown rates is taken to have 50 GFLOP/s and 8 GB/s. `system` is the software on
// the devices; a CPU runs ours.
DeviceProfile DeriveProfile(const ClusterSpec& cluster, const SystemOptions& system = {});

// The published peak of products in `format`, or its replacement; fp32 has none. FLOP/s, 0:
// unknown.
double PublishedPeak(const DeviceSpec& device, NumberFormat format);
// The format whose peak that is.
NumberFormat PublishedPeakFormat(const DeviceSpec& device, NumberFormat format);

}  // namespace foretrain
