#include "app/runs/explained_runs.h"

#include <utility>

#include "app/report/memory/held_memory_report.h"
#include "app/runs/compared_runs.h"
#include "sim/program/ir/program.h"
#include "sim/program/ops/op_work.h"

namespace foretrain {
namespace {

// The step that is explained is read whole.
constexpr std::int64_t kMaxExplainedSpans = 1'000'000;

// FLOPs of each op name, over all ranks. Ops that differ only in micro-batch or rank share a name
// and a cost, so the first one counts.
std::map<OpId, double> FlopsOf(const Program& program) {
  std::map<OpId, double> flops;
  for (const RankProgram& rank : program.ranks) {
    for (const OpRef ref : OpRefs(program, rank)) {
      const auto [at, is_new] = flops.try_emplace(NameKey(IdOf(rank, ref)));
      if (is_new) at->second = WorkOf(OpAt(program, rank, ref)).flop;
    }
  }
  return flops;
}

// The mean over steps.
std::int64_t SpansOfStep(const RunInfo& run) { return run.spans / (run.last_step.value_or(0) + 1); }

// Reads only that step of the measurement.
Result<Attribution> AttributeStored(const StoreReader& reader, const RunInfo& predicted,
                                    const RunInfo& measured, std::int32_t step) {
  if (predicted.kind == RunKind::kImported) {
    return Fail(ErrorCode::kUnsupported,
                "a trace has no program: the gap is not attributed to causes");
  }
  if (SpansOfStep(measured) > kMaxExplainedSpans) {
    return Fail(
        ErrorCode::kUnsupported,
        "a step has about " + std::to_string(SpansOfStep(measured)) +
            " spans, and to explain it all of them are read: `foretrain compare` does that");
  }
  FT_ASSIGN(const StoredRun forecast, reader.LoadRun(predicted.id, {.spans = false}));
  FT_ASSIGN(const StoredRun run, reader.LoadRun(measured.id, {.steps = std::pair(step, step)}));
  return AttributeStep(reader, forecast, run, step);
}

// A trace is explained by the forecast whose ops its kernels are paired with.
Result<Explanation> ExplainTrace(const StoreReader& reader, const RunChoice& choice,
                                 std::int32_t step) {
  Explanation explanation;
  if (!choice.predicted || choice.predicted->kind == RunKind::kImported) {
    explanation.notes.push_back("a trace has no program: the gap is not attributed to causes");
    return explanation;
  }
  if (SpansOfStep(*choice.measured) > kMaxExplainedSpans) {
    explanation.notes.push_back("the trace is too long to explain here: `foretrain compare` does");
    return explanation;
  }
  const auto compared = CompareRuns(reader, choice.measured->id, choice.predicted->id, step);
  if (!compared.has_value()) {
    explanation.notes.push_back(compared.error().message);
  } else if (compared->attribution != nullptr) {
    explanation.attribution = *compared->attribution;
  } else if (!compared->view.notes.empty()) {
    explanation.notes.push_back(compared->view.notes.back());  // why it was not attributed
  }
  return explanation;
}

}  // namespace

// Compiles the plan again, which takes up to seconds, so the desktop calls this off its thread. A
// gap that cannot be attributed is a note: FLOPs are known without it.
Result<Explanation> ExplainStoredRuns(const StoreRequest& runs, std::int32_t step) {
  FT_ASSIGN(const StoreReader reader, StoreReader::Open(runs.path));
  FT_ASSIGN(const RunChoice choice, ChoosePair(reader, runs.run, runs.against));
  const RunInfo& shown = choice.measured ? *choice.measured : *choice.predicted;
  Explanation explanation;
  if (shown.kind == RunKind::kImported) return ExplainTrace(reader, choice, step);
  FT_ASSIGN(const StoredRun run, reader.LoadRun(shown.id, {.spans = false}));
  FT_ASSIGN(const StoredContext stored, ContextOf(reader, run));
  FT_ASSIGN(const Program program,
            Compile(stored.context.model, stored.plan, {.ranks = RankChoice::kClasses}));
  explanation.flops = FlopsOf(program);
  if (!choice.measured || !choice.predicted) return explanation;
  // The gap needs both runs; FLOPs need only the plan.
  auto attribution = AttributeStored(reader, *choice.predicted, *choice.measured, step);
  if (attribution.has_value()) {
    explanation.attribution = *std::move(attribution);
  } else {
    explanation.notes.push_back(attribution.error().message);
  }
  return explanation;
}

namespace {

// A snapshot says which stacks hold device memory at its peak. Errors: kUnsupported, the trace is
// none.
Result<LiveRanks> LiveOfSnapshot(const StoreReader& reader, RunId run, Space space) {
  const std::vector<HeldOfRank> held = HeldMemoryOf(reader, run);
  if (held.empty() || space != Space::kDevice) {
    return Fail(ErrorCode::kUnsupported,
                "the trace does not say what its memory is for; a memory snapshot does");
  }
  LiveRanks live;
  live.of_snapshot = true;
  for (const HeldOfRank& of : held) {
    LiveAtPeak peak;
    peak.rank = of.rank;
    for (const HeldMemory& one : of.held) {
      peak.total_bytes += one.bytes;
      LiveTensors tensors;
      tensors.name = one.frame.empty() ? "no stack" : one.frame;
      tensors.category = one.category;
      tensors.count = one.allocations;
      tensors.bytes = one.bytes;
      peak.tensors.push_back(std::move(tensors));
    }
    live.ranks.push_back(std::move(peak));
  }
  return live;
}

}  // namespace

// Finds the tensors that are live at each rank's peak. Nothing of the timeline is read: the program
// alone decides.
Result<LiveRanks> LiveOfStoredRun(const StoreRequest& runs, Space space) {
  FT_ASSIGN(const StoreReader reader, StoreReader::Open(runs.path));
  LoadOptions options;
  options.timeline = false;
  FT_ASSIGN(const StoredRun run, reader.LoadRun(runs.run, options));
  if (run.info.kind == RunKind::kImported) return LiveOfSnapshot(reader, run.info.id, space);
  FT_ASSIGN(const StoredContext stored, ContextOf(reader, run));
  FT_ASSIGN(const Program program,
            Compile(stored.context.model, stored.plan, {.ranks = RankChoice::kClasses}));
  LiveRanks live;
  live.stands_for.assign(program.stands_for.begin(), program.stands_for.end());
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    live.ranks.push_back(FindLiveAtPeak(program, rank, space));
  }
  return live;
}

}  // namespace foretrain
