// Steps whose loss is a spike and whose update is left out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/run/fault_injector.h"
#include "runtime/run/loss_spikes.h"
#include "sim/program/ir/program.h"
#include "tests/runtime/checkpoint/saved_run.h"
#include "tests/runtime/equality/equality_cases.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Makes the loss of chosen steps much larger, on every rank that has it, as a reduction does. Later
// ones are larger still, because a spike counts among the losses before the next one.
class Spikes : public FaultInjector {
 public:
  Spikes(const ModelSpec& model, const Plan& plan, std::set<std::int64_t> steps)
      : steps_(std::move(steps)) {
    const Program program = *Compile(model, plan);
    for (const RankProgram& rank : program.ranks) ops_[rank.rank] = LossOp(program, rank);
  }
  Fault At(int rank, std::int64_t step, std::int32_t op) override {
    const bool spikes = steps_.contains(step) && op == ops_.at(rank);
    const float value = step == *steps_.begin() ? 55 : 5500;
    return spikes ? Fault{.kind = Fault::Kind::kValue, .value = value} : Fault{};
  }

 private:
  // The last op that writes what the host reads first.
  static std::int32_t LossOp(const Program& program, const RankProgram& rank) {
    const std::vector<OpRef> refs = OpRefs(program, rank);
    const auto binding = [&](std::size_t op, std::size_t operand) {
      return OperandBinding(program, rank, refs[op], static_cast<int>(operand));
    };
    std::size_t at = refs.size();
    while (OpAt(program, rank, refs[at - 1]).kind != OpKind::kHostRead) --at;
    const std::int32_t loss = binding(at - 1, 0).buffer;
    for (--at; at > 0; --at) {
      const Op& op = OpAt(program, rank, refs[at - 1]);
      const Block& block = program.blocks[static_cast<std::size_t>(
          rank.step[static_cast<std::size_t>(refs[at - 1].instruction)].block)];
      const auto operands = OperandsOf(block, op);
      for (std::size_t i = 0; i < operands.size(); ++i) {
        if (operands[i].slot == kNoSlot || operands[i].access == Access::kRead) continue;
        // A fault changes the first output.
        if (binding(at - 1, i).buffer == loss) return static_cast<std::int32_t>(at - 1);
        break;
      }
    }
    ADD_FAILURE() << "no op writes the loss";
    return -1;
  }

  std::set<std::int64_t> steps_;
  std::map<int, std::int32_t> ops_;
};

// With a norm, and with a reduction of the loss, whose result a fault can change.
Plan Clipped(Plan plan) {
  if (plan.clip_norm <= 0) plan.clip_norm = 0.5;
  if (plan.dp * plan.pp * plan.cp == 1) plan.dp = 2;
  return plan;
}

constexpr std::int64_t kSpike = 18;

// After the spike the state is that of the step before, and the next step takes the next data: a
// run that goes on from that state, one step later, has the same bits.
void ExpectSkips(const ModelSpec& model, const Plan& plan) {
  const std::string folder = FreshFolder();
  Spikes spikes(model, plan, {kSpike});
  const auto whole = TrainSaved(model, plan,
                                {.folder = folder + "/a",
                                 .every_steps = kSpike,
                                 .steps = kSpike + 3,
                                 .skips_spikes = true,
                                 .faults = &spikes});
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  EXPECT_THAT(whole->spikes, ElementsAre(kSpike));
  EXPECT_THAT(whole->skipped, ElementsAre(kSpike));
  EXPECT_GT(whole->losses[kSpike], 2 * whole->losses[kSpike - 1]);
  const auto rest = TrainSaved(model, plan,
                               {.folder = folder + "/b",
                                .every_steps = 0,
                                .steps = kSpike + 3,
                                .from = folder + "/a/step-00000018",
                                .first_step = kSpike + 1});
  ASSERT_TRUE(rest.has_value()) << rest.error().message;
  ASSERT_EQ(rest->losses.size(), 2U);
  EXPECT_EQ(rest->losses[0], whole->losses[kSpike + 1]);
  EXPECT_EQ(rest->losses[1], whole->losses[kSpike + 2]);
  EXPECT_TRUE(TensorBytes(folder + "/a/step-00000021") == TensorBytes(folder + "/b/step-00000021"));
  if (!testing::Test::HasFailure()) std::filesystem::remove_all(folder);
}

class SkippedSpike : public testing::TestWithParam<Case> {};

TEST_P(SkippedSpike, LeavesTheUpdateOutAndGoesOnWithTheNextData) {
  ExpectSkips(TinyGpt(), Clipped(GetParam().plan));
}

// Each split, schedule, ZeRO stage and offload once.
std::vector<Case> PlansThatSkip() {
  const std::set<std::string> names = {
      "MicroBatch2", "Dp2",      "Dp4Zero3",       "Dp4Zero1Replicas",  "Tp2",
      "Pp2Gpipe",    "Pp2ZbV",   "Dp2Tp2Pp2Zero1", "Dp2EachMicroBatch", "Cp2Ring",
      "Tp2Vocab",    "Optimizer"};
  std::vector<Case> kept;
  for (const auto& all : {Cases(), ContextCases(), OffloadCases()}) {
    for (const Case& one : all) {
      if (names.contains(one.name)) kept.push_back(one);
    }
  }
  Plan codes = With([](Plan& p) { p.dp = 2, p.zero_stage = 1, p.precision = Precision::kBf16; });
  codes.moments = MomentFormat::kInt8;
  kept.push_back({"EightBitMoments", codes});
  kept.push_back({"Sgd", With([](Plan& p) { p.optimizer = OptimizerKind::kSgd; })});
  kept.push_back({"Momentum", With([](Plan& p) { p.optimizer = OptimizerKind::kMomentum; })});
  kept.push_back({"Lion", With([](Plan& p) { p.optimizer = OptimizerKind::kLion; })});
  return kept;
}

INSTANTIATE_TEST_SUITE_P(Plans, SkippedSpike, testing::ValuesIn(PlansThatSkip()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(SkippedSpikes, AreOnlyToldUnlessAskedFor) {
  const Plan plan = Clipped(TinyPlan());
  Spikes spikes(TinyGpt(), plan, {kSpike});
  const std::string folder = FreshFolder();
  const auto told = TrainSaved(TinyGpt(), plan,
                               {.folder = folder + "/a", .steps = kSpike + 2, .faults = &spikes});
  const auto plain = TrainSaved(TinyGpt(), plan, {.folder = folder + "/b", .steps = kSpike + 2});
  ASSERT_TRUE(told.has_value() && plain.has_value());
  EXPECT_THAT(told->spikes, ElementsAre(kSpike));
  EXPECT_THAT(told->skipped, IsEmpty());
  EXPECT_TRUE(TensorBytes(folder + "/a/step-00000020") == TensorBytes(folder + "/b/step-00000020"));
  std::filesystem::remove_all(folder);
}

// The losses before are part of a checkpoint: without them the second run would need 16 steps
// before it knew a spike.
TEST(SkippedSpikes, AreTheSameAfterAResumption) {
  const Plan plan = Clipped(TinyPlan());
  Spikes spikes(TinyGpt(), plan, {kSpike, 22});
  const std::string folder = FreshFolder();
  const auto whole = TrainSaved(TinyGpt(), plan,
                                {.folder = folder + "/a",
                                 .every_steps = 20,
                                 .steps = 25,
                                 .skips_spikes = true,
                                 .faults = &spikes});
  const auto rest = TrainSaved(TinyGpt(), plan,
                               {.folder = folder + "/b",
                                .every_steps = 0,
                                .steps = 25,
                                .from = folder + "/a/step-00000020",
                                .skips_spikes = true,
                                .faults = &spikes});
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  ASSERT_TRUE(rest.has_value()) << rest.error().message;
  EXPECT_THAT(whole->skipped, ElementsAre(kSpike, 22));
  EXPECT_THAT(rest->skipped, ElementsAre(22));
  EXPECT_TRUE(TensorBytes(folder + "/a/step-00000025") == TensorBytes(folder + "/b/step-00000025"));
  std::filesystem::remove_all(folder);
}

TEST(SkippedSpikes, NeedANormAndUpdatesThatWaitForIt) {
  Plan plan = TinyPlan();
  const auto without = CheckSkipsSpikes(plan);
  ASSERT_FALSE(without.has_value());
  EXPECT_THAT(without.error().message, HasSubstr("--clip 1e30"));
  plan.clip_norm = 1;
  EXPECT_TRUE(CheckSkipsSpikes(plan).has_value());
  plan.post_validation = true;
  EXPECT_EQ(CheckSkipsSpikes(plan).error().code, ErrorCode::kUnsupported);
  plan.post_validation = false;
  plan.loss_scale = 1024;
  EXPECT_THAT(CheckSkipsSpikes(plan).error().message, HasSubstr("--loss-scale"));
  plan.loss_scale = 0;
  plan.optimizer = OptimizerKind::kMuon;
  EXPECT_THAT(CheckSkipsSpikes(plan).error().message, HasSubstr("--optimizer muon"));
}

TEST(SpikeGuard, GivesAllRanksOneAnswer) {
  SpikeGuard guard;
  for (std::int64_t step = 0; step < 20; ++step) EXPECT_FALSE(guard.Skips(step, 3.0F));
  EXPECT_TRUE(guard.Skips(20, 30.0F));
  EXPECT_TRUE(guard.Skips(20, 30.0F));
  EXPECT_FALSE(guard.Skips(21, 3.0F));
  EXPECT_TRUE(guard.Skips(20, 30.0F));  // a rank that is a step behind
  EXPECT_FALSE(guard.Skips(21, 3.0F));
}

}  // namespace
}  // namespace foretrain
