#include "app/explained_runs.h"

#include <utility>

#include "app/compared_runs.h"
#include "sim/program/program.h"

namespace foretrain {
namespace {

// Of both runs; all of them are read.
constexpr std::int64_t kMostExplainedSpans = 1'000'000;

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

}  // namespace

Result<Explanation> ExplainStoredRuns(const StoreRequest& runs, std::int32_t step) {
  FT_ASSIGN(const StoreReader reader, StoreReader::Open(runs.path));
  FT_ASSIGN(const RunChoice choice, ChoosePair(reader, runs.run, runs.against));
  std::int64_t spans = 0;
  for (const auto& run : {choice.predicted, choice.measured}) spans += run ? run->spans : 0;
  if (spans > kMostExplainedSpans) {
    return Fail(ErrorCode::kUnsupported,
                "the runs have " + std::to_string(spans) +
                    " spans, and to explain them all are read: `foretrain compare` does that");
  }
  FT_ASSIGN(const RunPair pair, LoadPair(reader, runs.run, runs.against));
  const StoredRun& shown = pair.measured ? *pair.measured : *pair.predicted;
  if (shown.info.kind == RunKind::kImported) {
    Explanation of_trace;
    of_trace.notes.push_back("a trace has no program: the gap is not attributed to causes");
    return of_trace;
  }
  FT_ASSIGN(const StoredContext stored, ContextOf(reader, shown));
  FT_ASSIGN(const Program program,
            Compile(stored.context.model, stored.plan, {.ranks = RankChoice::kClasses}));
  Explanation explanation;
  explanation.flops = FlopsOf(program);
  if (!pair.measured || !pair.predicted) return explanation;
  auto compared = CompareRuns(reader, runs.run, runs.against, step);
  if (!compared.has_value()) {
    explanation.notes.push_back(compared.error().message);
    return explanation;
  }
  if (compared->attribution != nullptr) {
    explanation.attribution = *compared->attribution;
    return explanation;
  }
  for (const std::string& note : compared->view.notes) {
    if (note.find("attributed") != std::string::npos) explanation.notes.push_back(note);
  }
  return explanation;
}

}  // namespace foretrain
