#include "traces/export/kineto_trace.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "traces/export/event_text.h"

namespace foretrain {
namespace {

constexpr int kHostProcess = 1000;  // the device is process 0
constexpr int kComputeStream = 7;   // PyTorch's default stream

bool IsSend(Queue queue) { return queue == Queue::kSendNext || queue == Queue::kSendPrev; }

int StreamOf(Queue queue) {
  return queue == Queue::kCompute ? kComputeStream : 20 + static_cast<int>(queue);
}

// A collective as NCCL's kernels and Kineto's records name it.
struct Collective {
  std::string_view word;    // of our op names
  std::string_view kernel;  // behind "ncclDevKernel_"
  std::string_view record;
};
constexpr std::array<Collective, 5> kCollectives{{
    {"reduce_scatter", "ReduceScatter_Sum_bf16_RING_LL", "_reduce_scatter_base"},
    {"all_gather", "AllGather_RING_LL", "_allgather_base"},
    {"all_to_all", "AllToAll_RING_LL", "all_to_allv"},
    {"broadcast", "Broadcast_RING_LL", "broadcast"},
    {"all_reduce", "AllReduce_Sum_bf16_RING_LL", "allreduce"},
}};

// By the instruction's kind, else by its op's name; the last if neither says it.
const Collective& CollectiveOf(const Span& span, std::string_view name) {
  const InstructionKind kind = span.op == kNoOp ? InstructionKind::kBlock : UnpackId(span.op).kind;
  for (const Collective& collective : kCollectives) {
    if (Name(kind) == collective.word || name.find(collective.word) != std::string_view::npos) {
      return collective;
    }
  }
  return kCollectives.back();
}

// Megatron-Core's description of the group of a queue's communication.
std::string_view DescriptionOf(OpClass op_class) {
  switch (op_class) {
    case OpClass::kTpComm:
      return "TENSOR_MODEL_PARALLEL_GROUP";
    case OpClass::kCpComm:
      return "CONTEXT_PARALLEL_GROUP";
    case OpClass::kEpComm:
      return "EXPERT_MODEL_PARALLEL_GROUP";
    case OpClass::kPpComm:
      return "PIPELINE_MODEL_PARALLEL_GROUP";
    default:
      return "DATA_PARALLEL_GROUP";
  }
}

// "attn" in place of "attention": by that word tools take an op for the attention's core.
std::string WithoutAttention(std::string name) {
  constexpr std::string_view kWord = "attention";
  for (std::size_t at = 0; (at = name.find(kWord, at)) != std::string::npos;) {
    name.replace(at, kWord.size(), "attn");
  }
  return name;
}

// The file of one rank.
class Writer {
 public:
  Writer(const Timeline& timeline, int rank) : timeline_(timeline) {
    // With the profiler's spaces, by which some tools find the rank.
    text_ = "{\n\"schemaVersion\": 1,\n\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": " +
            std::to_string(rank) + ", \"world_size\": " + std::to_string(timeline.world) +
            "},\n\"displayTimeUnit\": \"ms\",\n\"traceEvents\": [";
  }

  void AddStep(const StepWindow& window) {
    Open("user_annotation", "ProfilerStep#" + std::to_string(window.step), kHostProcess, 1,
         window.start_ns, window.end_ns);
    text_ += "}}";
  }

  // `launched`: the number that joins it to its launch; -1: none was recorded.
  void AddDeviceSpan(const Span& span, std::int64_t start_ns, std::int64_t launched,
                     const std::string& group) {
    const bool copies = span.op_class == OpClass::kCopy;
    const int stream = StreamOf(span.queue);
    Open(copies ? "gpu_memcpy" : "kernel", KernelName(span), 0, stream, start_ns, span.end_ns);
    text_ += "\"device\":0,\"stream\":" + std::to_string(stream);
    if (launched >= 0) text_ += ",\"correlation\":" + std::to_string(launched);
    if (span.bytes > 0 && !IsCommunication(span.op_class)) {
      text_ += ",\"bytes\":" + std::to_string(span.bytes);
    }
    text_ += group + "}}";
  }

  void AddHostSpan(const Span& span, std::int64_t launched) {
    const bool is_launch = launched >= 0;
    Open(is_launch ? "cuda_runtime" : "cpu_op", is_launch ? "cudaLaunchKernel" : NameOf(span),
         kHostProcess, 1 + static_cast<int>(span.queue), span.start_ns, span.end_ns);
    if (is_launch) text_ += "\"correlation\":" + std::to_string(launched);
    text_ += "}}";
  }

  void AddMemory(std::int64_t time_ns, std::int64_t change, std::int64_t total) {
    Begin("\"ph\":\"i\",\"s\":\"t\",\"name\":\"[memory]\",\"cat\":\"cpu_instant_event\",\"pid\":" +
          std::to_string(kHostProcess) + ",\"tid\":1,\"ts\":");
    AppendMicroseconds(text_, time_ns);
    text_ += ",\"args\":{\"Device Type\":1,\"Device Id\":0,\"Bytes\":" + std::to_string(change) +
             ",\"Total Allocated\":" + std::to_string(total) + "}}";
  }

  std::string NameOf(const Span& span) const {
    if (span.op == kNoOp) return std::string(Name(span.op_class));
    const auto found = timeline_.op_names.find(NameKey(span.op));
    return found == timeline_.op_names.end() ? Describe(span.op) : found->second;
  }

  std::string End() && { return std::move(text_) + "\n]}\n"; }

 private:
  void Begin(std::string_view fields) {
    text_ += first_ ? "\n{" : ",\n{";
    first_ = false;
    text_ += fields;
  }

  // Begins a complete event up to the members of its "args".
  void Open(std::string_view category, std::string_view name, int process, int thread,
            std::int64_t start_ns, std::int64_t end_ns) {
    Begin("\"ph\":\"X\",\"cat\":");
    AppendQuoted(text_, category);
    text_ += ",\"name\":";
    AppendQuoted(text_, name);
    text_ += ",\"pid\":" + std::to_string(process) + ",\"tid\":" + std::to_string(thread);
    text_ += ",\"ts\":";
    AppendMicroseconds(text_, start_ns);
    text_ += ",\"dur\":";
    AppendMicroseconds(text_, end_ns - start_ns);
    text_ += ",\"args\":{";
  }

  std::string KernelName(const Span& span) const {
    const std::string name = NameOf(span);
    if (IsTransfer(span.queue)) return "ncclDevKernel_SendRecv";
    if (IsCommunication(span.op_class)) {
      return "ncclDevKernel_" + std::string(CollectiveOf(span, name).kernel);
    }
    switch (span.op_class) {
      case OpClass::kGemm:
        return "gemm_" + WithoutAttention(name);
      case OpClass::kAttention:
        return "flash_attn_" + name;
      case OpClass::kCopy:
        if (span.queue == Queue::kH2d) return "Memcpy HtoD (Pinned -> Device)";
        if (span.queue == Queue::kCompute) return "Memcpy DtoD (Device -> Device)";
        return "Memcpy DtoH (Device -> Pinned)";
      default:
        return WithoutAttention(name);
    }
  }

  const Timeline& timeline_;
  std::string text_;
  bool first_ = true;
};

// Numbers of launches, by op and step.
using Launches = std::map<std::pair<OpId, std::int32_t>, std::int64_t>;

Launches LaunchesOf(const Timeline& timeline, int rank) {
  std::set<std::pair<OpId, std::int32_t>> on_device;
  for (const Span& span : timeline.spans) {
    if (span.rank == rank && span.op_class != OpClass::kHost)
      on_device.insert({span.op, span.step});
  }
  Launches launches;
  for (const Span& span : timeline.spans) {
    if (span.rank != rank || span.queue != Queue::kHost || span.op == kNoOp) continue;
    const std::pair key{span.op, span.step};
    if (on_device.contains(key)) launches.try_emplace(key, std::ssize(launches) + 1);
  }
  return launches;
}

// One event for each moment in which live bytes of the device change.
void AddMemory(const Timeline& timeline, int rank, Writer& writer) {
  std::array<std::int64_t, kCategoryCount> live{};
  std::int64_t total = 0, told = 0;
  const std::vector<MemorySample>& samples = timeline.memory;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const MemorySample& sample = samples[i];
    if (sample.rank != rank || sample.space != Space::kDevice) continue;
    std::int64_t& bytes = live[static_cast<std::size_t>(sample.category)];
    total += sample.bytes - bytes;
    bytes = sample.bytes;
    const bool more = i + 1 < samples.size() && samples[i + 1].rank == rank &&
                      samples[i + 1].time_ns == sample.time_ns;
    if (more || total == told) continue;
    writer.AddMemory(sample.time_ns, total - told, total);
    told = total;
  }
}

}  // namespace

KinetoTraces::KinetoTraces(const Timeline& timeline, const CommunicationGroups& groups)
    : timeline_(timeline), groups_(groups) {
  for (const Span& span : timeline.spans) {
    if (IsCommunication(span.op_class) && !IsTransfer(span.queue))
      ranks_[span.op].insert(span.rank);
    if (!IsTransfer(span.queue)) continue;
    const int pipeline = GroupOf(groups, span);
    if (pipeline < 0) continue;
    Ends& ends = transfers_[{SendOf(span.op), span.step, pipeline}];
    (IsSend(span.queue) ? ends.sender : ends.receiver) = span.rank;
  }
}

std::vector<int> KinetoTraces::Ranks() const {
  std::set<int> ranks;
  for (const Span& span : timeline_.spans) ranks.insert(span.rank);
  for (const StepWindow& window : timeline_.steps) ranks.insert(window.rank);
  return {ranks.begin(), ranks.end()};
}

KinetoTraces::Members KinetoTraces::MembersOf(const Span& span) const {
  const int group = GroupOf(groups_, span);
  const std::string_view queue = IsTransfer(span.queue) ? "pp" : Name(span.queue);
  Members members{.name = std::string(queue) + "." + std::to_string(group)};
  if (group >= 0) {
    const std::vector<int>& numbers = groups_.of[static_cast<std::size_t>(span.queue)];
    for (std::size_t r = 0; r < numbers.size(); ++r) {
      if (numbers[r] == group) members.ranks.push_back(static_cast<int>(r));
    }
  }
  if (const auto found = ranks_.find(span.op); members.ranks.size() < 2 && found != ranks_.end()) {
    members.name = std::string(queue) + ".op";
    members.ranks.assign(found->second.begin(), found->second.end());
  }
  return members;
}

std::string KinetoTraces::RecordOf(const Span& span, std::string_view name) const {
  if (!IsCommunication(span.op_class)) return {};
  const Members members = MembersOf(span);
  if (members.ranks.size() < 2) return {};
  std::string_view kind = CollectiveOf(span, name).record;
  if (IsTransfer(span.queue)) kind = IsSend(span.queue) ? "send" : "recv";
  std::string ranks;
  for (const int rank : members.ranks) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  std::string text =
      ",\"Collective name\":\"" + std::string(kind) +
      "\",\"In msg nelems\":" + std::to_string(span.bytes) +
      ",\"dtype\":\"Byte\",\"Group size\":" + std::to_string(members.ranks.size()) +
      ",\"Process Group Name\":\"" + members.name + "\",\"Process Group Description\":\"" +
      std::string(DescriptionOf(span.op_class)) + "\",\"Process Group Ranks\":\"[" + ranks + "]\"";
  if (!IsTransfer(span.queue)) return text;
  const auto ends = transfers_.find({SendOf(span.op), span.step, GroupOf(groups_, span)});
  if (ends == transfers_.end()) return text;
  return text + ",\"Src Rank\":" + std::to_string(ends->second.sender) +
         ",\"Dst Rank\":" + std::to_string(ends->second.receiver);
}

std::string KinetoTraces::TextOf(int rank) const {
  Writer writer(timeline_, rank);
  std::map<std::int32_t, std::int64_t> begins;  // of steps
  for (const StepWindow& window : timeline_.steps) {
    if (window.rank != rank) continue;
    writer.AddStep(window);
    begins[window.step] = window.start_ns;
  }
  const Launches launches = LaunchesOf(timeline_, rank);
  std::array<std::int64_t, kQueueCount> free{};  // end of the last span of each queue
  free.fill(INT64_MIN);
  for (const Span& span : timeline_.spans) {
    if (span.rank != rank) continue;
    const auto launch = launches.find({span.op, span.step});
    const std::int64_t launched = launch == launches.end() ? -1 : launch->second;
    if (span.op_class == OpClass::kHost || span.queue == Queue::kHost) {
      writer.AddHostSpan(span, span.queue == Queue::kHost ? launched : -1);
      continue;
    }
    // A receive may be posted before its step begins: readers take a kernel's step from its start.
    std::int64_t& before = free[static_cast<std::size_t>(span.queue)];
    std::int64_t start_ns = span.start_ns;
    if (IsCommunication(span.op_class) && span.ready_ns < start_ns) {
      const auto begin = begins.find(span.step);
      start_ns = std::max(span.ready_ns, before);
      if (begin != begins.end()) start_ns = std::max(start_ns, begin->second);
      start_ns = std::min(start_ns, span.start_ns);
    }
    writer.AddDeviceSpan(span, start_ns, launched, RecordOf(span, writer.NameOf(span)));
    before = span.end_ns;
  }
  AddMemory(timeline_, rank, writer);
  return std::move(writer).End();
}

Result<void> WriteKinetoTraces(const Timeline& timeline, const CommunicationGroups& groups,
                               FileSystem& files, const std::string& folder) {
  FT_TRY(files.CreateDirectories(folder));
  const KinetoTraces traces(timeline, groups);
  for (const int rank : traces.Ranks()) {
    const std::string text = traces.TextOf(rank);
    FT_TRY(ReplaceFile(files, folder + "/rank-" + std::to_string(rank) + ".json",
                       [&](WritableFile& file) {
                         return file.Append(std::as_bytes(std::span(text.data(), text.size())));
                       }));
  }
  return {};
}

}  // namespace foretrain
