#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "sim/program/compile_generation.h"
#include "sim/program/compile_unverified.h"
#include "sim/program/ir/groups.h"
#include "sim/program/ir/program.h"
#include "sim/program/lower/layout/bucket_layout.h"
#include "sim/program/lower/rank/emit.h"
#include "sim/program/lower/rank/lowerings.h"
#include "sim/program/lower/rank/rank_class.h"
#include "sim/program/lower/update/host_logits.h"

namespace foretrain {
namespace {

// Purpose of a program's steps. The steps of the last two have forward passes alone.
enum class StepUse {
  kTraining,
  kEvaluation,
  kGeneration,  // the host reads the logits; state is parameters alone
};

// The groups of all ranks; ranks of one group share its entry.
class GroupTable {
 public:
  explicit GroupTable(Program& program) : program_(program) {}

  void Fill(RankProgram& rank) {
    for (int kind = 0; kind < kGroupKindCount; ++kind) {
      rank.groups[static_cast<std::size_t>(kind)] =
          NumberOf(GroupMembers(program_.plan, rank.Coordinates(), static_cast<GroupKind>(kind),
                                program_.model.kv_heads));
    }
  }

 private:
  std::int32_t NumberOf(std::vector<int> members) {
    if (members.empty()) return -1;
    const auto [found, is_new] =
        numbers_.try_emplace(members, static_cast<std::int32_t>(program_.groups.size()));
    if (is_new) program_.groups.push_back(std::move(members));
    return found->second;
  }

  Program& program_;
  std::map<std::vector<int>, std::int32_t> numbers_;
};

// Emits the ranks that `options` choose, in ascending order. `written` is called after each and
// returns whether to go on.
template <class Written>
Result<void> EmitRanks(const ModelSpec& model, const Plan& plan, const CompileOptions& options,
                       StepUse use, BlockRegistry& registry, Program& program,
                       const Written& written) {
  FT_TRY(ValidateModel(model));
  FT_TRY(ValidatePlan(plan, model));
  program.model = model;
  program.plan = plan;
  program.stands_for = Representatives(model, plan, options.ranks);
  GroupTable groups(program);
  for (int pp = 0; pp < plan.pp; ++pp) {
    const Stage stage = StageOf(model, plan, pp);
    for (const RankCoordinates& at : RanksOfStage(plan, pp)) {
      const int number = RankOf(plan, at);
      // Ranks with a representative are left out.
      if (!program.stands_for.empty() &&
          program.stands_for[static_cast<std::size_t>(number)] != number)
        continue;
      BucketLayout layout = LayOutBuckets(model, plan, stage, at);
      if (use == StepUse::kGeneration) {
        for (Bucket& bucket : layout.buckets) bucket.frozen = true;
      }
      const LowerContext context{model, plan, stage, layout, at, use != StepUse::kTraining};
      RankProgram& rank = program.ranks.emplace_back();
      rank.rank = number;
      rank.pp = at.pp;
      rank.dp = at.dp;
      rank.cp = at.cp;
      rank.tp = at.tp;
      groups.Fill(rank);
      Skeleton skeleton = LowerStep(context);
      if (use == StepUse::kGeneration) LowerHostLogits(context, skeleton);
      EmitRank(context, skeleton, registry, rank);
      if (use == StepUse::kGeneration) KeepHostLogits(rank);
      if (!written(rank)) return {};
    }
  }
  return {};
}

Result<Program> CompileAll(const ModelSpec& model, const Plan& plan, const CompileOptions& options,
                           StepUse use, int threads) {
  Program program;
  BlockRegistry registry;
  FT_TRY(EmitRanks(model, plan, options, use, registry, program,
                   [](const RankProgram&) { return true; }));
  program.blocks = registry.Take();
  Link(program, threads);
  return program;
}

}  // namespace

// All ranks are emitted before Link, which needs them together to couple communication and to
// detect deadlocks.
Result<Program> CompileUnverified(const ModelSpec& model, const Plan& plan,
                                  const CompileOptions& options, int threads) {
  return CompileAll(model, plan, options, StepUse::kTraining, threads);
}

// Link reads the blocks from the program, but the registry still adds to them. So they are swapped
// in for LinkAlone and back afterwards, which copies nothing.
Result<Program> CompileOutline(const ModelSpec& model, const Plan& plan,
                               const CompileOptions& options,
                               const std::function<bool(const RankProgram&)>& see) {
  Program program;
  BlockRegistry registry;
  FT_TRY(EmitRanks(model, plan, options, StepUse::kTraining, registry, program,
                   [&](RankProgram& rank) {
                     registry.Swap(program.blocks);
                     LinkAlone(program, rank);
                     const bool goes_on = see(rank);
                     registry.Swap(program.blocks);
                     rank.bindings = std::vector<Binding>();
                     rank.buffers = std::vector<Buffer>();
                     rank.parameters = std::vector<ParameterPlace>();
                     rank.step.shrink_to_fit();
                     rank.edges.shrink_to_fit();
                     return goes_on;
                   }));
  program.blocks = registry.Take();
  return program;
}

Result<Program> Compile(const ModelSpec& model, const Plan& plan, const CompileOptions& options) {
  FT_ASSIGN(Program program, CompileUnverified(model, plan, options));
  FT_TRY(Verify(program));
  return program;
}

// State is made by the same functions in the same order, and laid out before everything else. So
// its numbers and addresses are those of the training; the check makes sure.
Result<Program> CompileEvaluation(Program& training) {
  if (training.plan.StepsOverlap()) {
    return Fail(ErrorCode::kUnsupported,
                "schedule " + std::string(Name(training.plan.schedule)) +
                    ": steps overlap, so no step ends before the next one begins and nothing can "
                    "be evaluated between them; use schedule 1f1b or leave the evaluation out");
  }
  Plan plan = training.plan;
  plan.dropout = plan.attention_dropout = 0;
  const CompileOptions options{training.stands_for.empty() ? RankChoice::kAll
                                                           : RankChoice::kClasses};
  FT_ASSIGN(Program program,
            CompileAll(training.model, plan, options, StepUse::kEvaluation, /*threads=*/1));
  FT_TRY(Verify(program));
  FT_CHECK(program.ranks.size() == training.ranks.size());
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    RankProgram& trained = training.ranks[r];
    const RankProgram& evaluated = program.ranks[r];
    for (std::size_t i = 0; i < trained.buffers.size(); ++i) {
      const Buffer& state = trained.buffers[i];
      if (!state.persistent) continue;
      FT_CHECK(i < evaluated.buffers.size());
      const Buffer& same = evaluated.buffers[i];
      FT_CHECK(same.persistent && same.bytes == state.bytes && same.offset == state.offset &&
               same.space == state.space);
    }
    for (std::size_t space = 0; space < trained.arena_bytes.size(); ++space) {
      std::int64_t& bytes = trained.arena_bytes[space];
      bytes = std::max(bytes, evaluated.arena_bytes[space]);
    }
  }
  return program;
}

// One rank and one sample. Without gradients and moments, because no bucket is trained.
Result<Program> CompileGeneration(const ModelSpec& model, std::int64_t window) {
  if (!model.causal || model.HasEncoder()) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("model {} with {}: only decoders generate tokens; use one", model.name,
                            model.HasEncoder() ? "encoder_layers" : "causal false"));
  }
  Plan plan;
  plan.sequence = window;
  plan.global_batch = plan.micro_batch = 1;
  FT_ASSIGN(Program program,
            CompileAll(model, plan, CompileOptions(), StepUse::kGeneration, /*threads=*/1));
  FT_TRY(Verify(program));
  return program;
}

}  // namespace foretrain
