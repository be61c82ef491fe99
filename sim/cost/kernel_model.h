// Seconds of compute on a GPU from its published peaks, its architecture's constants and the
// kernels that a training system has. For devices that were not measured; leaves out communication,
// copies and host work.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "sim/cost/architecture.h"
#include "sim/program/op.h"
#include "sim/spec/cluster_spec.h"
#include "sim/spec/system_options.h"

namespace foretrain {

struct KernelModel {
  Architecture architecture;
  int multiprocessors = 1;
  double half_flop_per_s = 0;     // dense peak at 16 bits
  double fp8_flop_per_s = 0;      // dense peak at 8 bits; as at 16 where there is none
  double fp4_flop_per_s = 0;      // likewise at 4 bits
  double memory_bytes_per_s = 0;  // published

  bool operator==(const KernelModel&) const = default;
};

// The model of `device`; nothing where its architecture, multiprocessors or peaks are not known.
std::optional<KernelModel> KernelModelOf(const DeviceSpec& device,
                                         const std::vector<Architecture>& architectures);

// Seconds of a compute op that moves `bytes`, by the kernels that `system` has; nothing for ops
// that are no kernel of arithmetic and for products and attention of more than 16 bits.
//
//   GEMM       kernel_s + max(waves * tile, bytes / bandwidth), the best of eight tile shapes and
//              four splits of k: GemmSeconds; where the system does not add weight gradients up in
//              the product a kernel more, which reads gradient and sum and writes the sum
//   attention  flash or cuDNN: kernel_s + max(flop / rate, bytes / bandwidth); of ops that write
//              their scores out StandardAttentionSeconds
//   all else   kernel_s + bytes * passes / bandwidth, passes for what the system does not fuse
std::optional<double> KernelSeconds(const KernelModel& model, const SystemOptions& system,
                                    const Op& op, double bytes);

// `batch` products [m, k] x [k, n] in `format`, of 16 bits or fewer.
//
// A tile [tm, tn] takes tile_s + max(2 tm tn k / rate of a multiprocessor, 2 (tm + tn) k / its
// share of L2); tiles run in waves of one a multiprocessor, the last of which counts in full [1].
// Where m, n or k is no multiple of 8 the rate halves, of a batch of several products it falls to
// unaligned_share.
//
// [1] NVIDIA, Matrix Multiplication Background User's Guide, tile and wave quantization
double GemmSeconds(const KernelModel& model, NumberFormat format, std::int64_t batch,
                   std::int64_t m, std::int64_t n, std::int64_t k, double bytes);

// Attention that writes its scores out, a 16-bit number each, all of them though half are masked:
// forward QK^T, scale + mask + softmax, dropout, PV; backward the four products of their
// gradients, dropout and softmax. Values may be wider. [Megatron-LM; Korthikanti et al. 2022]
double StandardAttentionSeconds(const KernelModel& model, const Op& op);

}  // namespace foretrain
