#include <cstddef>
#include <vector>

#include "sim/memory/peak_memory.h"

namespace foretrain {
namespace {

// Buffers by the op at which they begin to live, and by the op after which they end.
struct Lives {
  std::vector<std::vector<const Buffer*>> begin;
  std::vector<std::vector<const Buffer*>> end;
};

}  // namespace

// One sweep over the ops. Buffers of an op begin before and end after it is compared, so all
// operands of an op count as live together. The first op with the maximum is kept.
PeakMemory LinkedPeak(const RankProgram& rank, Space space,
                      std::int64_t (*taken)(std::int64_t bytes)) {
  const auto add = [taken](const Buffer& buffer, int sign, PeakMemory& live) {
    const bool other = taken != nullptr && buffer.bytes > 0;
    const std::int64_t bytes = sign * (other ? taken(buffer.bytes) : buffer.bytes);
    live.bytes[static_cast<std::size_t>(buffer.category)] += bytes;
    live.total += bytes;
  };
  const auto ops = static_cast<std::size_t>(rank.op_count);
  Lives lives{std::vector<std::vector<const Buffer*>>(ops),
              std::vector<std::vector<const Buffer*>>(ops)};
  PeakMemory live;
  for (const Buffer& buffer : rank.buffers) {
    if (buffer.space != space) continue;
    if (buffer.persistent) {
      add(buffer, 1, live);
    } else if (buffer.first_op >= 0 && buffer.last_op < rank.op_count) {
      lives.begin[static_cast<std::size_t>(buffer.first_op)].push_back(&buffer);
      lives.end[static_cast<std::size_t>(buffer.last_op)].push_back(&buffer);
    }
  }
  PeakMemory peak = live;
  for (std::size_t op = 0; op < ops; ++op) {
    for (const Buffer* buffer : lives.begin[op]) add(*buffer, 1, live);
    if (live.total > peak.total) {
      peak = live;
      peak.op = static_cast<std::int32_t>(op);
    }
    for (const Buffer* buffer : lives.end[op]) add(*buffer, -1, live);
  }
  return peak;
}

}  // namespace foretrain
