#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>

#include "traces/import/chakra/chakra_nodes.h"
#include "traces/import/raw_events.h"

namespace foretrain::trace_import {

std::int64_t ScheduleChakra(std::vector<ChakraNode>& nodes) {
  std::unordered_map<std::uint64_t, std::size_t> index;
  for (std::size_t i = 0; i < nodes.size(); ++i) index.try_emplace(nodes[i].id, i);
  std::vector<std::vector<std::uint32_t>> followers(nodes.size());
  std::vector<std::int32_t> waits(nodes.size());
  const bool has_data = std::any_of(nodes.begin(), nodes.end(), [](const ChakraNode& node) {
    return !node.dependencies.empty();
  });
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const std::uint64_t id : has_data ? nodes[i].dependencies : nodes[i].control) {
      const auto found = index.find(id);
      if (found == index.end()) continue;  // of another file, or filtered out
      followers[found->second].push_back(static_cast<std::uint32_t>(i));
      ++waits[i];
    }
  }
  using Ready = std::pair<std::int64_t, std::size_t>;  // time, node
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  std::vector<std::int64_t> ready_ns(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (waits[i] == 0) ready.emplace(0, i);
  }
  std::array<std::int64_t, kChakraResourceNames.size()> free_ns{};
  auto left = static_cast<std::int64_t>(nodes.size());
  while (!ready.empty()) {
    const auto [time_ns, i] = ready.top();
    ready.pop();
    --left;
    ChakraNode& node = nodes[i];
    std::int64_t& free = free_ns[static_cast<std::size_t>(node.resource())];
    node.start_ns = node.IsWork() ? std::max(time_ns, free) : time_ns;
    // Bounded, so that sums of absurd durations stay in range.
    const std::int64_t end_ns =
        std::min(node.start_ns + (node.IsWork() ? node.duration_ns : 0), 4 * kFarNs);
    node.duration_ns = end_ns - node.start_ns;
    if (node.IsWork()) free = end_ns;
    for (const std::uint32_t follower : followers[i]) {
      ready_ns[follower] = std::max(ready_ns[follower], end_ns);
      if (--waits[follower] == 0) ready.emplace(ready_ns[follower], follower);
    }
  }
  return left;
}

}  // namespace foretrain::trace_import
