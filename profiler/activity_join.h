// Finds the op to which each of a device's records belongs. profiler/cuda/ records them,
// profiler/device_spans.h turns them into spans.
//
//   push(op) ─ launch ─ pop         TAG(correlation 7, op) ─┐
//                └──► kernel     KERNEL(correlation 7) ─────┴─► the op's
//   capture a graph: GRAPH_NODE(node 3, op); replay: TAG(correlation 9, graph, step), and
//   KERNEL(correlation 9, node 3) is the op's in that step
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/device_api.h"
#include "traces/kernels/kernel_table.h"
#include "traces/kinds.h"

namespace foretrain {

// The op, step and rank for which work ran.
struct ActivityOwner {
  OpId op = kNoOp;
  std::int32_t step = 0;
  std::int32_t rank = 0;

  bool operator==(const ActivityOwner&) const = default;
};

struct OwnedActivity {
  FtActivity activity{};
  std::optional<ActivityOwner> owner{};
};

// Counts of a device's records so far. Times are sums, in ns.
struct ActivityCounts {
  std::int64_t records = 0;  // records of device work
  std::int64_t invalid = 0;  // without a time, or ending before they start
  std::int64_t unknown = 0;  // without a known op
  std::int64_t device_ns = 0;
  std::int64_t owned_ns = 0;
  std::int64_t launches = 0, launch_ns = 0;
  std::int64_t waits = 0, wait_ns = 0;
  std::int64_t overhead_ns = 0;  // cost of recording, as reported by the device's library

  void Add(const ActivityCounts& more);
  // Share of device time with a known op; 1 before the first record.
  double Coverage() const {
    return device_ns == 0 ? 1.0 : static_cast<double>(owned_ns) / static_cast<double>(device_ns);
  }
};

class ActivityJoin {
 public:
  // A record without a tag waits for `rounds` settlements. Only the newest `max_tags` tags are
  // kept.
  explicit ActivityJoin(int rounds = 20, std::size_t max_tags = std::size_t{1} << 20)
      : rounds_(rounds), max_tags_(max_tags) {}

  // Records may arrive in any order.
  void Add(const FtActivity& activity);

  // Appends device work and launches with a known op, and work that has waited for `rounds`
  // settlements; at the `last` settlement everything. Records without a usable time are counted and
  // dropped.
  void Settle(std::vector<OwnedActivity>& out, bool last = false);

  const ActivityCounts& counts() const { return counts_; }
  // Kernels with a usable time, and the ops of those that were settled.
  KernelTable Kernels() const;

 private:
  struct Waiting {
    FtActivity activity;
    std::optional<std::uint32_t> kernel{};  // its row of kernels_
    int rounds = 0;
  };

  struct Tagged {
    ActivityOwner owner;
    std::int64_t launch_ns = -1;  // time of its call; -1: not yet seen
  };

  void AddTag(const FtActivity& activity);
  void AddLaunch(const FtActivity& activity);
  std::uint32_t CountKernel(const FtActivity& activity);
  std::optional<ActivityOwner> OwnerOf(const FtActivity& activity) const;

  const int rounds_;
  const std::size_t max_tags_;
  std::unordered_map<std::uint64_t, Tagged> tags_;          // by correlation
  std::deque<std::uint64_t> tag_order_;                     // oldest first
  std::unordered_map<std::uint64_t, ActivityOwner> nodes_;  // of graphs; the step is unused
  std::vector<Waiting> waiting_;
  // By name, which lives as long as the device, and launch.
  std::map<std::pair<const char*, KernelLaunch>, std::uint32_t> kernel_rows_;
  KernelTable kernels_;
  ActivityCounts counts_;
};

}  // namespace foretrain
