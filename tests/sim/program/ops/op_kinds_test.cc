#include "sim/program/ops/op_kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/program/blocks/block_builder.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

Op OfKind(OpKind kind) {
  Op op;
  op.kind = kind;
  return op;
}

// Five tensors to use as operands of any op.
struct Tensors {
  explicit Tensors(BlockBuilder& b) {
    for (std::int16_t& slot : at) {
      slot = b.Temporary("t" + std::to_string(&slot - at), 8);
    }
  }
  std::int16_t at[5] = {};
};

std::string Problem(BlockBuilder& b) {
  const Block block = b.Copy();
  const auto checked = CheckOp(block, block.ops.back());
  return checked.has_value() ? "" : checked.error().message;
}

TEST(OpKinds, RowsNameKindsAndGiveOperandsInOrder) {
  EXPECT_EQ(RowOf(OpKind::kAdamW).name, "adamw");
  EXPECT_EQ(RowOf(OpKind::kAdamW).kernel, FT_KERNEL_ADAMW);
  EXPECT_EQ(PositionOf(OfKind(OpKind::kAdamW), "param"), 0U);
  EXPECT_EQ(PositionOf(OfKind(OpKind::kAdamW), "weights"), 9U);
  EXPECT_EQ(PositionOf(OfKind(OpKind::kGemm), "b_scales"), 5U);
}

TEST(OpKinds, InverseOpsMayHaveAnotherOrder) {
  Op op = OfKind(OpKind::kSplitColumns);
  EXPECT_EQ(PositionOf(op, "whole"), 0U);
  op.inverse = true;
  EXPECT_EQ(PositionOf(op, "whole"), 2U);
}

TEST(OpKinds, EveryRowHasOperandsThatFitAnOp) {
  for (const OpKindRow& row : kOpKinds) {
    EXPECT_FALSE(row.name.empty());
    EXPECT_GT(SpecsOf(row.kind, false).count, 0U) << row.name;
    EXPECT_LE(SpecsOf(row.kind, true).count, kMaxOperands) << row.name;
  }
}

TEST(OpKinds, NoKindHasTwoAttributesOfOnePlace) {
  for (const OpKindRow& row : kOpKinds) {
    std::vector<int> in_place(kAttributePlaces, 0);
    for (std::size_t i = 0; i < kAttributeCount; ++i) {
      const auto attribute = static_cast<Attribute>(i);
      if (row.attributes.Has(attribute)) ++in_place[PlaceOf(attribute)];
    }
    EXPECT_THAT(in_place, testing::Each(testing::Le(1))) << row.name;
  }
}

TEST(OpKinds, AttributesThatAKindHasAreKept) {
  Op op = OfKind(OpKind::kCrossEntropyBackward);
  EXPECT_EQ(op.Get(Attribute::kLossShare), 1.0F);
  op.Set(Attribute::kLossShare, 0.25);
  op.Set(Attribute::kSoftcap, 30);
  EXPECT_EQ(op.Get(Attribute::kLossShare), 0.25F);
  EXPECT_EQ(op.Get(Attribute::kSoftcap), 30.0F);
}

TEST(CheckOp, AcceptsAnOpLikeItsRow) {
  BlockBuilder b("block");
  const Tensors t(b);
  Op& op = b.Add(OpKind::kGemm, "product", {In(t.at[0]), In(t.at[1]), In(kNoSlot), Out(t.at[2])});
  op.shape = {.rows = 2, .cols = 2, .inner = 2};
  EXPECT_EQ(Problem(b), "");
}

TEST(CheckOp, NamesTheOperandThatIsMissing) {
  BlockBuilder b("block");
  const Tensors t(b);
  b.Add(OpKind::kGemm, "product", {In(t.at[0]), In(kNoSlot), In(kNoSlot), Out(t.at[2])});
  EXPECT_EQ(Problem(b), "block block: gemm product lacks operand b");
}

TEST(CheckOp, NamesTheOperandOfTheWrongAccess) {
  BlockBuilder b("block");
  const Tensors t(b);
  b.Add(OpKind::kGemm, "product", {In(t.at[0]), Out(t.at[1]), In(kNoSlot), Out(t.at[2])});
  EXPECT_THAT(Problem(b), HasSubstr("writes operand b, which its kind does not"));
}

TEST(CheckOp, RefusesOperandsBeyondTheRow) {
  BlockBuilder b("block");
  const Tensors t(b);
  b.Add(OpKind::kSoftcap, "cap", {InOut(t.at[0]), In(t.at[1])});
  EXPECT_THAT(Problem(b), HasSubstr("has 2 operands; its kind has 1"));
}

TEST(CheckOp, RefusesSizesAndAttributesThatTheKindHasNot) {
  BlockBuilder b("block");
  const Tensors t(b);
  b.Add(OpKind::kSoftcap, "cap", {InOut(t.at[0])}).shape = {.vocab = 3, .elements = 8};
  EXPECT_THAT(Problem(b), HasSubstr("has a size vocab"));
  b.Last().shape = {.elements = 8};
  b.Last().Set(Attribute::kSoftcap, 30);
  EXPECT_EQ(Problem(b), "");
  b.Add(OpKind::kSquaredNorm, "norm", {In(t.at[0]), Out(t.at[1])}).attributes[1] = 2.0F;
  EXPECT_THAT(Problem(b), HasSubstr("has an attribute that its kind does not"));
}

}  // namespace
}  // namespace foretrain
