// A rank that fails, stalls or issues a different call ends the run on every rank. One sentence
// names rank, step, instruction and op.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/config/catalogue/catalogue.h"
#include "sim/program/ir/program.h"
#include "tests/app/commands/small_run.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int kRank = 1;
constexpr int kStep = 3;

// An op of the step of SmallTraining: its number and its name.
struct NamedOp {
  int number = -1;
  std::string instruction;
  std::string name;
};

// The first matmul called mlp.up, or the first collective over the data-parallel ranks.
NamedOp FindOp(bool collective) {
  const Catalogue catalogue = BuiltInCatalogue().value();
  ModelSpec model = ResolveModel("gpt-10m", "test", catalogue).value().model;
  model.layers = 1;
  model.hidden = 64;
  model.heads = model.kv_heads = 4;
  model.head_dim = 16;
  model.ffn_hidden = 256;
  Plan plan;
  plan.dp = 2;
  plan.sequence = 16;
  plan.global_batch = 4;
  plan.micro_batch = 1;
  const Program program = Compile(model, plan).value();
  const RankProgram& rank = program.ranks[kRank];
  NamedOp found;
  for (const OpRef& ref : OpRefs(program, rank)) {
    ++found.number;
    const Instruction& instruction = rank.step[static_cast<std::size_t>(ref.instruction)];
    const Op& op = program.blocks[static_cast<std::size_t>(instruction.block)]
                       .ops[static_cast<std::size_t>(ref.op)];
    if (collective ? op.group != GroupKind::kDp : op.name != "mlp.up") continue;
    found.instruction = collective ? "all_reduce update bucket 0" : "forward layer 1 mb 0";
    found.name = op.name;
    return found;
  }
  ADD_FAILURE() << "no such op";
  return found;
}

ProgramEnd TrainWith(const TemporaryFolder& folder, const NamedOp& op, const std::string& kind) {
  return RunStoppable(folder.path(), SmallTraining(folder) + "--json --steps 1000 --timeout 3s",
                      {"FORETRAIN_FAULT=" + std::to_string(kRank) + ":" + std::to_string(kStep) +
                       ":" + std::to_string(op.number) + ":" + kind});
}

// One line that names the place; the run is stored as failed with the same text.
void ExpectFailed(const TemporaryFolder& folder, const ProgramEnd& end, const NamedOp& op) {
  EXPECT_EQ(end.code, 3) << end.output;
  EXPECT_EQ(std::count(end.errors.begin(), end.errors.end(), '\n'), 1) << end.errors;
  EXPECT_THAT(end.errors, AllOf(HasSubstr("rank 1"), HasSubstr("step 3"),
                                HasSubstr(op.instruction + ", " + op.name)));
  EXPECT_EQ(LastLine(end.output).at("exit_code"), 3);
  const nlohmann::json runs = RunsIn(folder);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[1].at("status"), "failed");
  EXPECT_THAT(end.errors, HasSubstr(runs[1].at("message").get<std::string>()));
  // The steps before the fault are stored; the loss of the last one may not have been read any
  // more.
  const auto losses =
      ValueIn(folder, "SELECT count(*) FROM v_counter WHERE run_id = 2 AND name = 'loss'");
  EXPECT_GE(losses, kStep - 1);
  EXPECT_LE(losses, kStep);
}

TEST(RankFault, AnExceptionIsNamed) {
  const TemporaryFolder folder;
  const NamedOp op = FindOp(false);
  const ProgramEnd end = TrainWith(folder, op, "throw");
  ExpectFailed(folder, end, op);
  EXPECT_THAT(end.errors, HasSubstr("threw: an injected fault"));
}

// The ring of each rank is kept with the run; that of rank 1 ends with the op at fault.
TEST(RankFault, LeavesTheNewestOpsOfEachRankInTheStore) {
  const TemporaryFolder folder;
  const NamedOp op = FindOp(false);
  TrainWith(folder, op, "fail");
  EXPECT_TRUE(RunsIn(folder)[1].at("last_ops"));
  EXPECT_FALSE(RunsIn(folder)[0].at("last_ops"));
  EXPECT_THAT(RunForetrain(folder.path(), "runs").output, HasSubstr("runs --last-ops 2"));
  const ProgramEnd ops = RunForetrain(folder.path(), "runs --last-ops 2");
  EXPECT_EQ(ops.code, 0) << ops.errors;
  EXPECT_THAT(ops.output, AllOf(HasSubstr("rank 0: "), HasSubstr("rank 1: "),
                                HasSubstr(op.instruction + ", " + op.name + " (step 3)")));
  const ProgramEnd none = RunForetrain(folder.path(), "runs --last-ops 1");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.errors, HasSubstr("run 1 has no last ops"));
}

TEST(RankFault, AnErrorInACollectiveIsNamed) {
  const TemporaryFolder folder;
  const NamedOp op = FindOp(true);
  ExpectFailed(folder, TrainWith(folder, op, "fail"), op);
}

TEST(RankFault, AStalledRankIsNamedWithinTheDeadline) {
  const TemporaryFolder folder;
  const NamedOp op = FindOp(false);
  const ProgramEnd end = TrainWith(folder, op, "stall");
  ExpectFailed(folder, end, op);
}

TEST(RankFault, AnotherCollectiveIsNamedWithBothCalls) {
  const TemporaryFolder folder;
  const NamedOp op = FindOp(true);
  const ProgramEnd end = TrainWith(folder, op, "other-call");
  ExpectFailed(folder, end, op);
  EXPECT_THAT(end.errors, AllOf(HasSubstr("ranks disagree"), HasSubstr("rank 0")));
}

}  // namespace
}  // namespace foretrain
