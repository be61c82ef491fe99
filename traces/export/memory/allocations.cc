#include "traces/export/memory/allocations.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "traces/metrics/classes.h"

namespace foretrain {
namespace {

constexpr std::int64_t kSegmentUnit = std::int64_t{2} << 20;

std::int64_t RoundedUp(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Gives out addresses: the first free place that is large enough.
class Places {
 public:
  std::int64_t Take(std::int64_t bytes) {
    const std::int64_t size = RoundedUp(std::max<std::int64_t>(bytes, 1), kAllocationUnit);
    for (auto at = free_.begin(); at != free_.end(); ++at) {
      if (at->second < size) continue;
      const auto [address, room] = *at;
      free_.erase(at);
      if (room > size) free_[address + size] = room - size;
      return address;
    }
    const std::int64_t address = end_;
    end_ += size;
    return address;
  }

  // Joins the place with free neighbours.
  void Give(std::int64_t address, std::int64_t bytes) {
    std::int64_t size = RoundedUp(std::max<std::int64_t>(bytes, 1), kAllocationUnit);
    auto after = free_.lower_bound(address);
    if (after != free_.end() && after->first == address + size) {
      size += after->second;
      after = free_.erase(after);
    }
    if (after != free_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == address) {
        before->second += size;
        return;
      }
    }
    free_[address] = size;
  }

  std::int64_t end() const { return end_; }

 private:
  std::map<std::int64_t, std::int64_t> free_;  // bytes by address
  std::int64_t end_ = 0;
};

// Live allocations of one category, by age and by size.
class Live {
 public:
  void Add(const AllocationEvent& of) {
    by_size_.insert({of.bytes, next_});
    by_age_[next_++] = of;
  }

  bool IsEmpty() const { return by_age_.empty(); }

  // The newest of `bytes`, else the newest of all.
  AllocationEvent Take(std::int64_t bytes) {
    auto same = by_size_.upper_bound({bytes, next_});
    const bool found = same != by_size_.begin() && std::prev(same)->first == bytes;
    const std::int64_t age = found ? std::prev(same)->second : std::prev(by_age_.end())->first;
    const AllocationEvent taken = by_age_.at(age);
    by_size_.erase({taken.bytes, age});
    by_age_.erase(age);
    return taken;
  }

  void AddTo(std::vector<AllocationEvent>& out) const {
    for (const auto& [age, of] : by_age_) out.push_back(of);
  }

 private:
  std::map<std::int64_t, AllocationEvent> by_age_;
  std::set<std::pair<std::int64_t, std::int64_t>> by_size_;  // size, age
  std::int64_t next_ = 0;
};

// The spans of a rank's device queues by start.
std::vector<const Span*> StartsOf(std::span<const Span> spans) {
  std::vector<const Span*> starts;
  for (const Span& span : spans) {
    if (span.queue != Queue::kHost) starts.push_back(&span);
  }
  std::stable_sort(starts.begin(), starts.end(),
                   [](const Span* a, const Span* b) { return a->start_ns < b->start_ns; });
  return starts;
}

}  // namespace

Allocations AllocationsOf(const Timeline& timeline, int rank) {
  const std::vector<const Span*> starts = StartsOf(SpansOfRank(timeline, rank));
  std::array<std::int64_t, kCategoryCount> bytes{};
  std::array<Live, kCategoryCount> live;
  Places places;
  Allocations out;
  const auto allocate = [&](AllocationEvent event) {
    event.address = places.Take(event.bytes);
    out.events.push_back(event);
    live[static_cast<std::size_t>(event.category)].Add(event);
  };
  auto sample = std::lower_bound(timeline.memory.begin(), timeline.memory.end(), rank,
                                 [](const MemorySample& a, int of) { return a.rank < of; });
  for (; sample != timeline.memory.end() && sample->rank == rank; ++sample) {
    if (sample->space != Space::kDevice) continue;
    std::int64_t& now = bytes[static_cast<std::size_t>(sample->category)];
    std::int64_t change = sample->bytes - now;
    now = sample->bytes;
    AllocationEvent event{.time_ns = sample->time_ns, .category = sample->category};
    if (change > 0) {
      const auto after = std::upper_bound(
          starts.begin(), starts.end(), sample->time_ns,
          [](std::int64_t time_ns, const Span* span) { return time_ns < span->start_ns; });
      if (after != starts.begin()) {
        event.op = (*std::prev(after))->op;
        event.step = (*std::prev(after))->step;
      }
      event.bytes = change;
      allocate(event);
    }
    Live& of_category = live[static_cast<std::size_t>(sample->category)];
    while (change < 0 && !of_category.IsEmpty()) {
      AllocationEvent freed = of_category.Take(-change);
      places.Give(freed.address, freed.bytes);
      freed.is_free = true;
      freed.time_ns = sample->time_ns;
      out.events.push_back(freed);
      change += freed.bytes;
      if (change <= 0) continue;
      // The rest of the allocation stays.
      freed.is_free = false;
      freed.bytes = change;
      allocate(freed);
      change = 0;
    }
  }
  for (const Live& of : live) of.AddTo(out.live);
  std::sort(
      out.live.begin(), out.live.end(),
      [](const AllocationEvent& a, const AllocationEvent& b) { return a.address < b.address; });
  out.segment_bytes = RoundedUp(places.end(), kSegmentUnit);
  return out;
}

}  // namespace foretrain
