// Counts the rows of a mixture of experts by destination, for ops whose sizes depend on the
// routers' choices. Leaves out how counts are made and where they lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "sim/program/ir/op.h"

namespace foretrain {

// Name of the router in its block that an op depends on: the part of the op's name before
// "experts.", which equals the part of the router's name before "router.". Empty in a layer;
// "ahead." and "ahead.1." in multi-token prediction (MTP) layers, which share the head's block.
inline std::string_view RouterOf(std::string_view op) {
  const std::size_t end = op.find("experts.");
  FT_CHECK(end != std::string_view::npos);
  return op.substr(0, end);
}

// Reads counts[members, pieces, all_experts] of (token, expert) pairs for the member `here` and the
// piece that `shape` names. Each member holds consecutive experts.
class RowCounts {
 public:
  RowCounts(const OpShape& shape, int here, const std::int32_t* counts)
      : shape_(shape), here_(here), counts_(counts) {}

  static std::int64_t Numbers(const OpShape& shape) {
    return std::int64_t{shape.members} * shape.pieces * shape.all_experts;
  }

  // Rows that this member sends to experts of `member`, and rows that `member` sends to experts
  // here.
  std::int64_t Sent(int member) const { return Of(here_, member); }
  std::int64_t Came(int member) const { return Of(member, here_); }
  std::int64_t AllSent() const {
    std::int64_t sum = 0;
    for (int member = 0; member < shape_.members; ++member) sum += Sent(member);
    return sum;
  }
  std::int64_t AllCame() const {
    std::int64_t sum = 0;
    for (int member = 0; member < shape_.members; ++member) sum += Came(member);
    return sum;
  }

 private:
  std::int64_t Of(int from, int to) const {
    const std::int64_t each = shape_.all_experts / shape_.members;
    const std::int64_t first =
        (std::int64_t{from} * shape_.pieces + shape_.piece) * shape_.all_experts + to * each;
    std::int64_t sum = 0;
    for (std::int64_t e = first; e < first + each; ++e) sum += counts_[e];
    return sum;
  }

  const OpShape& shape_;
  const int here_;
  const std::int32_t* const counts_;
};

}  // namespace foretrain
