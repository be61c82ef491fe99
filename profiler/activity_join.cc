#include "profiler/activity_join.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace foretrain {
namespace {

// CUPTI gives 0 for times that it could not measure.
bool HasTime(const FtActivity& activity) {
  return activity.start_ns > 0 && activity.end_ns >= activity.start_ns;
}

KernelLaunch LaunchOf(const FtActivity& activity) {
  const FtKernelLaunch& from = activity.launch;
  KernelLaunch launch{.registers = from.registers,
                      .static_shared_bytes = from.static_shared_bytes,
                      .dynamic_shared_bytes = from.dynamic_shared_bytes};
  std::copy(std::begin(from.grid), std::end(from.grid), launch.grid.begin());
  std::copy(std::begin(from.block), std::end(from.block), launch.block.begin());
  return launch;
}

}  // namespace

// All fields are sums, so counts of several devices add up.
void ActivityCounts::Add(const ActivityCounts& more) {
  records += more.records;
  invalid += more.invalid;
  unknown += more.unknown;
  device_ns += more.device_ns;
  owned_ns += more.owned_ns;
  launches += more.launches;
  launch_ns += more.launch_ns;
  waits += more.waits;
  wait_ns += more.wait_ns;
  overhead_ns += more.overhead_ns;
}

// Tags come through a bounded map: after max_tags_ the oldest is dropped, so that a device that
// never delivers the matching records cannot fill memory.
void ActivityJoin::AddTag(const FtActivity& activity) {
  const ActivityOwner owner{activity.op_id, activity.step, activity.rank};
  const auto [at, is_new] = tags_.try_emplace(activity.correlation, Tagged{owner});
  at->second.owner = owner;
  if (!is_new) return;
  tag_order_.push_back(activity.correlation);
  if (tag_order_.size() <= max_tags_) return;
  tags_.erase(tag_order_.front());
  tag_order_.pop_front();
}

// A runtime call that makes a driver call leaves two records with one correlation. It counts once,
// with the longer time.
void ActivityJoin::AddLaunch(const FtActivity& activity) {
  const std::int64_t took_ns = HasTime(activity) ? activity.end_ns - activity.start_ns : 0;
  const auto tag = tags_.find(activity.correlation);
  std::int64_t known_ns = tag == tags_.end() ? -1 : tag->second.launch_ns;
  if (known_ns < 0) {
    ++counts_.launches;
    known_ns = 0;
  }
  counts_.launch_ns += std::max<std::int64_t>(0, took_ns - known_ns);
  if (tag != tags_.end()) tag->second.launch_ns = std::max(took_ns, known_ns);
  if (HasTime(activity)) waiting_.push_back({activity});
}

// Tags, launches and work arrive in any order, so nothing is joined here: records wait for Settle.
void ActivityJoin::Add(const FtActivity& activity) {
  const std::int64_t took_ns = activity.end_ns - activity.start_ns;
  switch (static_cast<FtActivityKind>(activity.kind)) {
    case FT_ACTIVITY_TAG:
      return AddTag(activity);
    case FT_ACTIVITY_GRAPH_NODE:
      nodes_[activity.graph_node] = {activity.op_id, 0, activity.rank};
      return;
    case FT_ACTIVITY_LAUNCH:
      return AddLaunch(activity);
    case FT_ACTIVITY_WAIT:
      ++counts_.waits;
      if (HasTime(activity)) counts_.wait_ns += took_ns;
      return;
    case FT_ACTIVITY_OVERHEAD:
      if (HasTime(activity)) counts_.overhead_ns += took_ns;
      return;
    case FT_ACTIVITY_KERNEL:
    case FT_ACTIVITY_COPY:
    case FT_ACTIVITY_FILL:
      break;
  }
  ++counts_.records;
  if (!HasTime(activity)) {
    ++counts_.invalid;
    return;
  }
  waiting_.push_back({activity});
  if (activity.name != nullptr) waiting_.back().kernel = CountKernel(activity);
}

// Rows are found by the address of the name: comparing long names for each record would cost more
// than all else.
std::uint32_t ActivityJoin::CountKernel(const FtActivity& activity) {
  const KernelLaunch launch = LaunchOf(activity);
  const auto [at, is_new] = kernel_rows_.try_emplace(
      {activity.name, launch}, static_cast<std::uint32_t>(kernels_.rows.size()));
  if (is_new) kernels_.rows.push_back({.name = activity.name, .launch = launch});
  ++kernels_.rows[at->second].calls;
  kernels_.rows[at->second].total_ns += activity.end_ns - activity.start_ns;
  return at->second;
}

// The tag of the launching call gives op, step and rank; for graphs the node overrides the op.
std::optional<ActivityOwner> ActivityJoin::OwnerOf(const FtActivity& activity) const {
  const auto tag = tags_.find(activity.correlation);
  if (activity.correlation == 0 || tag == tags_.end()) return std::nullopt;
  if (activity.graph_node == 0) return tag->second.owner;
  const auto node = nodes_.find(activity.graph_node);
  if (node == nodes_.end()) return tag->second.owner;  // attributed to the graph as a whole
  return ActivityOwner{node->second.op, tag->second.owner.step, node->second.rank};
}

// Emits every record whose owner is known. The others wait, for at most rounds_ settlements; then
// they count as unknown. The share of known device time is the coverage.
void ActivityJoin::Settle(std::vector<OwnedActivity>& out, bool last) {
  std::vector<Waiting> still;
  for (Waiting& waiting : waiting_) {
    const auto owner = OwnerOf(waiting.activity);
    if (!owner && !last && ++waiting.rounds < rounds_) {
      still.push_back(waiting);
      continue;
    }
    if (waiting.activity.kind != FT_ACTIVITY_LAUNCH) {
      const std::int64_t took_ns = waiting.activity.end_ns - waiting.activity.start_ns;
      counts_.device_ns += took_ns;
      (owner ? counts_.owned_ns : counts_.unknown) += owner ? took_ns : 1;
    } else if (!owner) {
      continue;  // launch for no op, e.g. memory or initialization
    }
    if (owner && waiting.kernel) kernels_.Own(owner->op, *waiting.kernel);
    out.push_back({waiting.activity, owner});
  }
  waiting_ = std::move(still);
}

// Two modules may hold a kernel of the same name at different addresses: rows are merged by text.
KernelTable ActivityJoin::Kernels() const {
  KernelTable merged;
  merged.Add(kernels_);
  return merged;
}

}  // namespace foretrain
