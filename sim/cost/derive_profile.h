// A device profile from published peaks, for machines that were not measured. Leaves out
// measurement: runtime/calibrate.
#pragma once

#include "sim/cost/device_profile.h"
#include "sim/spec/cluster_spec.h"

namespace foretrain {

// The profile of a device of `cluster` by assumption: every figure is marked kDefault, and
// `assumptions` says so for people. Where the peak of a format is not published, the next known one
// stands in: fp8, bf16, fp16, tf32, fp32, each way, and `assumptions` names it.
//
// Of a GPU whose architecture is known (sim/cost/architectures.json): kernels, which price its
// compute in 16 bits or fewer one by one, and rates that agree with them. What follows serves all
// else, all unproven on the machine at hand:
//   GEMM       0.75 of the dense peak for large ones (of 183 shapes on A100 published by SimuMax,
//              p10 0.62, median 0.72, p90 0.76), and 6 us each for filling and draining the device,
//              which halves the rate of a GEMM of about 1.4 GFLOP on A100
//   attention  0.5 forward, 0.4 backward of the peak, causal half counted (Dao 2023, figure 4)
//   memory     0.85 of the peak bandwidth (Calculon 0.90 from 100 MB, SimuMax 0.91 on A100)
//   kernel     3 us each; 1.5 us between kernels; 2 us to wake; launch: the system's host_op_s
//   links, PCIe, network   a share of the rate and hops by networks.csv and collectives.csv.
//              Devices behind one PCIe switch share its connection to the host; devices without
//              access to each other pass all through the host's memory, twice over PCIe.
//   host       0.7 of its memory's rate (200 GB/s where it is not known), shared by the ranks of a
//              node; 10 GB/s a core where these are known
//   overlap    compute takes 1.1 times as long while communication runs beside it: between the 2 %
//              and 15 % of multiprocessors that Calculon charges for network and links
// A CPU rank whose rates are unknown is taken to have 50 GFLOP/s and 8 GB/s. `system` says what
// software runs on the devices; a CPU runs ours.
DeviceProfile DeriveProfile(const ClusterSpec& cluster, const SystemOptions& system = {});

// The published peak of products in `format`, or the one that stands in for it; of fp32 its own.
// FLOP/s, 0: unknown.
double PublishedPeak(const DeviceSpec& device, NumberFormat format);

}  // namespace foretrain
