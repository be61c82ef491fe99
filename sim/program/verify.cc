#include <vector>

#include "sim/program/link_couplings.h"
#include "sim/program/link_progress.h"
#include "sim/program/program.h"
#include "sim/program/verify_checks.h"

namespace foretrain {
namespace {

constexpr int kStepsPlayed = 2;

}  // namespace

Result<void> Verify(const Program& program, int run_ahead_ops) {
  FT_CHECK(run_ahead_ops > 0);
  FT_TRY(CheckStructure(program));
  std::vector<FlatStep> steps;
  for (const RankProgram& rank : program.ranks) {
    FT_TRY(CheckPasses(program, rank));
    steps.push_back(Flatten(program, rank));
    FT_TRY(CheckLayout(program, rank, steps.back()));
    FT_TRY(CheckContents(program, rank, steps.back()));
    FT_TRY(CheckHolders(program, rank, steps.back()));
  }
  FT_ASSIGN(const Couplings couplings, Couple(program, steps));
  const auto circle = FindDeadlock(program, steps, couplings, run_ahead_ops, kStepsPlayed);
  if (circle.has_value()) {
    return Fail(ErrorCode::kInvalidArgument,
                DescribeDeadlock(program, steps, *circle, run_ahead_ops));
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    FT_TRY(CheckOrder(program, program.ranks[i], steps[i]));
  }
  return {};
}

}  // namespace foretrain
