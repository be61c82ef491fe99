// Seconds of the exchange of experts' tokens in a hot loop: dispatch sends each token once to every
// device that has one of its experts, combine returns and adds the results [1].
// Leaves out the low-latency kernels of inference, and unequal loads of the devices.
//
// [1] deepseek-ai/DeepEP, README.md, "Normal kernels with NVLink and RDMA forwarding"
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/cost/measured/kernel_machine.h"
#include "sim/cost/measured/residual_field.h"

namespace foretrain {

// Dispatch moves fp8 with one fp32 scale for 128 elements, combine moves 16 bits.
enum class ExchangePart : std::uint8_t { kDispatch, kCombine };
inline constexpr std::size_t kExchangePartCount = 2;
std::string_view Name(ExchangePart part);  // "dispatch", "combine"

// Counts > 0; topk <= experts.
struct ExchangeShape {
  std::int64_t nodes = 1;
  std::int64_t hidden = 1, tokens = 1, topk = 1, experts = 1;  // tokens of one device
  std::int64_t multiprocessors = 20;                           // that the kernel holds
  std::int64_t node_devices = 8;
  // One device's rate in one direction. 0: the network of the machine that was measured, with its
  // own slowdown beyond four nodes (ExchangeTerms::far_share).
  double network_bytes_per_s = 0;

  bool operator==(const ExchangeShape&) const = default;
};

// Distinct devices and nodes that an average token goes to.
struct TokenCopies {
  double devices = 1;
  double far_nodes = 0;  // nodes other than the token's own
};

// Experts are equally likely, and each unit holds as many. Of more than four nodes a token uses
// four, as DeepEP's benchmark and DeepSeek-V3 route [1, tests/test_internode.py; 2, s. 3.2.2].
//
//   devices    u (1 - product over i < topk of (E - E/u - i) / (E - i)), at most topk, with u
//   devices
//              and E experts
//   far_nodes  the same with u nodes, less the share (1 / nodes) that stays
//
// [2] DeepSeek-V3 technical report, 2024
TokenCopies CopiesOf(const ExchangeShape& shape);

// Constants of one device and part, fitted to measured exchanges.
struct ExchangeTerms {
  double launch_s = 40e-6;         // fixed cost of the kernels
  double token_s = 1e-7;           // of one token on one multiprocessor, without its bytes
  double unit_bytes_per_s = 20e9;  // of one multiprocessor
  double own_copies = 0.5;         // a multiprocessor's work on the token itself, in copies
  double far_copies = 1;           // its work for one far node, in copies
  double link_share = 0.8;         // of the published link rate
  double network_share = 0.8;      // of the network's rate
  double far_share = 0.9;          // of the measured network's rate, among more than four nodes
  double overlap = 2;              // 0: multiprocessors, links and network add up

  bool operator==(const ExchangeTerms&) const = default;
};

// Seconds of one part with T tokens of b bytes and q = 1 + overlap:
//
//   launch + (work^q + link^q + network^q)^(1/q)
//   work     T (b (own_copies + devices + far_copies * far_nodes) / unit rate + token) / units
//   link     T b devices (1 - 1 / node_devices) / (link_share * link rate)
//   network  T b far_nodes / (network_share * network rate)
//
// machine.link_bytes_per_s > 0. O(topk).
double ExchangeModelSeconds(const ExchangeTerms& terms, const KernelMachine& machine,
                            ExchangePart part, const ExchangeShape& shape);

// Position in a residual field: log2 of the sizes; nodes, hidden and degrees with their weights.
FieldPoint PointOf(const ExchangeShape& shape);

}  // namespace foretrain
