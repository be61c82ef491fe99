#include "sim/program/ir/op.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "sim/program/blocks/layer/context_parallel.h"
#include "sim/program/ops/attention_work.h"
#include "sim/program/ops/op_kinds.h"
#include "sim/program/ops/op_work.h"

namespace foretrain {
namespace {

Op Make(OpKind kind, const OpShape& shape) {
  Op op;
  op.kind = kind;
  op.shape = shape;
  return op;
}

void ExpectWork(const Op& op, double flop, double bytes) {
  const OpWork work = WorkOf(op);
  EXPECT_EQ(work.flop, flop) << Name(op.kind);
  EXPECT_EQ(work.bytes, bytes) << Name(op.kind);
}

TEST(OpNames, AreDifferentAndLowerCase) {
  std::set<std::string_view> names;
  for (int i = 0; i < kOpKindCount; ++i) names.insert(Name(static_cast<OpKind>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kOpKindCount));
  EXPECT_EQ(Name(OpKind::kGemm), "gemm");
  EXPECT_EQ(Name(OpKind::kNormBackwardWeight), "norm_backward_weight");
  EXPECT_EQ(Name(OpKind::kRecv), "recv");
  EXPECT_EQ(Name(OpKind::kOpaque), "opaque");
  EXPECT_EQ(Name(GroupKind::kNone), "none");
  EXPECT_EQ(Name(GroupKind::kDpPp), "dp_pp");
  EXPECT_EQ(Name(GroupKind::kPrev), "prev");
}

TEST(WorkOf, GemmIsTwoFlopAMultiplicationAndEachMatrixOnce) {
  // [2, 3] = [2, 5] * [5, 3]: 2*2*3*5 = 60 flop; 10 + 15 + 6 = 31 elements.
  Op op = Make(OpKind::kGemm, {.rows = 2, .cols = 3, .inner = 5});
  ExpectWork(op, 60, 4 * 31);
  op.accumulate = true;  // c is read as well
  ExpectWork(op, 60, 4 * 37);
}

// As above, with one more matrix [2, 3] written or read, or 2 sums, and no more FLOPs.
TEST(WorkOf, WhatFollowsAProductAddsTheBytesThatItTouches) {
  const OpShape shape{.rows = 2, .cols = 3, .inner = 5};
  ExpectWork(Make(OpKind::kGemmActivation, shape), 60, 4 * 31);
  ExpectWork(Make(OpKind::kGemmActivationKept, shape), 60, 4 * 37);
  ExpectWork(Make(OpKind::kGemmActivationBackward, shape), 60, 4 * 37);
  Op sums = Make(OpKind::kGemmBiasGrad, shape);
  ExpectWork(sums, 60, 4 * 33);
  sums.accumulate = true;  // c and the sums are read as well
  ExpectWork(sums, 60, 4 * 41);
}

TEST(WorkOf, CausalAttentionCountsTheLowerTriangle) {
  // B = 1, T = 3: 6 pairs a head; 2 heads of 4, 1 kv head. Forward: 2 GEMMs of 2 * 6 * 2 * 4 = 96.
  // qkv is 3 x 16, out 3 x 8, lse 3 x 2: 48 + 24 + 6 = 78 elements.
  const OpShape shape{
      .rows = 3, .batch = 1, .sequence = 3, .heads = 2, .kv_heads = 1, .head_dim = 4};
  ExpectWork(Make(OpKind::kAttentionForward, shape), 2 * 96, 4 * 78);
  // Backward: 5 GEMMs; qkv, dqkv 48 each, out, dout 24 each, lse 6.
  ExpectWork(Make(OpKind::kAttentionBackward, shape), 5 * 96, 4 * 150);
}

// As above, with values of 3: Q K^T and, backward, dQ and dK of 4, P V and dP and dV of 3. 6 pairs
// of 2 heads. qkv is 3 x (8 + 4 + 3), out 3 x 6.
TEST(WorkOf, AttentionCountsValuesByTheirOwnWidth) {
  const OpShape shape{.rows = 3,
                      .batch = 1,
                      .sequence = 3,
                      .heads = 2,
                      .kv_heads = 1,
                      .head_dim = 4,
                      .value_dim = 3};
  ExpectWork(Make(OpKind::kAttentionForward, shape), 2 * 12 * (4 + 3), 4 * (45 + 18 + 6));
  ExpectWork(Make(OpKind::kAttentionBackward, shape), 2 * 12 * (3 * 4 + 2 * 3),
             4 * (2 * 45 + 2 * 18 + 6));
}

// Three rows of two heads of 4, 2 of which turn, and values of 3: queries 8, keys and values 2 * (2
// + 3), the turned key 2: 20 numbers in and 8 + 8 + 6 out, or back, with 2 * 2 additions a row.
TEST(WorkOf, LatentHeadsMoveEachNumberOnce) {
  const OpShape shape{.rows = 3, .heads = 2, .head_dim = 4, .rotary = 2, .value_dim = 3};
  ExpectWork(Make(OpKind::kLatentHeads, shape), 0, 4 * 3 * (20 + 22));
  Op back = Make(OpKind::kLatentHeads, shape);
  back.inverse = true;
  ExpectWork(back, 3 * 4, 4 * 3 * (20 + 22));
  // [3, 5 + 2] to its parts.
  ExpectWork(Make(OpKind::kSplitColumns, {.rows = 3, .cols = 5, .inner = 2}), 0, 4 * 2 * 21);
}

// 3 rows of 2 heads of 4 outputs: each is scaled, of each head 6 operations; out and lse are read
// and written. Backward: a dot product a head, out, dout and lse read.
TEST(WorkOf, SinksTouchOutputsOnce) {
  const OpShape shape{.rows = 3, .heads = 2, .head_dim = 4};
  ExpectWork(Make(OpKind::kSinkForward, shape), 24 + 6 * 6, 4 * 2 * (24 + 6));
  ExpectWork(Make(OpKind::kSinkBackward, shape), 2 * (24 + 6), 4 * (2 * 24 + 6));
  // Biases of 2 experts' 5 rows of 3: added in place; and summed.
  const OpShape rows{.rows = 5, .cols = 3, .experts = 2};
  ExpectWork(Make(OpKind::kExpertBias, rows), 15, 4 * (2 * 15 + 6));
  ExpectWork(Make(OpKind::kExpertBiasGrad, rows), 15, 4 * (15 + 6));
  ExpectWork(Make(OpKind::kShiftTargets, {.rows = 5, .sequence = 5}), 0, 4 * 10);
}

// 5 rows of 3: x, y and a score each; added to, y is read as well. Backward: dy, x, dx, scores and
// their gradients, a product and a dot product.
TEST(WorkOf, GatesTouchRowsOnceAndScoresOnce) {
  Op gate = Make(OpKind::kGateForward, {.rows = 5, .cols = 3});
  ExpectWork(gate, 15, 4 * (15 + 15 + 5));
  gate.accumulate = true;
  ExpectWork(gate, 15, 4 * (15 + 30 + 5));
  ExpectWork(Make(OpKind::kGateBackward, {.rows = 5, .cols = 3}), 45, 4 * (3 * 15 + 10));
  // 2 experts for each of 5 tokens, of 4: 10 choices, 4 loads read and written; biases likewise.
  ExpectWork(Make(OpKind::kCountChoices, {.rows = 5, .experts = 4, .per_token = 2}), 10,
             4 * (10 + 8));
  ExpectWork(Make(OpKind::kBalanceBias, {.experts = 4}), 12, 4 * 16);
  ExpectWork(Make(OpKind::kScaleLoss, {}), 2, 20);
}

// The same shape: 3 x 2 x 3 = 18 scores. Forward: qkv 48 and out 24; scores written and read,
// weights written and read. Without the product with the values half the flop, no out and one read
// less.
TEST(WorkOf, StandardAttentionWritesItsScoresOut) {
  OpShape shape{.rows = 3, .batch = 1, .sequence = 3, .heads = 2, .kv_heads = 1, .head_dim = 4};
  shape.inner = 3;
  Op op = Make(OpKind::kStandardAttentionForward, shape);
  ExpectWork(op, 2 * 96, 4 * (72 + 4 * 18));
  op.dropout = 0.1F;  // weights are read again, the rest is written, and a mask of bytes
  ExpectWork(op, 2 * 96, 4 * (72 + 6 * 18) + 18);
  op.dropout = 0;
  op.shape.inner = 0;
  ExpectWork(op, 96, 4 * (48 + 3 * 18));
  // Backward: qkv, dqkv 48 each, dout 24; weights read twice; gradients of scores written, read and
  // written by the softmax's, read twice by products.
  op = Make(OpKind::kStandardAttentionBackward, shape);
  ExpectWork(op, 4 * 96, 4 * (120 + 7 * 18));
}

// [2, 3]: branch, residual and output 4 bytes each, a mask of 1.
TEST(WorkOf, DropoutCountsItsMaskInBytes) {
  Op op = Make(OpKind::kDropout, {.rows = 2, .cols = 3});
  SetFormat(op, "mask", NumberFormat::kMask);
  op.accumulate = true;
  ExpectWork(op, 18, 6 * 13);
  op.accumulate = false;  // no residual
  ExpectWork(op, 18, 6 * 9);
  op = Make(OpKind::kDropoutBackward, {.rows = 2, .cols = 3});
  SetFormat(op, "mask", NumberFormat::kMask);
  ExpectWork(op, 6, 6 * 9);
}

// T = 7 tokens that see 3 each: 1 + 2 + 5 * 3 = 18 pairs. A window of the sequence is none.
TEST(WorkOf, AttentionCountsThePairsOfItsWindow) {
  OpShape shape{
      .rows = 7, .batch = 1, .sequence = 7, .heads = 2, .kv_heads = 1, .head_dim = 4, .window = 3};
  EXPECT_EQ(WorkOf(Make(OpKind::kAttentionForward, shape)).flop, 2 * 2 * 18 * 2 * 4);
  EXPECT_EQ(WorkOf(Make(OpKind::kAttentionBackward, shape)).flop, 5 * 2 * 18 * 2 * 4);
  shape.window = 7;
  EXPECT_EQ(WorkOf(Make(OpKind::kAttentionForward, shape)).flop, 2 * 2 * 28 * 2 * 4);
}

// Counted one by one over all ranks.
TEST(WorkOf, PartsOfAttentionCountTheMeanOfTheirPairsWithinAWindow) {
  for (const int cp : {2, 3}) {
    for (const std::int64_t window : {1, 2, 5, 9, 100}) {
      OpShape shape{.rows = 8,
                    .inner = 8,
                    .batch = 1,
                    .sequence = 8,
                    .heads = 1,
                    .kv_heads = 1,
                    .head_dim = 1,
                    .cp = cp,
                    .window = window};
      double of_all = 0;
      for (shape.turn = 0; shape.turn < cp; ++shape.turn) {
        double pairs = 0;
        for (int rank = 0; rank < cp; ++rank) {
          const int from = (rank - shape.turn + cp) % cp;
          for (const std::int64_t query : ChunkPositions(std::int64_t{8} * cp, cp, rank)) {
            for (const std::int64_t key : ChunkPositions(std::int64_t{8} * cp, cp, from)) {
              for (std::int64_t i = query; i < query + 4; ++i) {
                for (std::int64_t j = key; j < key + 4; ++j) pairs += j <= i && i - j < window;
              }
            }
          }
        }
        EXPECT_DOUBLE_EQ(PairsOfPart(shape), pairs / cp) << cp << " " << window;
        of_all += pairs;
      }
      shape.turn = 0;
      shape.inner = std::int64_t{8} * cp;
      EXPECT_DOUBLE_EQ(PairsOfPart(shape), of_all / cp);
      shape.rows = shape.inner;
      EXPECT_DOUBLE_EQ(PairsOfPart(shape), of_all);
    }
  }
}

// Two ranks share out 8 tokens: chunks of 2. Rank 0 has positions 0, 1, 6, 7, which see 1 + 2 + 7 +
// 8 = 18 keys; rank 1 has 2 to 5: 3 + 4 + 5 + 6 = 18. Over their own keys 1 + 2 + 3 + 4 = 10, over
// the other's 8: rank 0's later two see all four, rank 1's four see the first two.
TEST(WorkOf, PartsOfAttentionCountThePairsThatEachRankHas) {
  OpShape shape{.rows = 4,
                .inner = 8,
                .batch = 1,
                .sequence = 4,
                .heads = 2,
                .kv_heads = 1,
                .head_dim = 4,
                .cp = 2};
  // 2 GEMMs of 2 * 18 pairs * 2 heads * 4 = 288. q, out 4 x 8; k, v 8 x 8; lse 4 x 2.
  ExpectWork(Make(OpKind::kAttentionPartForward, shape), 2 * 288, 4 * (32 + 64 + 32 + 8));
  // q, out, dout, dq 32 each; kv, dkv 64 each; lse 8.
  ExpectWork(Make(OpKind::kAttentionPartBackward, shape), 5 * 288, 4 * (128 + 128 + 8));
  shape.inner = 4;
  EXPECT_EQ(WorkOf(Make(OpKind::kAttentionPartForward, shape)).flop, 4 * 10 * 2 * 4);
  shape.turn = 1;
  Op op = Make(OpKind::kAttentionPartForward, shape);
  op.accumulate = true;  // out and lse are read as well
  ExpectWork(op, 4 * 8 * 2 * 4, 4 * (32 + 32 + 2 * (32 + 8)));
  // All 8 tokens of one of the heads: 36 pairs.
  shape.turn = 0, shape.rows = shape.inner = 8, shape.heads = 1;
  EXPECT_EQ(WorkOf(Make(OpKind::kAttentionPartForward, shape)).flop, 4 * 36 * 4);
  // [k | v] of 4 rows, and all of [q | k | v], read and written.
  const OpShape columns{.rows = 4, .heads = 2, .kv_heads = 1, .head_dim = 4, .cp = 2};
  ExpectWork(Make(OpKind::kKeyColumns, columns), 0, 4 * 2 * 32);
  ExpectWork(Make(OpKind::kHeadParts, columns), 0, 4 * 2 * 64);
}

TEST(WorkOf, NormsReadAndWriteRowsTimesColumns) {
  const OpShape shape{.rows = 10, .cols = 4};
  // x, y: 80; weight, bias: 8; mean, rstd: 20.
  Op op = Make(OpKind::kNormForward, shape);
  ExpectWork(op, 8 * 40, 4 * 108);
  op.rms = true;  // neither bias nor mean
  ExpectWork(op, 4 * 40, 4 * 94);
  // dy, x, residual, dx: 160; weight 4; mean, rstd 20.
  ExpectWork(Make(OpKind::kNormBackwardInput, shape), 11 * 40, 4 * 184);
  // dy, x: 80; mean, rstd 20; both gradients 8, and once more when added to.
  Op weight = Make(OpKind::kNormBackwardWeight, shape);
  ExpectWork(weight, 5 * 40, 4 * 108);
  weight.accumulate = true;
  ExpectWork(weight, 5 * 40, 4 * 116);
}

TEST(WorkOf, ElementwiseOpsCountTheirOperands) {
  const OpShape shape{.rows = 2, .cols = 5};
  EXPECT_EQ(WorkOf(Make(OpKind::kGeluForward, shape)).bytes, 4 * 20);
  EXPECT_EQ(WorkOf(Make(OpKind::kGeluBackward, shape)).bytes, 4 * 30);
  // SwiGLU's input is twice as wide as its output.
  EXPECT_EQ(WorkOf(Make(OpKind::kSwigluForward, shape)).bytes, 4 * 30);
  EXPECT_EQ(WorkOf(Make(OpKind::kSwigluBackward, shape)).bytes, 4 * 50);
  ExpectWork(Make(OpKind::kAdd, shape), 10, 4 * 30);
  ExpectWork(Make(OpKind::kBiasGrad, shape), 10, 4 * 15);
  // 2 query heads and 1 key head of 4, in place.
  ExpectWork(Make(OpKind::kRope, {.rows = 2, .heads = 2, .kv_heads = 1, .head_dim = 4}), 3 * 24,
             4 * 48);
}

TEST(WorkOf, EmbeddingMovesTheRowsThatAreUsed) {
  const OpShape shape{.rows = 3, .cols = 4, .vocab = 100};
  // ids 3; looked-up rows 12; out 12.
  ExpectWork(Make(OpKind::kEmbeddingForward, shape), 12, 4 * 27);
  Op op = Make(OpKind::kEmbeddingBackward, shape);
  // ids 3; dy 12; rows read and written 24; the table filled with 0: 400.
  ExpectWork(op, 12, 4 * 439);
  op.accumulate = true;
  ExpectWork(op, 12, 4 * 39);
}

TEST(WorkOf, LossAndOptimizerCountEachElement) {
  // logits 3 x 7; targets 3; lse 3.
  ExpectWork(Make(OpKind::kCrossEntropyForward, {.rows = 3, .vocab = 7}), 4 * 21, 4 * 27);
  ExpectWork(Make(OpKind::kCrossEntropyBackward, {.rows = 3, .vocab = 7}), 3 * 21, 4 * 48);
  ExpectWork(Make(OpKind::kSquaredNorm, {.elements = 9}), 18, 36);
  // Parameter and two moments read and written, gradient read: 28 bytes an element.
  Op adam = Make(OpKind::kAdamW, {.elements = 10});
  ExpectWork(adam, 140, 280);
  // Moments of 2 bytes: 12 + 4 * 2. Of 1 byte: 12 + 4.
  adam.format = NumberFormat::kBf16;
  ExpectWork(adam, 140, 200);
  adam.format = NumberFormat::kInt8;
  ExpectWork(adam, 140, 160);
  ExpectWork(Make(OpKind::kSgd, {.elements = 10}), 40, 120);
  // Parameter and one moment read and written, gradient read: 20 bytes, 16 with 2-byte moments.
  Op momentum = Make(OpKind::kMomentum, {.elements = 10});
  ExpectWork(momentum, 70, 200);
  momentum.format = NumberFormat::kBf16;
  ExpectWork(momentum, 70, 160);
  ExpectWork(Make(OpKind::kLion, {.elements = 10}), 120, 200);
  // Parameters 10, gradients twice 10, and 2 + 5 sums read and written; 7 sums read and 7 moments
  // read and written; gradients and moments; parameters read and written, and gradients.
  const OpShape part{.rows = 2, .cols = 5};
  ExpectWork(Make(OpKind::kFactorSums, part), 60, 4 * (30 + 14));
  ExpectWork(Make(OpKind::kFactorMoments, part), 35, 4 * 21);
  ExpectWork(Make(OpKind::kFactorSize, part), 70, 4 * 17);
  ExpectWork(Make(OpKind::kAdafactor, {.rows = 2, .cols = 5, .inner = 20, .elements = 10}), 90,
             4 * 30);
  ExpectWork(Make(OpKind::kAdamWAmend, {.elements = 10}), 2, 8);  // nothing to amend
  ExpectWork(Make(OpKind::kCountNotFinite, {.elements = 9}), 9, 36);
  ExpectWork(Make(OpKind::kCountSkipped, {}), 1, 12);
}

TEST(WorkOf, QuantizedTensorsAreAsLongAsTheirFormat) {
  EXPECT_EQ(BytesIn(NumberFormat::kFp32, 300), 1200);
  EXPECT_EQ(BytesIn(NumberFormat::kBf16, 300), 600);
  EXPECT_EQ(BytesIn(NumberFormat::kFp8, 300), 308);  // two blocks of at most 256
  EXPECT_EQ(BytesIn(NumberFormat::kInt8, 256), 260);
  EXPECT_EQ(BytesIn(NumberFormat::kInt8, 0), 0);
  // 600 floats in two pieces: 2400 bytes on one side, 2 * 308 on the other.
  for (const OpKind kind : {OpKind::kQuantize, OpKind::kDequantize}) {
    Op op = Make(kind, {.rows = 2, .elements = 600});
    op.format = NumberFormat::kInt8;
    ExpectWork(op, 1200, 2400 + 616);
  }
}

// Room for 40 rows of 256 numbers, of which 10 are expected: 2,560 floats and 10 blocks of 256
// bytes with a scale of 4.
TEST(WorkOf, CastsOfRowsThatFollowCountsCostThoseThatAreExpected) {
  Op op = Make(OpKind::kQuantize, {.rows = 1, .cols = 256, .inner = 10, .elements = 40 * 256});
  op.format = NumberFormat::kInt8;
  op.shape.members = 2;
  ExpectWork(op, 2 * 2560, 4 * 2560 + 10 * 260);
}

TEST(WorkOf, CommunicationMovesItsTensorAndOpaqueWorkNothing) {
  for (const OpKind kind : {OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kAllGather,
                            OpKind::kAllToAll, OpKind::kRotate, OpKind::kSend, OpKind::kRecv}) {
    EXPECT_TRUE(IsCommunication(kind));
    ExpectWork(Make(kind, {.elements = 6}), 0, 24);
  }
  ExpectWork(Make(OpKind::kOpaque, {}), 0, 0);
}

TEST(WorkOf, IsExactBeyond64Bits) {
  // 2 * 2^30 * 2^30 * 2^30 = 2^91.
  const std::int64_t n = std::int64_t{1} << 30;
  EXPECT_EQ(WorkOf(Make(OpKind::kGemm, {.rows = n, .cols = n, .inner = n})).flop, 0x1p91);
}

}  // namespace
}  // namespace foretrain
