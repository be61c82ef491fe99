#include "sim/memory/linked_peak.h"

#include <cstddef>

namespace foretrain {
namespace {

using Parts = std::array<std::array<std::int64_t, kCategoryCount>, kSpaceCount>;

std::int64_t& PartOf(Parts& parts, const Buffer& buffer) {
  return parts[static_cast<std::size_t>(buffer.space)][static_cast<std::size_t>(buffer.category)];
}

std::int64_t Sum(const std::array<std::int64_t, kCategoryCount>& parts) {
  std::int64_t sum = 0;
  for (const std::int64_t part : parts) sum += part;
  return sum;
}

void Raise(const Parts& live, std::int32_t op, RankPeak& peak) {
  for (std::size_t space = 0; space < kSpaceCount; ++space) {
    const std::int64_t bytes = Sum(live[space]);
    if (bytes > peak.spaces[space].bytes) peak.spaces[space] = {bytes, op, live[space]};
  }
}

// Buffers by the op at which they begin, and by the op after which they end.
struct Lives {
  std::vector<std::vector<std::int32_t>> begin;
  std::vector<std::vector<std::int32_t>> end;
};

RankPeak PeakOf(const RankProgram& rank) {
  RankPeak peak{.rank = rank.rank};
  Parts live{};
  Lives lives;
  const auto ops = static_cast<std::size_t>(rank.op_count);
  lives.begin.resize(ops);
  lives.end.resize(ops);
  for (std::size_t b = 0; b < rank.buffers.size(); ++b) {
    const Buffer& buffer = rank.buffers[b];
    if (buffer.persistent) {
      PartOf(live, buffer) += buffer.bytes;
    } else if (buffer.first_op >= 0 && buffer.last_op >= buffer.first_op &&
               buffer.last_op < rank.op_count) {
      lives.begin[static_cast<std::size_t>(buffer.first_op)].push_back(static_cast<int>(b));
      lives.end[static_cast<std::size_t>(buffer.last_op)].push_back(static_cast<int>(b));
    }
  }
  Raise(live, -1, peak);
  for (std::size_t op = 0; op < ops; ++op) {
    for (const std::int32_t b : lives.begin[op]) {
      const Buffer& buffer = rank.buffers[static_cast<std::size_t>(b)];
      PartOf(live, buffer) += buffer.bytes;
    }
    if (!lives.begin[op].empty()) Raise(live, static_cast<std::int32_t>(op), peak);
    for (const std::int32_t b : lives.end[op]) {
      const Buffer& buffer = rank.buffers[static_cast<std::size_t>(b)];
      PartOf(live, buffer) -= buffer.bytes;
    }
  }
  return peak;
}

}  // namespace

std::vector<RankPeak> LinkedPeak(const Program& program) {
  std::vector<RankPeak> peaks;
  peaks.reserve(program.ranks.size());
  for (const RankProgram& rank : program.ranks) peaks.push_back(PeakOf(rank));
  return peaks;
}

}  // namespace foretrain
