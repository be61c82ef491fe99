#include "profiler/activity_join.h"

#include <algorithm>
#include <utility>

namespace foretrain {
namespace {

bool HasTime(const FtActivity& activity) {
  return activity.start_ns > 0 && activity.end_ns >= activity.start_ns;
}

}  // namespace

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

void ActivityJoin::AddTag(const FtActivity& activity) {
  const ActivityOwner owner{activity.op_id, activity.step, activity.rank};
  const auto [at, is_new] = tags_.try_emplace(activity.correlation, Tagged{owner});
  at->second.owner = owner;
  if (!is_new) return;
  tag_order_.push_back(activity.correlation);
  if (tag_order_.size() <= most_tags_) return;
  tags_.erase(tag_order_.front());
  tag_order_.pop_front();
}

// A call of one library that is made of a call of another has one correlation and two records: it
// counts once, by the longer.
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
  if (HasTime(activity)) waiting_.push_back({activity, 0});
}

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
  if (activity.name != nullptr) {
    KernelTotal& total = kernels_[activity.name];
    ++total.calls;
    total.total_ns += took_ns;
  }
  waiting_.push_back({activity, 0});
}

std::optional<ActivityOwner> ActivityJoin::OwnerOf(const FtActivity& activity) const {
  const auto tag = tags_.find(activity.correlation);
  if (activity.correlation == 0 || tag == tags_.end()) return std::nullopt;
  if (activity.graph_node == 0) return tag->second.owner;
  const auto node = nodes_.find(activity.graph_node);
  if (node == nodes_.end()) return tag->second.owner;  // the graph as a whole
  return ActivityOwner{node->second.op, tag->second.owner.step, node->second.rank};
}

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
      continue;  // a launch that is no op's: of memory, of initialisation
    }
    out.push_back({waiting.activity, owner});
  }
  waiting_ = std::move(still);
}

std::map<std::string, KernelTotal> ActivityJoin::Kernels() const {
  std::map<std::string, KernelTotal> kernels;
  for (const auto& [name, of_name] : kernels_) {
    KernelTotal& total = kernels[name];
    total.calls += of_name.calls;
    total.total_ns += of_name.total_ns;
  }
  return kernels;
}

}  // namespace foretrain
