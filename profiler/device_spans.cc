#include "profiler/device_spans.h"

#include <algorithm>
#include <utility>

namespace foretrain {
namespace {

// The host's span with the times of one interval of device work.
Span Piece(const Span& host, const Interval& interval) {
  Span span = host;
  span.start_ns = interval.start_ns;
  span.end_ns = interval.end_ns;
  span.ready_ns = std::min(host.ready_ns, interval.start_ns);
  return span;
}

Interval Hull(const std::vector<Interval>& intervals) {
  Interval hull = intervals.front();
  for (const Interval& interval : intervals) {
    hull.start_ns = std::min(hull.start_ns, interval.start_ns);
    hull.end_ns = std::max(hull.end_ns, interval.end_ns);
  }
  return hull;
}

}  // namespace

void DeviceSpans::AddHost(const Span& span, std::int64_t now_ns) {
  const Key key{span.step, span.rank, span.op};
  pending_[key].host = span;
  order_.emplace_back(now_ns, key);
}

// Records of one op may arrive in several drains; they collect under its key until the op is
// released.
void DeviceSpans::AddActivity(const OwnedActivity& owned) {
  if (!owned.owner) return AddUnknown(owned.activity);
  const ActivityOwner& owner = *owned.owner;
  if (!window_.CoversStep(owner.step) || !window_.CoversRank(owner.rank)) {
    ++outside_;
    return;
  }
  const Key key{owner.step, owner.rank, owner.op};
  Pending& pending = pending_[key];
  ++pending.records;
  const Interval interval{owned.activity.start_ns, owned.activity.end_ns};
  if (owned.activity.kind != FT_ACTIVITY_LAUNCH) {
    pending.work.push_back(interval);
  } else {
    pending.launch = pending.launch ? Hull({*pending.launch, interval}) : interval;
  }
}

void DeviceSpans::AddUnknown(const FtActivity& activity) {
  Span span;
  span.start_ns = span.ready_ns = activity.start_ns;
  span.end_ns = activity.end_ns;
  span.step = -1;
  span.rank = static_cast<std::int16_t>(own_rank_);
  span.op_class = activity.kind == FT_ACTIVITY_COPY ? OpClass::kCopy : OpClass::kMemoryBound;
  span.bytes = activity.kind == FT_ACTIVITY_COPY ? activity.bytes : 0;
  unknown_.push_back(span);
}

// A collective is one span from first to last record, including its waits for peers. Compute is cut
// into the pieces in which the device worked.
void DeviceSpans::Emit(const Pending& pending, std::vector<Span>& out) const {
  const Span& host = *pending.host;
  if (pending.work.empty()) {
    out.push_back(host);
  } else if (IsCommunication(host.op_class)) {
    out.push_back(Piece(host, Hull(pending.work)));
  } else {
    // Work of length 0 has an empty union: its span is empty too.
    const IntervalSet united(pending.work);
    if (united.empty()) out.push_back(Piece(host, pending.work.front()));
    for (const Interval& interval : united.intervals()) {
      out.push_back(Piece(host, interval));
      if (&interval != &united.intervals().front()) out.back().bytes = 0;
    }
  }
  if (!pending.launch || host.queue == Queue::kHost) return;
  Span launch = Piece(host, *pending.launch);
  launch.queue = Queue::kHost;
  launch.op_class = OpClass::kHost;
  launch.bytes = 0;
  out.push_back(launch);
}

// Releases ops settle_ns_ after their host span came. A later record of a released op would create
// an entry without host span: these are counted as late once their step is two steps back.
void DeviceSpans::Release(std::int64_t now_ns, std::vector<Span>& out) {
  while (!order_.empty() && order_.front().first + settle_ns_ <= now_ns) {
    const auto found = pending_.find(order_.front().second);
    order_.pop_front();
    if (found == pending_.end()) continue;
    Emit(found->second, out);
    settled_step_ = std::max(settled_step_, std::get<0>(found->first));
    pending_.erase(found);
  }
  out.insert(out.end(), unknown_.begin(), unknown_.end());
  unknown_.clear();
  // Entries without a host span arrived after their op's release. Steps end in order, except for
  // the newest few.
  while (!pending_.empty() && std::get<0>(pending_.begin()->first) + 2 < settled_step_ &&
         !pending_.begin()->second.host) {
    late_ += pending_.begin()->second.records;
    pending_.erase(pending_.begin());
  }
}

void DeviceSpans::ReleaseAll(std::vector<Span>& out) {
  for (const auto& [key, pending] : pending_) {
    if (pending.host) {
      Emit(pending, out);
    } else {
      late_ += pending.records;
    }
  }
  pending_.clear();
  order_.clear();
  out.insert(out.end(), unknown_.begin(), unknown_.end());
  unknown_.clear();
}

}  // namespace foretrain
