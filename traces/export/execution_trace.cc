#include "traces/export/execution_trace.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/json/json.h"
#include "traces/chakra/wire.h"
#include "traces/metrics/classes.h"
#include "traces/metrics/skew.h"

namespace foretrain {
namespace {

using chakra::NodeType;

// The schema's version, as Chakra's own converter writes it.
constexpr std::string_view kVersion = "0.0.4";
constexpr std::int64_t kNsPerUs = 1000;

void AddNumber(WireWriter& node, std::string_view name, int field, std::int64_t value) {
  WireWriter attribute;
  attribute.Text(chakra::kAttributeName, name).Varint(field, static_cast<std::uint64_t>(value));
  node.Message(chakra::kAttribute, attribute);
}

void AddText(WireWriter& node, std::string_view name, std::string_view value) {
  WireWriter attribute;
  attribute.Text(chakra::kAttributeName, name).Text(chakra::kString, value);
  node.Message(chakra::kAttribute, attribute);
}

std::string NameOfGroup(std::int64_t group) { return std::to_string(group + 1); }

std::string GroupsText(const std::map<std::int64_t, std::vector<int>>& groups) {
  JsonWriter json;
  json.BeginArray();
  for (const auto& [group, ranks] : groups) {
    json.BeginObject().Field("pg_name", NameOfGroup(group)).Name("ranks").BeginArray();
    for (const int rank : ranks) json.Integer(rank);
    json.EndArray().Field("group_size", std::ssize(ranks)).EndObject();
  }
  return json.EndArray().Take();
}

// Attributes with the types that Chakra's feeder reads.
void AddCommunication(const ExecutionNode& of, int rank, WireWriter& node) {
  AddNumber(node, chakra::kCommSize, chakra::kInt64, of.bytes);
  if (of.type == NodeType::kCollective) {
    AddNumber(node, chakra::kCommType, chakra::kInt64, static_cast<std::int64_t>(of.collective));
    if (of.group >= 0) AddText(node, chakra::kGroupName, NameOfGroup(of.group));
    return;
  }
  const bool sends = of.type == NodeType::kSend;
  AddNumber(node, chakra::kCommSource, chakra::kInt32, sends ? rank : of.peer);
  AddNumber(node, chakra::kCommDestination, chakra::kInt32, sends ? of.peer : rank);
  AddNumber(node, chakra::kCommTag, chakra::kInt32, of.tag);
}

std::string NameOf(const Timeline& timeline, const Span& span) {
  if (span.op == kNoOp) return std::string(Name(span.op_class));
  const auto found = timeline.op_names.find(NameKey(span.op));
  return found == timeline.op_names.end() ? Describe(span.op) : found->second;
}

bool IsOnHost(const Span& span) {
  return span.op_class == OpClass::kHost || span.queue == Queue::kHost || span.queue == Queue::kCpu;
}

ExecutionNode NodeOf(const Timeline& timeline, const Span& span) {
  ExecutionNode node{.name = NameOf(timeline, span),
                     .on_host = IsOnHost(span),
                     .op_class = span.op_class,
                     .start_ns = span.start_ns,
                     .duration_ns = span.end_ns - span.start_ns,
                     .bytes = span.bytes};
  if (IsCommunication(span.op_class) && !node.on_host) {
    node.type = NodeType::kCollective;
    node.collective = CollectiveNamed(node.name);
  } else if (span.op_class == OpClass::kCopy && span.queue != Queue::kCompute) {
    const bool to_device = span.queue == Queue::kH2d;
    node.type = to_device ? NodeType::kMemoryLoad : NodeType::kMemoryStore;
  }
  return node;
}

}  // namespace

chakra::Collective CollectiveNamed(std::string_view name) {
  // A name that is part of another one, such as "reduce", comes after it.
  constexpr std::array kOrder{
      chakra::Collective::kReduceScatter, chakra::Collective::kAllReduce,
      chakra::Collective::kAllGather,     chakra::Collective::kAllToAll,
      chakra::Collective::kBroadcast,     chakra::Collective::kBarrier,
      chakra::Collective::kGather,        chakra::Collective::kScatter,
  };
  std::string lower;
  for (const char c : name) {
    if (c == '_') continue;
    lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  for (const chakra::Collective collective : kOrder) {
    std::string word;
    for (const char c : chakra::kCollectiveNames[static_cast<std::size_t>(collective)]) {
      if (c != '_') word += c;
    }
    if (lower.find(word) != std::string::npos) return collective;
  }
  return chakra::Collective::kAllReduce;
}

std::string EncodeExecutionTrace(const ExecutionTrace& trace) {
  std::string out;
  WireWriter metadata;
  metadata.Text(chakra::kVersion, kVersion);
  if (!trace.groups.empty()) {
    WireWriter attribute;
    attribute.Text(chakra::kAttributeName, chakra::kGroups);
    attribute.Text(chakra::kString, GroupsText(trace.groups));
    metadata.Message(chakra::kMetadataAttribute, attribute);
  }
  metadata.AppendTo(out);
  for (std::size_t i = 0; i < trace.nodes.size(); ++i) {
    const ExecutionNode& of = trace.nodes[i];
    WireWriter node;
    node.Varint(chakra::kId, i).Text(chakra::kName, of.name);
    node.Varint(chakra::kType, static_cast<std::uint64_t>(of.type));
    node.Varints(chakra::kControlDependencies, of.control_dependencies);
    // Feeders of simulators look at data dependencies alone, so they have the others too.
    std::vector<std::int64_t> all = of.data_dependencies;
    all.insert(all.end(), of.control_dependencies.begin(), of.control_dependencies.end());
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    node.Varints(chakra::kDataDependencies, all);
    const std::int64_t start_us = std::max<std::int64_t>(0, of.start_ns) / kNsPerUs;
    node.Varint(chakra::kStartMicros, static_cast<std::uint64_t>(start_us));
    node.Varint(chakra::kDurationMicros,
                static_cast<std::uint64_t>((of.duration_ns + kNsPerUs - 1) / kNsPerUs));
    AddNumber(node, chakra::kIsCpuOp, chakra::kBool, of.on_host ? 1 : 0);
    const bool loads = of.type == NodeType::kMemoryLoad || of.type == NodeType::kMemoryStore;
    if (loads) AddNumber(node, chakra::kTensorSize, chakra::kUint64, of.bytes);
    if (of.type >= NodeType::kSend) AddCommunication(of, trace.rank, node);
    AddNumber(node, chakra::kStartNs, chakra::kInt64, of.start_ns);
    AddNumber(node, chakra::kDurationNs, chakra::kInt64, of.duration_ns);
    AddText(node, chakra::kOpClass, Name(of.op_class));
    node.AppendTo(out);
  }
  return out;
}

// Spans in order of their starts. Launches are left out: their ops stand for them.
ExecutionTrace ExecutionTraceOf(const Timeline& timeline, int rank, int step) {
  std::vector<const Span*> spans;
  for (const Span& span : SpansOfRank(timeline, rank)) {
    if (span.step == step && span.queue != Queue::kHost) spans.push_back(&span);
  }
  std::stable_sort(spans.begin(), spans.end(),
                   [](const Span* a, const Span* b) { return a->start_ns < b->start_ns; });
  std::vector<std::size_t> by_end(spans.size());
  for (std::size_t i = 0; i < by_end.size(); ++i) by_end[i] = i;
  std::sort(by_end.begin(), by_end.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(spans[a]->end_ns, a) < std::pair(spans[b]->end_ns, b);
  });
  ExecutionTrace trace{.rank = rank};
  std::array<std::int64_t, kQueueCount> on_queue{};  // the newest node of each queue
  on_queue.fill(-1);
  std::size_t ended = 0;         // in by_end
  std::int64_t last_ended = -1;  // the node that ended last
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Span& span = *spans[i];
    ExecutionNode node = NodeOf(timeline, span);
    while (ended < by_end.size() && spans[by_end[ended]]->end_ns <= span.start_ns &&
           by_end[ended] < i) {
      last_ended = static_cast<std::int64_t>(by_end[ended++]);
    }
    std::int64_t& before = on_queue[static_cast<std::size_t>(span.queue)];
    if (before >= 0) node.control_dependencies.push_back(before);
    if (last_ended >= 0 && last_ended != before &&
        (before < 0 || spans[static_cast<std::size_t>(last_ended)]->end_ns >
                           spans[static_cast<std::size_t>(before)]->end_ns)) {
      node.data_dependencies.push_back(last_ended);
    }
    before = static_cast<std::int64_t>(i);
    trace.nodes.push_back(std::move(node));
  }
  return trace;
}

ExecutionTraceFolder::ExecutionTraceFolder(FileSystem& files, std::string folder)
    : files_(files), folder_(std::move(folder)) {}

Result<void> ExecutionTraceFolder::Add(const ExecutionTrace& trace) {
  FT_TRY(files_.CreateDirectories(folder_));
  groups_.insert(trace.groups.begin(), trace.groups.end());
  return WriteFileAtomically(files_, folder_ + "/rank." + std::to_string(trace.rank) + ".et",
                             EncodeExecutionTrace(trace));
}

Result<void> ExecutionTraceFolder::Finish() {
  JsonWriter json;
  json.BeginObject();
  for (const auto& [group, ranks] : groups_) {
    json.Name(NameOfGroup(group)).BeginArray();
    for (const int rank : ranks) json.Integer(rank);
    json.EndArray();
  }
  return WriteFileAtomically(files_, folder_ + "/comm_groups.json", json.EndObject().Take() + "\n");
}

}  // namespace foretrain
