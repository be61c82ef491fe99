#include "sim/program/link/pack.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

namespace foretrain {
namespace {

// The ops are divided into this many ranges; more ranges mean shorter lists but more copies of long
// claims.
constexpr std::int32_t kRanges = 64;

// Claims that have an address, indexed by ranges of ops, so that a look-up reads only claims near
// it in time.
class Packer {
 public:
  explicit Packer(std::int32_t ops)
      : width_(ops / kRanges + 1),
        covering_(static_cast<std::size_t>(ops / width_ + 1)),
        beginning_(covering_.size()) {}

  // Address of a claim: in the smallest gap between the placed claims that overlap it in time,
  // otherwise behind them.
  std::int64_t Place(const Claim& claim) {
    FindMet(claim);
    std::int64_t best = -1, best_gap = std::numeric_limits<std::int64_t>::max(), end = 0;
    for (const auto& [begin, bytes] : met_) {
      const std::int64_t gap = begin - end;
      if (gap >= claim.bytes && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, begin + bytes);
    }
    const std::int64_t begin = best >= 0 ? best : end;
    for (std::int32_t r = RangeOf(claim.first); r <= RangeOf(claim.last); ++r) {
      covering_[static_cast<std::size_t>(r)].push_back({begin, claim});
    }
    beginning_[static_cast<std::size_t>(RangeOf(claim.first))].push_back({begin, claim});
    return begin;
  }

 private:
  struct Placed {
    std::int64_t begin = 0;
    Claim claim;
  };

  std::int32_t RangeOf(std::int32_t op) const { return op / width_; }

  // Collects the placed claims whose lifetime overlaps this one, sorted by address. A long claim is
  // stored in every range it covers. It counts in the range where this claim begins, and in later
  // ranges only if it begins there, so none is seen twice.
  void FindMet(const Claim& claim) {
    met_.clear();
    const auto note = [&](const std::vector<Placed>& some) {
      for (const auto& [begin, of] : some) {
        if (of.last >= claim.first && of.first <= claim.last) met_.emplace_back(begin, of.bytes);
      }
    };
    const std::int32_t first = RangeOf(claim.first);
    note(covering_[static_cast<std::size_t>(first)]);
    for (std::int32_t r = first + 1; r <= RangeOf(claim.last); ++r) {
      note(beginning_[static_cast<std::size_t>(r)]);
    }
    std::sort(met_.begin(), met_.end());
  }

  std::int32_t width_;
  std::vector<std::vector<Placed>> covering_, beginning_;
  std::vector<std::pair<std::int64_t, std::int64_t>> met_;
};

// Places claims in descending order of `weight`; equal weights keep the order of the claims, so the
// result does not depend on the sort.
template <class Weight>
Packing PackBy(std::span<const Claim> claims, std::int32_t ops, const Weight& weight) {
  std::vector<std::size_t> order(claims.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return weight(claims[a]) > weight(claims[b]);
  });
  Packing out;
  out.offsets.resize(claims.size());
  Packer packer(ops);
  for (const std::size_t number : order) {
    out.offsets[number] = packer.Place(claims[number]);
    out.bytes = std::max(out.bytes, out.offsets[number] + claims[number].bytes);
  }
  return out;
}

}  // namespace

// The second order (bytes times lifetime) costs as much as the first. It runs only if the first is
// more than `enough` above the lower bound.
Packing Pack(std::span<const Claim> claims, std::int32_t ops, double enough) {
  const auto length = [](const Claim& claim) { return std::int64_t{claim.last} - claim.first + 1; };
  Packing by_size = PackBy(
      claims, ops, [&](const Claim& claim) { return std::pair(claim.bytes, length(claim)); });
  const auto min = static_cast<double>(MaxAtOnce(claims, ops).bytes);
  if (static_cast<double>(by_size.bytes) <= enough * min) return by_size;
  Packing by_area = PackBy(claims, ops, [&](const Claim& claim) {
    return static_cast<double>(claim.bytes) * static_cast<double>(length(claim));
  });
  return by_area.bytes < by_size.bytes ? by_area : by_size;
}

// Sweeps over the ops with the changes at each: O(claims + ops).
AtOnce MaxAtOnce(std::span<const Claim> claims, std::int32_t ops) {
  std::vector<AtOnce> change(static_cast<std::size_t>(ops) + 1);
  for (const Claim& claim : claims) {
    AtOnce& begins = change[static_cast<std::size_t>(claim.first)];
    AtOnce& ends = change[static_cast<std::size_t>(claim.last) + 1];
    begins.bytes += claim.bytes, ++begins.claims;
    ends.bytes -= claim.bytes, --ends.claims;
  }
  AtOnce now, max;
  for (const AtOnce& one : change) {
    max.bytes = std::max(max.bytes, now.bytes += one.bytes);
    max.claims = std::max(max.claims, now.claims += one.claims);
  }
  return max;
}

}  // namespace foretrain
