// How many rows of a mixture of experts go where: what ops look up whose sizes follow the routers'
// choices. Leaves out how the counts come about and where they lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "sim/program/op.h"

namespace foretrain {

// Which router of its block an op that follows counts, or reads them, goes by: the part of its name
// before "experts.", which is that of the router's own name before "router.". Nothing in a layer;
// "ahead." and "ahead.1." of the layers that predict ahead, which share the head's block.
inline std::string_view RouterOf(std::string_view op) {
  const std::size_t end = op.find("experts.");
  FT_CHECK(end != std::string_view::npos);
  return op.substr(0, end);
}

// Pairs of a token and an expert by counts[members, pieces, all_experts], of which each member
// holds consecutive experts, for the member `here` and the piece that `shape` names.
class RowCounts {
 public:
  RowCounts(const OpShape& shape, int here, const std::int32_t* counts)
      : shape_(shape), here_(here), counts_(counts) {}

  static std::int64_t Numbers(const OpShape& shape) {
    return std::int64_t{shape.members} * shape.pieces * shape.all_experts;
  }

  // Rows that this member has for experts of `member`, and that one for experts here.
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
