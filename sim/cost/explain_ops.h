// Says where the seconds of a program's ops come from. cost_model.h computes them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/cost_terms.h"
#include "sim/program/ir/program.h"
#include "traces/kinds.h"

namespace foretrain {

// One op of a block with its derivation. Equal ops of a rank's step are counted together.
struct ExplainedOp {
  Op op;
  std::string block;  // "layer.forward"
  Pass pass = Pass::kNone;
  int rank = 0;      // the first rank with it
  int times = 0;     // in a step of that rank
  GroupPlace place;  // communication
  double flop = 0, bytes = 0;
  double seconds = 0;   // alone
  double launch_s = 0;  // host time to issue it
  Provenance provenance = Provenance::kDefault;
  double error = 0;  // relative, one standard deviation
  CostTerms terms;   // their total is `seconds`
};

// The ops whose name matches `pattern`, in the order of the first rank's step, then of the others.
//
//   costs    CostModel::CostsOf of `program`
//   pattern  a name, "mlp.up", with * for any letters: "mlp.*"
//
// Errors: kInvalidArgument, naming the program's ops, if no name matches. O(ops * pattern).
Result<std::vector<ExplainedOp>> ExplainOps(const Program& program, const ProgramCosts& costs,
                                            const CostModel& model, std::string_view pattern);

}  // namespace foretrain
