#include "traces/import/chakra/chakra_trace.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"
#include "traces/chakra/wire.h"
#include "traces/import/chakra/chakra_nodes.h"

namespace foretrain::trace_import {
namespace {

using chakra::NodeType;

// The number before ".et": "rank.3.et" gives 3.
std::optional<int> RankOfName(std::string_view path) {
  if (!path.ends_with(".et")) return std::nullopt;
  path.remove_suffix(3);
  const std::size_t at = path.find_last_not_of("0123456789");
  const auto rank =
      ParseInt("rank", path.substr(at == std::string_view::npos ? 0 : at + 1), 0, kMaxChakraRank);
  return rank.has_value() ? std::optional(static_cast<int>(*rank)) : std::nullopt;
}

// Names by which op_patterns.csv tells a class, where our own attribute says it.
std::string NameOf(const ChakraNode& node) {
  if (node.op_class == "gemm") return "gemm_" + node.name;
  if (node.op_class == "attention") return "flash_attn_" + node.name;
  if (node.type == NodeType::kMemoryLoad) return node.name + " (HtoD)";
  if (node.type == NodeType::kMemoryStore) return node.name + " (DtoH)";
  return node.name;
}

// Megatron-Core's description of a group, where our own attribute says the class.
std::string DescriptionOf(const ChakraNode& node) {
  constexpr std::pair<std::string_view, std::string_view> kDescriptions[] = {
      {"tp_comm", "TENSOR_MODEL_PARALLEL_GROUP"},   {"cp_comm", "CONTEXT_PARALLEL_GROUP"},
      {"ep_comm", "EXPERT_MODEL_PARALLEL_GROUP"},   {"dp_comm", "DATA_PARALLEL_GROUP"},
      {"pp_comm", "PIPELINE_MODEL_PARALLEL_GROUP"},
  };
  for (const auto& [op_class, description] : kDescriptions) {
    if (op_class == node.op_class) return std::string(description);
  }
  return {};
}

class Events {
 public:
  Events(const std::map<std::string, std::string>& groups, std::optional<int> rank, bool scheduled)
      : groups_(groups), rank_(rank), scheduled_(scheduled) {}

  void Add(const ChakraNode& node, RankEvents& out) const {
    if (!node.IsWork()) return;
    if (node.start_ns < 0) {
      ++out.invalid;
      return;
    }
    RawEvent event{
        .start_ns = node.start_ns,
        .end_ns = node.start_ns + node.duration_ns,
        .bytes = node.bytes,
        .name = out.names.Of(Printable(NameOf(node), 400)),
        .track = out.TrackOf(node.on_host ? "host" : "device",
                             kChakraResourceNames[static_cast<std::size_t>(node.resource())]),
        .kind = node.on_host ? RawKind::kHostOp : RawKind::kKernel};
    if (node.resource() == ChakraResource::kCopy) event.kind = RawKind::kCopy;
    if (node.type >= NodeType::kSend && !node.on_host) AddGroup(node, event, out);
    out.events.push_back(event);
  }

 private:
  void AddGroup(const ChakraNode& node, RawEvent& event, RankEvents& out) const {
    RawGroup group{.description = DescriptionOf(node)};
    if (node.type == NodeType::kCollective) {
      event.collective =
          1 + out.names.Of(chakra::kCollectiveNames[static_cast<std::size_t>(node.collective)]);
      if (!scheduled_ && !node.group.empty()) {
        const auto members = groups_.find(node.group);
        group.name = node.group;
        if (members != groups_.end()) {
          group.ranks = members->second;
          group.size = 1 + std::count(group.ranks.begin(), group.ranks.end(), ',');
        }
      }
    } else {
      const bool sends = node.type == NodeType::kSend;
      event.collective = 1 + out.names.Of(sends ? "send" : "recv");
      group.source = node.source >= 0 || !sends || !rank_ ? node.source : *rank_;
      group.destination = node.destination >= 0 || sends || !rank_ ? node.destination : *rank_;
      if (!scheduled_) group.name = "transfers";
      group.size = 2;
    }
    if (group != RawGroup{}) event.group = out.GroupOf(group);
  }

  const std::map<std::string, std::string>& groups_;
  const std::optional<int> rank_;
  const bool scheduled_;
};

}  // namespace

bool LooksLikeChakra(std::string_view first_bytes) {
  std::string_view rest = first_bytes;
  const std::optional<std::uint64_t> message = TakeVarint(rest);
  const auto byte = [&rest](std::size_t at) {
    return at < rest.size() ? static_cast<unsigned char>(rest[at]) : 0U;
  };
  const auto spells = [&rest](std::size_t at, std::size_t size, std::string_view letters) {
    return size > 0 && at + size <= rest.size() &&
           rest.substr(at, size).find_first_not_of(letters) == std::string_view::npos;
  };
  if (!message) return false;
  // The field `version`, or an attribute that begins with its name.
  if (byte(0) == 0x0a) return byte(1) + 2U <= *message && spells(2, byte(1), "0123456789.");
  return byte(0) == 0x12 && byte(1) + 2U <= *message && byte(2) == 0x0a &&
         byte(3) + 2U <= byte(1) && spells(4, byte(3), "abcdefghijklmnopqrstuvwxyz_");
}

Result<RankEvents> ReadChakraTrace(ByteSource& bytes, std::string_view path,
                                   const std::function<bool()>& go_on) {
  FT_ASSIGN(ChakraGraph graph, ReadChakraGraph(bytes, path, go_on));
  std::vector<ChakraNode>& nodes = graph.nodes;
  RankEvents out;
  out.rank = RankOfName(path);
  const bool scheduled = std::none_of(nodes.begin(), nodes.end(), [](const ChakraNode& node) {
    return node.IsWork() && node.start_ns >= 0;
  });
  if (scheduled && !nodes.empty()) {
    const std::int64_t circle = ScheduleChakra(nodes);
    out.notes.push_back(
        "the execution trace has no start times: its nodes were scheduled by their dependencies, "
        "each rank by itself");
    if (circle > 0) {
      out.notes.push_back(std::to_string(circle) +
                          " nodes depend on each other in a circle and are left out");
    }
  }
  if (graph.cut_at) {
    out.notes.push_back("the execution trace ends too early, at byte " +
                        std::to_string(*graph.cut_at) + ": the " + std::to_string(nodes.size()) +
                        " nodes before it were imported");
  }
  const Events events(graph.groups, out.rank, scheduled);
  for (const ChakraNode& node : nodes) events.Add(node, out);
  return out;
}

}  // namespace foretrain::trace_import
