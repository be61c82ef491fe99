#include "tests/sim/program/verify/refusals.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/sim/program/draft.h"

namespace foretrain {

std::string Refusal(const Program& program, int run_ahead_ops) {
  const auto verified = Verify(program, run_ahead_ops);
  if (verified.has_value()) return "accepted";
  EXPECT_EQ(verified.error().code, ErrorCode::kInvalidArgument);
  return verified.error().message;
}

std::string LinkedRefusal(Program& program) {
  Link(program);
  return Refusal(program);
}

Program Pipeline(ScheduleKind schedule, int p, int m) {
  return OpaquePipeline(schedule, {p, m}, kUnit, false);
}

std::size_t Find(const RankProgram& rank, InstructionKind kind, Pass pass, int mb) {
  const auto found = std::find_if(rank.step.begin(), rank.step.end(), [&](const Instruction& i) {
    return i.key.kind == kind && i.key.pass == pass && i.key.micro_batch == mb;
  });
  EXPECT_NE(found, rank.step.end());
  return static_cast<std::size_t>(found - rank.step.begin());
}

void Erase(RankProgram& rank, std::size_t instruction) {
  rank.step.erase(rank.step.begin() + static_cast<std::ptrdiff_t>(instruction));
}

void EraseEdge(RankProgram& rank, const std::string& text) {
  const std::size_t before = rank.edges.size();
  std::erase_if(rank.edges, [&](const Edge& edge) {
    RankProgram one;
    one.edges = {edge};
    return EdgeText(one) == text;
  });
  EXPECT_EQ(rank.edges.size() + 1, before);
}

}  // namespace foretrain
