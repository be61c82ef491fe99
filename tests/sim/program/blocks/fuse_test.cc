// Ops of a block that are fused into one op, and those that must stay apart.
#include "sim/program/blocks/fuse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/cost/step_flops.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/blocks/touched_slots.h"
#include "sim/program/ops/op_work.h"
#include "tests/sim/models.h"

namespace foretrain {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

Plan TinyPlan(FusionKind fuse) {
  Plan plan;
  plan.sequence = 8;
  plan.micro_batch = 1;
  plan.global_batch = 1;
  plan.fuse = fuse;
  return plan;
}

Block LayerOf(const Plan& plan, const BlockRequest& request, const ModelSpec& model = SmallGpt()) {
  return BuildBlock({model, plan, false}, request);
}

std::vector<std::vector<std::string>> CoveredBy(const Block& block) {
  std::vector<std::vector<std::string>> covers;
  for (const Op& op : block.ops) {
    if (!op.covers.empty()) covers.push_back(op.covers);
  }
  return covers;
}

const Op& Find(const Block& block, const std::string& name) {
  const auto found = std::find_if(block.ops.begin(), block.ops.end(),
                                  [&](const Op& op) { return op.name == name; });
  EXPECT_NE(found, block.ops.end()) << name;
  return found != block.ops.end() ? *found : block.ops.front();
}

// Names of the operands; "" for an absent one.
std::vector<std::string> OperandNames(const Block& block, const std::string& name) {
  std::vector<std::string> names;
  for (const Operand& operand : OperandsOf(block, Find(block, name))) {
    names.push_back(
        operand.slot == kNoSlot ? "" : block.slots[static_cast<std::size_t>(operand.slot)].name);
  }
  return names;
}

std::vector<std::string> Touched(const Block& block) {
  std::vector<std::string> names;
  for (const Op& op : block.ops) {
    for (const std::string& name : OperandNames(block, op.name)) names.push_back(name);
  }
  return names;
}

TEST(FuseNorms, MakesOneOpOfAResidualSumAndTheNormBehindIt) {
  const BlockRequest request{BlockKind::kLayer, Pass::kForward};
  const Block apart = LayerOf(TinyPlan(FusionKind::kNone), request);
  const Block block = LayerOf(TinyPlan(FusionKind::kNorms), request);
  ASSERT_EQ(block.ops.size() + 1, apart.ops.size());
  EXPECT_THAT(CoveredBy(block), ElementsAre(ElementsAre("attention.residual", "norm2")));
  // [8, 16]: a, b, sum, y, weight, bias, mean, rstd; the sum is not read again.
  EXPECT_EQ(WorkOf(Find(block, "attention.residual+norm2")).bytes, 4 * (4 * 128 + 2 * (16 + 8)));
}

TEST(FuseEpilogues, JoinsWhatTheModelHas) {
  const Plan plan = TinyPlan(FusionKind::kEpilogues);
  EXPECT_THAT(CoveredBy(LayerOf(plan, {BlockKind::kLayer, Pass::kForward})),
              ElementsAre(ElementsAre("mlp.up", "mlp.gelu")));
  // This holds for the output projection and mlp.down too: without tensor parallelism the gradient
  // of their bias reads the same tensors as that of their weight.
  const Block backward = LayerOf(plan, {BlockKind::kLayer, Pass::kBackward});
  EXPECT_THAT(
      CoveredBy(backward),
      UnorderedElementsAre(ElementsAre("mlp.down.input_grad", "mlp.gelu.grad"),
                           ElementsAre("mlp.down.weight_grad", "mlp.down.bias_grad"),
                           ElementsAre("mlp.up.weight_grad", "mlp.up.bias_grad"),
                           ElementsAre("attention.out.weight_grad", "attention.out.bias_grad"),
                           ElementsAre("attention.qkv.weight_grad", "attention.qkv.bias_grad")));
  EXPECT_EQ(backward.ops.size() + 5,
            LayerOf(TinyPlan(FusionKind::kNone), {BlockKind::kLayer, Pass::kBackward}).ops.size());
  EXPECT_THAT(OperandNames(backward, "mlp.up.weight_grad+mlp.up.bias_grad"),
              ElementsAre("d_up", "norm2", "", "d_up.weight", "d_up.bias"));
}

TEST(FuseEpilogues, KeepWhatTheBackwardReadsAndElseNothing) {
  Plan plan = TinyPlan(FusionKind::kEpilogues);
  const std::string name = "mlp.up+mlp.gelu";
  const Block kept = LayerOf(plan, {BlockKind::kLayer, Pass::kForward});
  EXPECT_EQ(Find(kept, name).kind, OpKind::kGemmActivationKept);
  EXPECT_THAT(OperandNames(kept, name),
              ElementsAre("norm2", "up.weight", "up.bias", "activated", "up"));
  // [8, 64] = [8, 16] [16, 64]: 128 + 1024 + 512 numbers, and 512 that are kept.
  EXPECT_EQ(WorkOf(Find(kept, name)).bytes, 4 * (128 + 1024 + 512 + 512));

  BlockRequest request{BlockKind::kLayer, Pass::kForward};
  request.recompute = plan.recompute = RecomputeKind::kFull;
  const Block alone = LayerOf(plan, request);
  EXPECT_EQ(Find(alone, name).kind, OpKind::kGemmActivation);
  EXPECT_EQ(WorkOf(Find(alone, name)).bytes, 4 * (128 + 1024 + 512));
  EXPECT_THAT(Touched(alone), Not(Contains("up")));
  request.pass = Pass::kRecompute;
  EXPECT_EQ(Find(LayerOf(plan, request), name).kind, OpKind::kGemmActivationKept);
}

TEST(FuseEpilogues, LeaveNoGradientOfTheActivationsOutput) {
  const Plan plan = TinyPlan(FusionKind::kEpilogues);
  for (const Pass pass : {Pass::kBackward, Pass::kBackwardInput}) {
    const Block block = LayerOf(plan, {BlockKind::kLayer, pass});
    const std::string name = "mlp.down.input_grad+mlp.gelu.grad";
    EXPECT_EQ(Find(block, name).kind, OpKind::kGemmActivationBackward);
    EXPECT_THAT(OperandNames(block, name), ElementsAre("dy", "down.weight", "", "d_up", "up"));
    EXPECT_THAT(Touched(block), Not(Contains("d_activated")));
  }
}

// The MLP in three tiles of 8 rows: 3, 3 and 2. The next tile overwrites the temporaries of the
// previous one.
TEST(FuseEpilogues, JoinEachTile) {
  Plan plan = TinyPlan(FusionKind::kEpilogues);
  plan.mlp_tiles = 3;
  plan.recompute = RecomputeKind::kSelective;
  const Block block = LayerOf(
      plan,
      {.kind = BlockKind::kLayer, .pass = Pass::kBackward, .recompute = RecomputeKind::kSelective});
  for (const std::string tile : {".0", ".1", ".2"}) {
    EXPECT_THAT(CoveredBy(block),
                Contains(ElementsAre("mlp.down.input_grad" + tile, "mlp.gelu.grad" + tile)));
    EXPECT_THAT(CoveredBy(block),
                Contains(ElementsAre("mlp.up" + tile + ".again", "mlp.gelu" + tile + ".again")));
  }
  EXPECT_THAT(Touched(block), Not(Contains("d_activated")));
}

// An adapter adds to the product's output, and products of 8 bits write an output that is cast.
TEST(FuseEpilogues, LeaveApartWhatIsAddedToAndWhatIsCast) {
  Plan plan = TinyPlan(FusionKind::kEpilogues);
  plan.method = TrainingMethod::kLora;
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    EXPECT_THAT(CoveredBy(LayerOf(plan, {BlockKind::kLayer, pass})), IsEmpty());
  }
  plan = TinyPlan(FusionKind::kEpilogues);
  plan.precision = Precision::kFp8;
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    EXPECT_THAT(CoveredBy(LayerOf(plan, {BlockKind::kLayer, pass})), IsEmpty());
  }
  plan.precision = Precision::kBf16;
  EXPECT_EQ(CoveredBy(LayerOf(plan, {BlockKind::kLayer, Pass::kBackward})).size(), 5U);
}

// With sequence parallelism biases of row-parallel linears sum only their own rows, weights all
// rows.
TEST(FuseEpilogues, LeaveApartBiasesThatSumOtherRowsThanTheWeight) {
  Plan plan = TinyPlan(FusionKind::kEpilogues);
  plan.tp = 2;
  plan.sequence_parallel = true;
  EXPECT_THAT(
      CoveredBy(LayerOf(plan, {BlockKind::kLayer, Pass::kBackward})),
      UnorderedElementsAre(ElementsAre("mlp.down.input_grad", "mlp.gelu.grad"),
                           ElementsAre("mlp.up.weight_grad", "mlp.up.bias_grad"),
                           ElementsAre("attention.qkv.weight_grad", "attention.qkv.bias_grad")));
}

TEST(Fuse, JoinsTheLossWithItsGradientInTheHeadsForward) {
  for (const FusionKind fuse : {FusionKind::kLoss, FusionKind::kAll}) {
    const Plan plan = TinyPlan(fuse);
    EXPECT_THAT(CoveredBy(LayerOf(plan, {BlockKind::kHead, Pass::kForward})),
                ElementsAre(ElementsAre("head.loss", "head.loss.grad")));
    const Block backward = LayerOf(plan, {BlockKind::kHead, Pass::kBackward});
    EXPECT_THAT(Touched(backward), Not(Contains("lse")));
  }
  Plan split = TinyPlan(FusionKind::kLoss);
  split.tp = 2;
  split.vocab_parallel = true;
  EXPECT_THAT(CoveredBy(LayerOf(split, {BlockKind::kHead, Pass::kForward})), IsEmpty());
}

// The FLOPs of a model do not depend on how its ops are launched.
TEST(Fuse, ChangesNoFlop) {
  for (const RecomputeKind recompute : {RecomputeKind::kNone, RecomputeKind::kFull}) {
    Plan apart = TinyPlan(FusionKind::kNone), fused = TinyPlan(FusionKind::kAll);
    apart.recompute = fused.recompute = recompute;
    EXPECT_EQ(FlopsOfStep(SmallGpt(), apart).model, FlopsOfStep(SmallGpt(), fused).model);
    EXPECT_EQ(FlopsOfStep(SmallGpt(), apart).hardware, FlopsOfStep(SmallGpt(), fused).hardware);
  }
}

// ---- blocks written down op by op: y[4, 8] = x[4, 2] w[8, 2]^T, f = gelu(y)

class HandBlock : public testing::Test {
 protected:
  std::int16_t Make(const char* name, SlotRole role = SlotRole::kTemporary) {
    return b_.Slot(name, 32, Category::kWorkspace, role);
  }
  Op& Gelu(std::int16_t from, std::int16_t to) {
    Op& op = b_.Add(OpKind::kGeluForward, OpClass::kMemoryBound, "gelu", {In(from), Out(to)});
    op.shape = {.rows = 4, .cols = 8};
    return op;
  }
  void Slope(std::int16_t x, std::int16_t dy, std::int16_t dx) {
    b_.Add(OpKind::kGeluBackward, OpClass::kMemoryBound, "slope", {In(x), In(dy), Out(dx)})
        .shape = {.rows = 4, .cols = 8};
  }
  void Sum(const char* name, std::int16_t a, std::int16_t to) {
    b_.Add(OpKind::kAdd, OpClass::kMemoryBound, name, {In(a), In(a), In(kNoSlot), Out(to)})
        .shape = {.rows = 4, .cols = 8};
  }
  void Product(std::int16_t to, bool adds = false) {
    b_.Linear("gemm", x_, w_, kNoSlot, to, 4, 8, 2, adds);
  }
  std::vector<OpKind> Kinds() {
    Block block = b_.Take();
    Fuse(block, FusionKind::kEpilogues);
    std::vector<OpKind> kinds;
    for (const Op& op : block.ops) kinds.push_back(op.kind);
    return kinds;
  }

  BlockBuilder b_{"block"};
  const std::int16_t x_ = b_.Slot("x", 8, Category::kActivations, SlotRole::kInput),
                     w_ = b_.Slot("w", 16, Category::kParameters, SlotRole::kParameter),
                     y_ = Make("y"), f_ = Make("f"), other_ = Make("other");
};

TEST_F(HandBlock, JoinsAcrossOpsThatHaveNothingToDoWithIt) {
  Product(y_);
  Sum("between", x_, other_);
  Gelu(y_, f_);
  EXPECT_THAT(Kinds(), ElementsAre(OpKind::kGemmActivation, OpKind::kAdd));
}

TEST_F(HandBlock, KeepsWhatAnotherOpReads) {
  Product(y_);
  Gelu(y_, f_);
  Sum("reader", y_, other_);
  EXPECT_THAT(Kinds(), ElementsAre(OpKind::kGemmActivationKept, OpKind::kAdd));
}

TEST_F(HandBlock, KeepsNothingOfWhatIsOverwrittenBeforeItIsReadAgain) {
  Product(y_);
  Gelu(y_, f_);
  Sum("writer", x_, y_);
  Sum("reader", y_, other_);
  EXPECT_THAT(Kinds(), ElementsAre(OpKind::kGemmActivation, OpKind::kAdd, OpKind::kAdd));
}

TEST_F(HandBlock, KeepsWhatOnlyInPartIsOverwritten) {
  const std::int16_t half = b_.View("half", y_, 0, 16);
  Product(y_);
  Gelu(y_, f_);
  Sum("writer", x_, half);
  Sum("reader", y_, other_);
  EXPECT_THAT(Kinds(), ElementsAre(OpKind::kGemmActivationKept, OpKind::kAdd, OpKind::kAdd));
}

TEST_F(HandBlock, StaysApartWhereTheProductAdds) {
  Product(y_, /*adds=*/true);
  Gelu(y_, f_);
  EXPECT_THAT(Kinds(), ElementsAre(OpKind::kGemm, OpKind::kGeluForward));
}

TEST_F(HandBlock, StaysApartWhereAnOpBetweenChangesTheProduct) {
  Product(y_);
  b_.TpAllReduce("sum", y_, 32);
  Gelu(y_, f_);
  EXPECT_THAT(Kinds(), ElementsAre(OpKind::kGemm, OpKind::kAllReduce, OpKind::kGeluForward));
}

TEST_F(HandBlock, StaysApartWhereAnOpBetweenReadsWhatTheSecondOverwrites) {
  Product(y_);
  Sum("reader", f_, other_);
  Gelu(y_, f_);
  EXPECT_THAT(Kinds(), ElementsAre(OpKind::kGemm, OpKind::kAdd, OpKind::kGeluForward));
}

TEST_F(HandBlock, StaysApartWhereOnlyAPartOfTheProductIsRead) {
  const std::int16_t half = b_.View("half", y_, 0, 16);
  Product(y_);
  Gelu(half, f_).shape.rows = 2;
  EXPECT_THAT(Kinds(), ElementsAre(OpKind::kGemm, OpKind::kGeluForward));
}

TEST_F(HandBlock, StaysApartWhereTheActivationFollowsCounts) {
  Product(y_);
  Gelu(y_, f_).shape.members = 2;
  EXPECT_THAT(Kinds(), ElementsAre(OpKind::kGemm, OpKind::kGeluForward));
}

TEST_F(HandBlock, TakesASlopeOfWhatIsThereBeforeTheProduct) {
  const std::int16_t up = Make("up", SlotRole::kSaved), dx = Make("dx");
  Product(y_);
  Slope(up, y_, dx);
  EXPECT_THAT(Kinds(), ElementsAre(OpKind::kGemmActivationBackward));
}

TEST_F(HandBlock, TakesNoSlopeOfWhatComesBehindTheProduct) {
  const std::int16_t up = Make("up"), dx = Make("dx");
  Product(y_);
  Sum("writer", x_, up);
  Slope(up, y_, dx);
  EXPECT_THAT(Kinds(), ElementsAre(OpKind::kGemm, OpKind::kAdd, OpKind::kGeluBackward));
}

TEST_F(HandBlock, TakesNoSlopeWhereTheProductItselfIsReadToo) {
  const std::int16_t up = Make("up", SlotRole::kSaved), dx = Make("dx");
  Product(y_);
  Slope(up, y_, dx);
  Sum("reader", y_, other_);
  EXPECT_THAT(Kinds(), ElementsAre(OpKind::kGemm, OpKind::kGeluBackward, OpKind::kAdd));
}

TEST_F(HandBlock, TakesNoSlopeOfATensorThatALaterPassReads) {
  const std::int16_t up = Make("up", SlotRole::kSaved), dy = Make("dy", SlotRole::kSaved);
  Product(dy);
  Slope(up, dy, f_);
  EXPECT_THAT(Kinds(), ElementsAre(OpKind::kGemm, OpKind::kGeluBackward));
}

TEST_F(HandBlock, SumsTheRowsOfAWeightsGradientOnce) {
  const std::int16_t dw = b_.Slot("dw", 16, Category::kGradients, SlotRole::kGradient),
                     db = b_.Slot("db", 8, Category::kGradients, SlotRole::kGradient),
                     again = b_.Slot("again", 8, Category::kGradients, SlotRole::kGradient);
  b_.LinearWeightGradient("w", y_, x_, dw, db, 4, 8, 2, /*accumulate=*/true);
  b_.BiasGradient("again", y_, again, 4, 8, /*accumulate=*/true);
  EXPECT_THAT(Kinds(), ElementsAre(OpKind::kGemmBiasGrad, OpKind::kBiasGrad));
}

TEST_F(HandBlock, SumsNoRowsWhereOneAddsAndTheOtherOverwrites) {
  const std::int16_t dw = b_.Slot("dw", 16, Category::kGradients, SlotRole::kGradient),
                     db = b_.Slot("db", 8, Category::kGradients, SlotRole::kGradient);
  b_.LinearWeightGradient("w", y_, x_, dw, kNoSlot, 4, 8, 2, /*accumulate=*/true);
  b_.BiasGradient("b", y_, db, 4, 8, /*accumulate=*/false);
  EXPECT_THAT(Kinds(), ElementsAre(OpKind::kGemm, OpKind::kBiasGrad));
}

}  // namespace
}  // namespace foretrain
