#include "sim/program/lower/emit.h"
#include "sim/program/lower/skeleton.h"
#include "sim/program/lower/stage.h"
#include "sim/program/program.h"

namespace foretrain {
namespace {

int RankOf(const Plan& plan, int pp, int dp, int tp) { return (pp * plan.dp + dp) * plan.tp + tp; }

// Groups of a rank, each made once: members ascending, which is the order of sums.
class GroupTable {
 public:
  GroupTable(const Plan& plan, Program& program) : plan_(plan), program_(program) {}

  void Fill(RankProgram& rank) {
    rank.groups.fill(-1);
    const int last = plan_.pp - 1;
    Set(rank, GroupKind::kTp, {rank.pp, rank.pp}, {rank.dp, rank.dp}, {0, plan_.tp - 1});
    Set(rank, GroupKind::kDp, {rank.pp, rank.pp}, {0, plan_.dp - 1}, {rank.tp, rank.tp});
    Set(rank, GroupKind::kDpPp, {0, last}, {0, plan_.dp - 1}, {rank.tp, rank.tp});
    Set(rank, GroupKind::kTpPp, {0, last}, {rank.dp, rank.dp}, {0, plan_.tp - 1});
    Set(rank, GroupKind::kWorld, {0, last}, {0, plan_.dp - 1}, {0, plan_.tp - 1});
    const auto at = [&](int pp) { return RankOf(plan_, pp, rank.dp, rank.tp); };
    if (last > 0 && (rank.pp == 0 || rank.pp == last))
      Put(rank, GroupKind::kEnds, {at(0), at(last)});
    if (rank.pp < last) Put(rank, GroupKind::kNext, {at(rank.pp), at(rank.pp + 1)});
    if (rank.pp > 0) Put(rank, GroupKind::kPrev, {at(rank.pp - 1), at(rank.pp)});
  }

 private:
  struct Span {
    int first, last;
  };
  void Set(RankProgram& rank, GroupKind kind, Span pp, Span dp, Span tp) {
    std::vector<int> members;
    for (int p = pp.first; p <= pp.last; ++p) {
      for (int d = dp.first; d <= dp.last; ++d) {
        for (int t = tp.first; t <= tp.last; ++t) members.push_back(RankOf(plan_, p, d, t));
      }
    }
    Put(rank, kind, std::move(members));
  }
  void Put(RankProgram& rank, GroupKind kind, std::vector<int> members) {
    const auto [found, is_new] =
        numbers_.try_emplace(members, static_cast<int>(program_.groups.size()));
    if (is_new) program_.groups.push_back(std::move(members));
    rank.groups[static_cast<std::size_t>(kind)] = found->second;
  }

  const Plan& plan_;
  Program& program_;
  std::map<std::vector<int>, int> numbers_;
};

}  // namespace

Result<Program> Compile(const ModelSpec& model, const Plan& plan, const CompileOptions& options) {
  FT_TRY(ValidateModel(model));
  FT_TRY(ValidatePlan(plan, model));
  Program program;
  program.model = model;
  program.plan = plan;
  BlockRegistry registry;
  GroupTable groups(plan, program);
  for (int pp = 0; pp < plan.pp; ++pp) {
    const Stage stage = StageOf(model, plan, pp);
    for (int dp = 0; dp < (options.representatives ? 1 : plan.dp); ++dp) {
      for (int tp = 0; tp < (options.representatives ? 1 : plan.tp); ++tp) {
        RankProgram& rank = program.ranks.emplace_back();
        rank.rank = RankOf(plan, pp, dp, tp);
        rank.pp = pp;
        rank.dp = dp;
        rank.tp = tp;
        groups.Fill(rank);
        const BucketLayout layout = LayOutBuckets(model, plan, stage, dp, tp);
        const LowerContext context{model, plan, stage, layout, pp};
        EmitRank(context, LowerStep(context), registry, rank);
      }
    }
  }
  program.blocks = registry.Take();
  Link(program);
  FT_TRY(Verify(program));
  return program;
}

}  // namespace foretrain
