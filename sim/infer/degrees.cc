#include "sim/infer/degrees.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/text.h"

namespace foretrain {
namespace {

// Sizes of the described groups of a class. Groups of two kinds of parallelism, such as
// TENSOR_AND_CONTEXT_PARALLEL_GROUP, are no degree.
std::set<std::int64_t> SizesOf(const TracedStep& step, OpClass op_class) {
  std::set<std::int64_t> sizes;
  for (const TracedGroup& group : step.groups) {
    const bool joint = ToLower(group.description).find("_and_") != std::string::npos;
    if (group.described && !joint && group.op_class == op_class && group.size > 1) {
      sizes.insert(group.size);
    }
  }
  return sizes;
}

// Whether the library gave the group no purpose.
bool IsNameless(const TracedGroup& group) {
  const std::string& text = group.description;
  return !group.described &&
         (text.empty() || text == "undefined" || text.starts_with("default_pg"));
}

// The first group without a purpose that may be any kind of parallelism: a part of the ranks, or
// one that sums activations within a forward. Null if there is none.
const TracedGroup* OpenGroup(const TracedStep& step) {
  for (const TracedRankStep& rank : step.ranks) {
    const auto begins = [&rank](auto is_pass) {
      const auto at = std::find_if(rank.compute.begin(), rank.compute.end(), is_pass);
      return at == rank.compute.end() ? std::numeric_limits<std::int64_t>::max() : at->start_ns;
    };
    const std::int64_t forward_ns =
        begins([](const TracedCompute& op) { return op.pass == Pass::kForward; });
    const std::int64_t backward_ns =
        begins([](const TracedCompute& op) { return IsBackward(op.pass); });
    for (const TracedCall& call : rank.calls) {
      const TracedGroup& group = step.groups[static_cast<std::size_t>(call.group)];
      if (!IsNameless(group) || IsScalar(call) || group.op_class == OpClass::kPpComm) continue;
      const bool sums_activations = call.kind == InstructionKind::kAllReduce &&
                                    call.start_ns > forward_ns && call.start_ns < backward_ns;
      if (group.size != step.world || sums_activations) return &group;
    }
  }
  return nullptr;
}

// The degree whose groups have the class. A smaller group may be a part of a larger one, such as
// ranks with copies of the same heads.
InferredDegree DegreeOf(const TracedStep& step, OpClass op_class, const char* what) {
  const std::set<std::int64_t> sizes = SizesOf(step, op_class);
  if (!sizes.empty()) {
    const std::int64_t largest = *sizes.rbegin();
    const bool parts = std::all_of(sizes.begin(), sizes.end(),
                                   [largest](std::int64_t size) { return largest % size == 0; });
    if (!parts)
      return {{}, fmt::format("{} groups have sizes that are no parts of each other", what)};
    return {static_cast<int>(largest), fmt::format("{} groups have {} ranks", what, largest)};
  }
  if (step.seen[static_cast<std::size_t>(op_class)]) {
    return {{}, fmt::format("{} communication does not name its group", what)};
  }
  if (step.groups.empty() && step.world > 1) return {{}, "the trace names no process group"};
  if (const TracedGroup* const open = OpenGroup(step)) {
    return {{}, fmt::format("a process group of {} ranks has no description", open->size)};
  }
  return {1, fmt::format("no communication of a {} group", what)};
}

// Ranks that transfers join, in the order of the chain from the lowest rank.
std::vector<std::vector<int>> Chains(const TracedStep& step) {
  std::map<int, std::set<int>> joined;
  for (const auto& [ends, count] : step.transfers) {
    joined[ends.first].insert(ends.second);
    joined[ends.second].insert(ends.first);
  }
  std::vector<std::vector<int>> chains;
  std::set<int> done;
  for (const auto& [rank, peers] : joined) {
    if (!done.insert(rank).second) continue;
    std::vector<int> chain{rank};
    for (std::size_t at = 0; at < chain.size(); ++at) {
      for (const int peer : joined[chain[at]]) {
        if (done.insert(peer).second) chain.push_back(peer);
      }
    }
    std::sort(chain.begin(), chain.end());
    chains.push_back(std::move(chain));
  }
  return chains;
}

// Pipelines from described groups, else from transfers.
InferredDegree PipelineOf(const TracedStep& step, std::vector<std::vector<int>>& pipelines) {
  std::set<std::vector<int>> listed;
  for (const TracedGroup& group : step.groups) {
    if (group.described && group.op_class == OpClass::kPpComm && group.ranks.size() > 1) {
      listed.insert(group.ranks);
    }
  }
  pipelines.assign(listed.begin(), listed.end());
  if (!SizesOf(step, OpClass::kPpComm).empty() || step.transfers.empty()) {
    return DegreeOf(step, OpClass::kPpComm, "pipeline-parallel");
  }
  pipelines = Chains(step);
  const std::size_t stages = pipelines.front().size();
  for (const std::vector<int>& pipeline : pipelines) {
    if (pipeline.size() != stages) return {{}, "sends join pipelines of unlike length"};
  }
  return {static_cast<int>(stages), fmt::format("sends join {} ranks each", stages)};
}

// The ranks that the other degrees leave, and whether groups of data parallelism agree.
InferredDegree DataParallelOf(const TracedStep& step, const InferredDegrees& known) {
  if (!known.tp.value || !known.pp.value || !known.cp.value) {
    return {{}, "the degrees that divide the ranks are not all told"};
  }
  const int others = *known.tp.value * *known.pp.value * *known.cp.value;
  if (step.world % others != 0) {
    return {{},
            fmt::format("tp {}, pp {} and cp {} do not divide {} ranks", *known.tp.value,
                        *known.pp.value, *known.cp.value, step.world)};
  }
  const int dp = step.world / others;
  const std::int64_t holders = std::int64_t{dp} * *known.cp.value;
  const std::set<std::int64_t> sizes = SizesOf(step, OpClass::kDpComm);
  for (const std::int64_t size : sizes) {
    // Both holders of a stage under DualPipe reduce together, and so do all ranks of a sum.
    const bool fits = holders % size == 0 || size == 2 * holders || size % holders == 0;
    if (!fits) {
      return {
          {},
          fmt::format("{} ranks left by tp, pp and cp, but a data-parallel group of {}", dp, size)};
    }
  }
  return {dp, fmt::format("{} ranks / (tp {} x pp {} x cp {})", step.world, *known.tp.value,
                          *known.pp.value, *known.cp.value)};
}

}  // namespace

InferredDegrees DegreesOf(const TracedStep& step) {
  InferredDegrees degrees;
  degrees.tp = DegreeOf(step, OpClass::kTpComm, "tensor-parallel");
  degrees.cp = DegreeOf(step, OpClass::kCpComm, "context-parallel");
  degrees.ep = DegreeOf(step, OpClass::kEpComm, "expert-parallel");
  degrees.pp = PipelineOf(step, degrees.pipelines);
  degrees.dp = DataParallelOf(step, degrees);
  return degrees;
}

}  // namespace foretrain
