// Seconds of compute on a GPU from hot loops of single kernels (sim/cost/measured), its
// architecture's constants and the training system's kernels. For devices that `calibrate` did not
// measure. Leaves out communication, copies and host work.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "sim/config/cluster/cluster_spec.h"
#include "sim/config/plan/system_options.h"
#include "sim/cost/measured/kernel_forecast.h"
#include "sim/cost/profile/architecture.h"
#include "sim/program/ir/op.h"

namespace foretrain {

struct KernelModel {
  Architecture architecture;
  int multiprocessors = 1;
  double half_flop_per_s = 0;     // dense peak at 16 bits
  double fp8_flop_per_s = 0;      // dense peak at 8 bits; the 16-bit peak if there is none
  double fp4_flop_per_s = 0;      // dense peak at 4 bits; the next longer format's if there is none
  double memory_bytes_per_s = 0;  // published

  bool operator==(const KernelModel&) const = default;
};

// The model of `device`; `nullopt` if its architecture, multiprocessors or peaks are unknown.
std::optional<KernelModel> KernelModelOf(const DeviceSpec& device,
                                         const std::vector<Architecture>& architectures);

// Seconds of a compute op that moves `bytes`, with the kernels of `system`. `nullopt` for ops that
// are not arithmetic kernels, and for products and attention above 16 bits.
//
//   hot        single kernels of the device
//   GEMM       ProductSeconds. If the product does not accumulate weight gradients, a second kernel
//              reads gradient and sum and writes the sum.
//   attention  flash or cuDNN: kernel_s + max(flop / rate, bytes / bandwidth); ops that write their
//              scores: StandardAttentionSeconds
//   all else   kernel_s + bytes * passes / bandwidth; passes count what the system does not fuse
//   terms      takes the derivation; NULL: none
std::optional<double> KernelSeconds(const KernelModel& model, const KernelForecast& hot,
                                    const SystemOptions& system, const Op& op, double bytes,
                                    CostTerms* terms = nullptr);

// Seconds of a product in `format`, 16 bits or fewer: the hot loop's, divided by the sustained
// share of the rate. A format that the device's tensor cores lack takes the next longer one. If a
// side is not a multiple of 8, the rate halves; for groups it falls to unaligned_share.
double ProductSeconds(const KernelModel& model, const KernelForecast& hot, NumberFormat format,
                      const ProductShape& shape, CostTerms* terms = nullptr);

// Seconds of attention that writes its scores, 16 bits each, including the masked half. Forward:
// QK^T, scale + mask + softmax, dropout, PV. Backward: four gradient products, dropout and softmax.
// Values may be wider than keys. [Megatron-LM; Korthikanti et al. 2022]
//
//   fused  scale, mask and softmax are one kernel; otherwise one each, and backward softmax and
//   scale
double StandardAttentionSeconds(const KernelModel& model, const KernelForecast& hot, const Op& op,
                                bool fused = true, CostTerms* terms = nullptr);

}  // namespace foretrain
