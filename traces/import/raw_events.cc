#include "traces/import/raw_events.h"

#include <algorithm>
#include <set>

#include "base/text.h"

namespace foretrain::trace_import {

// The map's keys are views of the stored texts, whose addresses a deque keeps.
std::uint32_t NameTable::Of(std::string_view name) {
  const auto found = numbers_.find(name);
  if (found != numbers_.end()) return found->second;
  texts_.emplace_back(name);
  const auto number = static_cast<std::uint32_t>(texts_.size() - 1);
  numbers_.emplace(texts_.back(), number);
  return number;
}

// The key joins both names with a NUL, in a buffer that is reused.
std::uint32_t RankEvents::TrackOf(std::string_view process, std::string_view thread) {
  key_.assign(process);
  key_ += '\0';
  key_ += thread;
  const auto [at, is_new] =
      track_numbers_.try_emplace(key_, static_cast<std::uint32_t>(tracks.size()));
  if (is_new) tracks.push_back({std::string(process), std::string(thread)});
  return at->second;
}

bool RankEvents::HasDevice() const {
  return std::any_of(events.begin(), events.end(),
                     [](const RawEvent& event) { return IsOnDevice(event.kind); });
}

std::uint32_t RankEvents::LaunchOf(const KernelLaunch& launch) {
  if (!launch.IsKnown()) return 0;
  const auto [at, is_new] =
      launch_numbers_.try_emplace(launch, static_cast<std::uint32_t>(launches.size() + 1));
  if (is_new) launches.push_back(launch);
  return at->second;
}

std::uint32_t RankEvents::WorkOf(const OpWork& work) {
  if (work.bytes == 0) return 0;
  const auto [at, is_new] =
      work_numbers_.try_emplace(work, static_cast<std::uint32_t>(works.size() + 1));
  if (is_new) works.push_back(work);
  return at->second;
}

std::uint32_t RankEvents::GroupOf(const RawGroup& group) {
  const auto [at, is_new] =
      group_numbers_.try_emplace(group, static_cast<std::uint32_t>(groups.size() + 1));
  if (is_new) groups.push_back(group);
  return at->second;
}

// The median is robust: a few events with time 0 do not move it, unlike the minimum. O(n). Samples
// decide only if there are no events. Events too far from the median count as invalid.
void DropFar(RankEvents& events) {
  std::vector<std::int64_t> starts;
  for (const RawEvent& event : events.events) starts.push_back(event.start_ns);
  if (starts.empty()) {
    for (const MemorySample& sample : events.memory) starts.push_back(sample.time_ns);
  }
  if (starts.empty()) return;
  const auto middle = starts.begin() + std::ssize(starts) / 2;
  std::nth_element(starts.begin(), middle, starts.end());
  const auto is_far = [median = *middle](std::int64_t time_ns) {
    return time_ns < median - kFarNs || time_ns > median + kFarNs;
  };
  events.invalid +=
      static_cast<std::int64_t>(std::erase_if(events.events, [&is_far](const RawEvent& event) {
        return is_far(event.start_ns) || event.end_ns - event.start_ns > kFarNs;
      }));
  std::erase_if(events.memory,
                [&is_far](const MemorySample& sample) { return is_far(sample.time_ns); });
}

int CapabilityOf(const std::vector<RankEvents>& ranks) {
  std::set<int> found;
  for (const RankEvents& rank : ranks) {
    for (const RawDevice& device : rank.devices) found.insert(device.capability);
  }
  return found.size() == 1 ? *found.begin() : 0;
}

std::string GpuOf(const std::vector<RankEvents>& ranks) {
  std::set<std::string> found;
  for (const RankEvents& rank : ranks) {
    for (const RawDevice& device : rank.devices) found.insert(Printable(device.name));
  }
  return found.size() == 1 ? *found.begin() : "";
}

}  // namespace foretrain::trace_import
