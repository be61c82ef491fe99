// Finds the op that each of a device's records belongs to. Leaves out how a device records
// (profiler/cuda/) and what becomes of the records (profiler/device_spans.h).
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
#include <string>
#include <unordered_map>
#include <vector>

#include "base/device_api.h"
#include "traces/kinds.h"

namespace foretrain {

// Whose work a record is.
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

// What came from a device so far. Times are sums over records, in ns.
struct ActivityCounts {
  std::int64_t records = 0;  // of work of the device
  std::int64_t invalid = 0;  // without a time, or that end before they start
  std::int64_t unknown = 0;  // whose op is not known
  std::int64_t device_ns = 0;
  std::int64_t owned_ns = 0;
  std::int64_t launches = 0, launch_ns = 0;
  std::int64_t waits = 0, wait_ns = 0;
  std::int64_t overhead_ns = 0;  // of the recording itself, as the device's library tells it

  void Add(const ActivityCounts& more);
  // Share of the device's time whose op is known; 1 before the first record.
  double Coverage() const {
    return device_ns == 0 ? 1.0 : static_cast<double>(owned_ns) / static_cast<double>(device_ns);
  }
};

struct KernelTotal {
  std::int64_t calls = 0;
  std::int64_t total_ns = 0;
};

class ActivityJoin {
 public:
  // A record whose tag has not come waits for `rounds` settlements. Of tags the newest `most_tags`
  // are kept.
  explicit ActivityJoin(int rounds = 20, std::size_t most_tags = std::size_t{1} << 20)
      : rounds_(rounds), most_tags_(most_tags) {}

  // Records come in any order.
  void Add(const FtActivity& activity);

  // Appends the device's work and the launches whose op is known, and work that has waited long
  // enough for one or, at the `last` settlement, at all. Records without a usable time are counted
  // and not handed on.
  void Settle(std::vector<OwnedActivity>& out, bool last = false);

  const ActivityCounts& counts() const { return counts_; }
  // By the kernels' names.
  std::map<std::string, KernelTotal> Kernels() const;

 private:
  struct Waiting {
    FtActivity activity;
    int rounds = 0;
  };

  struct Tagged {
    ActivityOwner owner;
    std::int64_t launch_ns = -1;  // of its call; -1: that has not come
  };

  void AddTag(const FtActivity& activity);
  void AddLaunch(const FtActivity& activity);
  std::optional<ActivityOwner> OwnerOf(const FtActivity& activity) const;

  const int rounds_;
  const std::size_t most_tags_;
  std::unordered_map<std::uint64_t, Tagged> tags_;          // by correlation
  std::deque<std::uint64_t> tag_order_;                     // oldest first
  std::unordered_map<std::uint64_t, ActivityOwner> nodes_;  // of graphs; their step means nothing
  std::vector<Waiting> waiting_;
  std::unordered_map<const char*, KernelTotal> kernels_;  // names live as long as the device
  ActivityCounts counts_;
};

}  // namespace foretrain
