#include "app/runs/execution_traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "app/runs/traced_ranks.h"
#include "sim/compare/join.h"
#include "sim/program/ir/program.h"
#include "sim/program/lower/rank/rank_class.h"
#include "traces/export/execution_trace.h"
#include "traces/metrics/classes.h"
#include "traces/metrics/skew.h"

namespace foretrain {
namespace {

// Start and length of an op in one step, over its spans.
struct OpTime {
  std::int64_t start_ns = 0;
  std::int64_t busy_ns = 0;
  std::int64_t bytes = 0;
};

// Times of one rank's ops by id. Launches are left out.
std::map<OpId, OpTime> TimesOf(const Timeline& timeline, int rank, int step) {
  std::map<OpId, OpTime> times;
  for (const Span& span : SpansOfRank(timeline, rank)) {
    const bool launches = span.queue == Queue::kHost && span.op_class != OpClass::kHost;
    if (span.step != step || span.op == kNoOp || launches) continue;
    const auto [at, is_new] = times.try_emplace(span.op, OpTime{.start_ns = span.start_ns});
    at->second.start_ns = std::min(at->second.start_ns, span.start_ns);
    at->second.busy_ns += span.end_ns - span.start_ns;
    at->second.bytes += span.bytes;
  }
  return times;
}

// Makes the graphs of a program's ranks.
class Graphs {
 public:
  explicit Graphs(const Program& program) : program_(program) {
    for (const RankProgram& rank : program.ranks) {
      for (const OpRef& ref : OpRefs(program, rank)) {
        const Op& op = OpAt(program, rank, ref);
        if (IsTransfer(op.kind)) tags_.try_emplace(SendOf(IdOf(rank, ref)), std::ssize(tags_) + 1);
      }
    }
  }

  ExecutionTrace Of(const RankProgram& rank, const std::map<OpId, OpTime>& times) const {
    ExecutionTrace trace{.rank = rank.rank};
    std::array<std::int64_t, kQueueCount> on_queue{};
    on_queue.fill(-1);
    for (const OpRef& ref : OpRefs(program_, rank)) {
      const Op& op = OpAt(program_, rank, ref);
      const OpId id = IdOf(rank, ref);
      ExecutionNode node{.name = op.name, .op_class = op.op_class};
      node.on_host = op.queue == Queue::kHost || op.queue == Queue::kCpu;
      if (const auto time = times.find(id); time != times.end()) {
        node.start_ns = time->second.start_ns;
        node.duration_ns = time->second.busy_ns;
        node.bytes = time->second.bytes;
      }
      AddCommunication(rank, op, id, trace, node);
      std::int64_t& before = on_queue[static_cast<std::size_t>(op.queue)];
      if (before >= 0) node.control_dependencies.push_back(before);
      before = std::ssize(trace.nodes);
      trace.nodes.push_back(std::move(node));
    }
    // Edges of one step; those from the step before are left out, as a graph has one step.
    for (const Edge& edge : rank.edges) {
      if (edge.distance != 0 || edge.from >= edge.to) continue;
      trace.nodes[static_cast<std::size_t>(edge.to)].data_dependencies.push_back(edge.from);
    }
    return trace;
  }

 private:
  void AddCommunication(const RankProgram& rank, const Op& op, OpId id, ExecutionTrace& trace,
                        ExecutionNode& node) const {
    using chakra::NodeType;
    if (FamilyOf(op.kind) == OpFamily::kCopy && op.queue != Queue::kCompute) {
      node.type = op.queue == Queue::kH2d ? NodeType::kMemoryLoad : NodeType::kMemoryStore;
    }
    if (!IsCommunication(op.kind)) return;
    const std::int32_t group = rank.groups[static_cast<std::size_t>(op.group)];
    if (group < 0) return;
    const std::vector<int>& members = program_.groups[static_cast<std::size_t>(group)];
    if (IsTransfer(op.kind)) {
      node.type = op.kind == OpKind::kSend ? NodeType::kSend : NodeType::kReceive;
      const auto other = std::find_if(members.begin(), members.end(),
                                      [&](int member) { return member != rank.rank; });
      node.peer = other == members.end() ? rank.rank : *other;
      node.tag = tags_.at(SendOf(id));
      return;
    }
    node.type = NodeType::kCollective;
    node.collective = CollectiveNamed(Name(op.kind));
    node.group = group;
    trace.groups.try_emplace(group, members);
  }

  const Program& program_;
  std::map<OpId, std::int64_t> tags_;  // of transfers, by their send
};

// The step to write. Errors: kInvalidArgument, no such step.
Result<int> StepOf(const StoredRun& run, int asked) {
  std::set<int> steps;
  for (const StepWindow& window : run.timeline.steps) steps.insert(window.step);
  if (steps.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("run {} has no complete step", run.info.id));
  }
  if (asked < 0) {
    return run.info.kind == RunKind::kPredicted
               ? *steps.rbegin()
               : MedianStep(run.timeline, *steps.begin()).value_or(*steps.begin());
  }
  if (steps.contains(asked)) return asked;
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("--step: run {} has no step {}; it has steps {} to {}", run.info.id,
                          asked, *steps.begin(), *steps.rbegin()));
}

// Starts count from the first start of the step, because a graph has one step.
void BeginAtZero(const Timeline& timeline, int step, ExecutionTrace& trace) {
  std::int64_t first_ns = 0;
  bool found = false;
  for (const StepWindow& window : timeline.steps) {
    if (window.step != step) continue;
    first_ns = found ? std::min(first_ns, window.start_ns) : window.start_ns;
    found = true;
  }
  for (ExecutionNode& node : trace.nodes) {
    node.start_ns = std::max<std::int64_t>(0, node.start_ns - first_ns);
  }
}

Result<void> WriteOfProgram(const StoreReader& reader, const StoredRun& run, int step,
                            ExecutionTraceFolder& folder) {
  FT_ASSIGN(const StoredContext stored, ContextOf(reader, run));
  const ModelSpec& model = stored.context.model;
  FT_ASSIGN(const Program program, Compile(model, stored.plan));
  // A forecast of representatives has the hash of a program of these.
  if (program.hash != run.info.program_hash) {
    FT_ASSIGN(const Program classes, Compile(model, stored.plan, {.ranks = RankChoice::kClasses}));
    if (classes.hash != run.info.program_hash) {
      return Fail(ErrorCode::kUnsupported,
                  fmt::format("run {}: this foretrain compiles the plan to another program than "
                              "the run's; forecast or train it again",
                              run.info.id));
    }
  }
  const std::set<int> recorded = RecordedRanks(run.timeline);
  const std::vector<std::int32_t> stands_for =
      Representatives(model, stored.plan, RankChoice::kClasses);
  const Graphs graphs(program);
  for (const RankProgram& rank : program.ranks) {
    const auto stands = static_cast<std::size_t>(rank.rank) < stands_for.size()
                            ? stands_for[static_cast<std::size_t>(rank.rank)]
                            : rank.rank;
    const bool own = recorded.contains(rank.rank);
    ExecutionTrace trace = graphs.Of(rank, TimesOf(run.timeline, own ? rank.rank : stands, step));
    BeginAtZero(run.timeline, step, trace);
    FT_TRY(folder.Add(trace));
  }
  return {};
}

}  // namespace

Result<RunId> WriteExecutionTraces(const StoreReader& reader, RunId run, int step,
                                   FileSystem& files, const std::string& folder) {
  FT_ASSIGN(const RunChoice choice, ChoosePair(reader, run, 0));
  FT_ASSIGN(const StoredRun stored,
            reader.LoadRun(choice.measured ? choice.measured->id : choice.predicted->id));
  FT_ASSIGN(const int shown, StepOf(stored, step));
  ExecutionTraceFolder out(files, folder);
  if (stored.info.kind == RunKind::kImported) {
    for (const int rank : RecordedRanks(stored.timeline)) {
      ExecutionTrace trace = ExecutionTraceOf(stored.timeline, rank, shown);
      BeginAtZero(stored.timeline, shown, trace);
      FT_TRY(out.Add(trace));
    }
  } else {
    FT_TRY(WriteOfProgram(reader, stored, shown, out));
  }
  FT_TRY(out.Finish());
  return stored.info.id;
}

}  // namespace foretrain
