// Seconds of collectives in a hot loop among devices of one node or link domain.
// Leaves out groups that cross a network: sim/cost/network/communication_cost.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "sim/cost/measured/kernel_machine.h"
#include "sim/cost/measured/residual_field.h"
#include "sim/program/ir/op.h"

namespace foretrain {

// The kinds with a model, by the names of tables and profiles.
struct MeasuredCollective {
  std::string_view name;
  OpKind kind;
};
inline constexpr std::size_t kCollectiveCount = 4;
inline constexpr std::array<MeasuredCollective, kCollectiveCount> kMeasuredCollectives = {
    {{"all_gather", OpKind::kAllGather},
     {"all_reduce", OpKind::kAllReduce},
     {"alltoall", OpKind::kAllToAll},
     {"reduce_scatter", OpKind::kReduceScatter}}};

// Position in kMeasuredCollectives; `nullopt` if the kind or name has no model.
std::optional<std::size_t> CollectiveAt(OpKind kind);
std::optional<std::size_t> CollectiveAt(std::string_view name);

// Bytes of the whole tensor: the input of all-reduce and reduce-scatter, the output of all-gather,
// all that one device sends in an all-to-all with the part that it keeps. Both counts > 0.
struct CollectiveShape {
  std::int64_t bytes = 1;
  std::int64_t members = 2;

  bool operator==(const CollectiveShape&) const = default;
};

// Constants of one device and kind, fitted to measured collectives.
struct CollectiveTerms {
  double base_s = 6e-6;      // start of the kernel and of its protocol
  double hop_s = 1e-6;       // for each member beyond the first
  double link_share = 0.75;  // of the published link rate, for large tensors
  double ramp = 1;           // extra time of middle sizes, whose protocols and chunks are slower

  bool operator==(const CollectiveTerms&) const = default;
};

// Seconds from the arrival of the last member, with n members and B bytes:
//
//   latency + transfer + ramp * sqrt(latency * transfer)
//   latency   base + (n - 1) hop
//   transfer  passes (n - 1) / n B / (link_share * link rate); all-reduce has 2 passes, others 1
//
// The ring's counts of hops and bytes [1]; protocols between small and large sizes are in the ramp.
// `kind` is one of kMeasuredCollectives; machine.link_bytes_per_s > 0.
//
// [1] Thakur et al. 2005, s. 3 and 4
double CollectiveModelSeconds(const CollectiveTerms& terms, const KernelMachine& machine,
                              OpKind kind, const CollectiveShape& shape);

// Position in a residual field: log2 of bytes, and twice log2 of members.
FieldPoint PointOf(const CollectiveShape& shape);

}  // namespace foretrain
