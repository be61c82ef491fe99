// The plan read from the traces of simulated toy runs is the plan that made them.
#include "sim/infer/infer_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/sim/infer/toy_runs.h"
#include "tests/sim/models.h"
#include "tests/traces/import/trace_text.h"

namespace foretrain {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

struct Toy {
  const char* name;
  Plan plan;
  std::set<std::string> untold = {};  // fields that the traces leave open
  bool experts = false;
};

void PrintTo(const Toy& toy, std::ostream* out) { *out << toy.name; }

Plan PlanOf(int dp, int tp, int pp, int micro_batches) {
  Plan plan;
  plan.dp = dp;
  plan.tp = tp;
  plan.pp = pp;
  plan.sequence = 128;
  plan.micro_batch = 1;
  plan.global_batch = std::int64_t{micro_batches} * dp;
  return plan;
}

Plan Zero(int stage, int micro_batches) {
  Plan plan = PlanOf(2, 1, 1, micro_batches);
  plan.zero_stage = stage;
  return plan;
}

Plan Scheduled(ScheduleKind schedule, int pp, int micro_batches, int vpp = 1) {
  Plan plan = PlanOf(1, 1, pp, micro_batches);
  plan.schedule = schedule;
  plan.vpp = vpp;
  return plan;
}

Plan Recomputing(RecomputeKind recompute) {
  Plan plan = PlanOf(2, 1, 1, 2);
  plan.recompute = recompute;
  return plan;
}

Plan ContextParallel() {
  Plan plan = PlanOf(2, 1, 1, 2);
  plan.cp = 2;
  return plan;
}

Plan ExpertParallel() {
  Plan plan = PlanOf(4, 1, 1, 2);
  plan.ep = 2;
  return plan;
}

Plan AllAtOnce() {
  Plan plan = PlanOf(2, 2, 2, 4);
  plan.zero_stage = 1;
  plan.recompute = RecomputeKind::kFull;
  plan.clip_norm = 1;
  return plan;
}

const std::set<std::string> kOneStage = {"schedule", "vpp"};
const std::set<std::string> kOneHolder = {"zero_stage"};

std::vector<Toy> Toys() {
  using S = ScheduleKind;
  return {{"Dp4", PlanOf(4, 1, 1, 2), kOneStage},
          {"Tp4", PlanOf(1, 4, 1, 3), {"schedule", "vpp", "zero_stage"}},
          {"Dp2Tp2", PlanOf(2, 2, 1, 1), kOneStage},
          {"Zero1", Zero(1, 4), kOneStage},
          {"Zero2", Zero(2, 4), kOneStage},
          {"Zero3", Zero(3, 2), kOneStage},
          {"Zero1OfOneMicroBatch", Zero(1, 1), {"schedule", "vpp", "zero_stage"}},
          {"Gpipe", Scheduled(S::kGpipe, 4, 6), kOneHolder},
          {"OneFOneB", Scheduled(S::k1f1b, 4, 6), kOneHolder},
          {"OneFOneBOnTwo", Scheduled(S::k1f1b, 2, 3), kOneHolder},
          {"Interleaved", Scheduled(S::kInterleaved, 4, 8, 2), kOneHolder},
          {"InterleavedOnTwo", Scheduled(S::kInterleaved, 2, 4, 2), kOneHolder},
          {"ZbH1", Scheduled(S::kZbH1, 4, 6), kOneHolder},
          {"ZbH2", Scheduled(S::kZbH2, 4, 8), kOneHolder},
          {"ZbV", Scheduled(S::kZbV, 4, 8), {"zero_stage", "vpp"}},
          {"ZbVOnTwo", Scheduled(S::kZbV, 2, 6), {"zero_stage", "vpp"}},
          {"DualPipeV", Scheduled(S::kDualPipeV, 4, 8), {"zero_stage", "vpp"}},
          {"DualPipeVOnTwo", Scheduled(S::kDualPipeV, 2, 6), {"zero_stage", "schedule", "vpp"}},
          {"FullRecompute", Recomputing(RecomputeKind::kFull), kOneStage},
          {"SelectiveRecompute", Recomputing(RecomputeKind::kSelective), kOneStage},
          {"ContextParallel", ContextParallel(), kOneStage},
          {"ExpertParallel", ExpertParallel(), kOneStage, true},
          {"AllAtOnce", AllAtOnce()}};
}

class ToyRuns : public testing::TestWithParam<Toy> {};

ModelSpec ToyModel(bool experts) {
  ModelSpec model = Gpt2();
  model.layers = 8;
  model.hidden = 256;
  model.heads = model.kv_heads = 4;
  model.head_dim = 64;
  model.ffn_hidden = 1024;
  model.vocab = 512;
  if (experts) {
    model.experts = 4;
    model.experts_per_token = 2;
    model.expert_ffn_hidden = 256;
  }
  return model;
}

TEST_P(ToyRuns, TellsThePlanOfItsTraces) {
  const Toy& toy = GetParam();
  const InferredPlan inferred = InferredFrom(ToyModel(toy.experts), toy.plan);
  EXPECT_THAT(WrongFields(inferred, toy.plan), IsEmpty());
  std::set<std::string> untold;
  for (const InferredField& field : inferred.fields) {
    if (field.value.empty()) untold.emplace(field.name);
    EXPECT_FALSE(field.evidence.empty()) << field.name;
  }
  EXPECT_EQ(untold, toy.untold);
}

INSTANTIATE_TEST_SUITE_P(Toys, ToyRuns, testing::ValuesIn(Toys()),
                         [](const auto& test) { return test.param.name; });

TEST(PlanOfATrace, GivesTheOptionsOfPredict) {
  const InferredPlan plan{{{"dp", "2"},
                           {"tp", "1"},
                           {"pp", "4"},
                           {"zero_stage", "1"},
                           {"schedule", "interleaved"},
                           {"vpp", "2"},
                           {"micro_batches", "8"},
                           {"recompute", "full"}}};
  EXPECT_EQ(plan.Options(),
            "--dp 2 --pp 4 --zero 1 --schedule interleaved --vpp 2 --recompute full "
            "--global-batch 16");
  EXPECT_EQ(plan.Value("cp"), "");
}

// A trace of a gradient reduction whose group has no description and no list.
TEST(PlanOfATrace, TellsNothingThatATraceLeavesOpen) {
  const TraceRun run = ReadGood(
      {KinetoTrace(Complete("kernel", "sgemm", "d7", 0, 10) + "," +
                       Complete("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "d20", 20, 5),
                   R"("distributedInfo":{"backend":"nccl","rank":0,"world_size":8},)")});
  const InferredPlan plan = InferPlan(run.timeline, run.communication);
  for (const InferredField& field : plan.fields) {
    EXPECT_EQ(field.value, "") << field.name;
    EXPECT_FALSE(field.evidence.empty()) << field.name;
  }
  EXPECT_EQ(plan.Options(), "");
}

// A kernel on rank 0 of eight and an all-reduce of a group in a forward.
InferredPlan OfGroup(const std::string& description, const std::string& ranks, int size) {
  const std::string range = Complete("user_annotation", "forward", "1", 0, 1000);
  const auto launch = [](int number) {
    return Complete("cuda_runtime", "cudaLaunchKernel", "1", 10.0 * number, 1,
                    "\"correlation\":" + std::to_string(number));
  };
  const std::string reduce =
      Complete("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "d20", 100, 5,
               R"("Collective name":"allreduce","Process Group Name":"1","In msg nelems":4096,)"
               R"("dtype":"Float","correlation":2,"Process Group Description":")" +
                   description + R"(","Process Group Ranks":")" + ranks + R"(","Group size":)" +
                   std::to_string(size));
  const TraceRun run = ReadGood({KinetoTrace(
      range + "," + launch(1) + "," + launch(2) + "," +
          Complete("kernel", "sgemm", "d7", 50, 10, "\"correlation\":1") + "," + reduce,
      R"("distributedInfo":{"backend":"nccl","rank":0,"world_size":8},)")});
  return InferPlan(run.timeline, run.communication);
}

TEST(PlanOfATrace, ReadsTheGroupsOfMeshesAndOfMegatron) {
  for (const char* description : {"mesh_tp", "TENSOR_MODEL_PARALLEL_GROUP"}) {
    const InferredPlan plan = OfGroup(description, "[0, 1]", 2);
    EXPECT_EQ(plan.Value("tp"), "2") << description;
    EXPECT_EQ(plan.Value("dp"), "4") << description;
  }
  for (const char* description : {"mesh_dp_shard_cp", "DATA_PARALLEL_GROUP_WITH_CP"}) {
    const InferredPlan plan = OfGroup(description, "[0, 1, 2, 3, 4, 5, 6, 7]", 8);
    EXPECT_EQ(plan.Value("tp"), "1") << description;
    EXPECT_EQ(plan.Value("dp"), "8") << description;
  }
}

// Sums in a forward may be those of tensor parallelism, and so may a part of the ranks.
TEST(PlanOfATrace, LeavesDegreesOpenThatAGroupWithoutDescriptionMayHave) {
  for (const auto& [ranks, size] : {std::pair{"[0, 1]", 2}, {"[0, 1, 2, 3, 4, 5, 6, 7]", 8}}) {
    const InferredPlan plan = OfGroup("undefined", ranks, size);
    for (const char* degree : {"dp", "tp", "cp", "ep"}) {
      EXPECT_EQ(plan.Value(degree), "") << degree << " of " << size;
    }
  }
  EXPECT_EQ(OfGroup("TENSOR_AND_CONTEXT_PARALLEL_GROUP", "[0, 1, 2, 3]", 4).Value("tp"), "");
}

TEST(PlanOfATrace, TellsNothingOfAnEmptyRun) {
  const InferredPlan plan = InferPlan({}, {});
  EXPECT_EQ(plan.fields.size(), 10U);
}

}  // namespace
}  // namespace foretrain
