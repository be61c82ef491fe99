#include <limits>
#include <string>

#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class EmbeddingTest : public KernelTest {};

// Ids with repetitions, from both ends of the vocabulary.
Ids SomeIds(std::int64_t rows, std::int64_t vocab) {
  Ids ids;
  for (std::int64_t row = 0; row < rows; ++row) {
    ids.push_back(static_cast<std::int32_t>(row % 3 == 0 ? vocab - 1 : row * 7 % vocab));
  }
  return ids;
}

// Bound: one addition of two numbers below 1.
TEST_P(EmbeddingTest, ForwardEqualsTheReferenceAtRaggedSizes) {
  for (const std::int64_t cols : kRaggedSizes) {
    for (const bool positions : {false, true}) {
      const reference::EmbeddingShape shape{.cols = cols, .vocab = 11, .sequence = 13};
      const Ids ids = SomeIds(26, 11);
      const Floats table = Random(11 * cols, 1);
      const Floats position = positions ? Random(13 * cols, 2) : Floats{};
      Floats out(static_cast<std::size_t>(26 * cols), kNan);
      Run(api_.embedding_forward,
          FtEmbeddingForward{.ids = ids.data(),
                             .table = table.data(),
                             .positions = positions ? position.data() : nullptr,
                             .out = out.data(),
                             .rows = 26,
                             .cols = cols,
                             .vocab = 11,
                             .sequence = 13,
                             .first_row = 0,
                             .first_id = 0,
                             .all_ids = 0,
                             .dtype = FT_F32,
                             .runs = nullptr,
                             .run_count = 0,
                             .table_dtype = FT_F32,
                             .scale = 0.0F,
                             .document_starts = nullptr});
      ExpectClose(out, reference::EmbeddingForward(shape, ids, ToDouble(table), ToDouble(position)),
                  {2.0 * kUnit}, "out");
    }
  }
}

// At most 26 rows and the old value are added into one row of a table: 26 rounding errors of a sum
// of at most 27.
TEST_P(EmbeddingTest, BackwardEqualsTheReferenceAtRaggedSizes) {
  for (const std::int64_t cols : kRaggedSizes) {
    for (const int mode : {0, 1, 2, 3}) {
      const bool add_table = (mode & 1) != 0;
      const bool add_positions = (mode & 2) != 0;
      const reference::EmbeddingShape shape{.cols = cols, .vocab = 11, .sequence = 13};
      const Ids ids = SomeIds(26, 11);
      const Floats dy = Random(26 * cols, 1);
      Floats table =
          add_table ? Random(11 * cols, 2) : Floats(static_cast<std::size_t>(11 * cols), kNan);
      Floats positions =
          add_positions ? Random(13 * cols, 3) : Floats(static_cast<std::size_t>(13 * cols), kNan);
      reference::EmbeddingGrads expected = reference::EmbeddingBackward(shape, ids, ToDouble(dy));
      for (std::size_t i = 0; add_table && i < table.size(); ++i) {
        expected.table[i] += static_cast<double>(table[i]);
      }
      for (std::size_t i = 0; add_positions && i < positions.size(); ++i) {
        expected.positions[i] += static_cast<double>(positions[i]);
      }
      Run(api_.embedding_backward, FtEmbeddingBackward{.ids = ids.data(),
                                                       .dy = dy.data(),
                                                       .table_grad = table.data(),
                                                       .positions_grad = positions.data(),
                                                       .rows = 26,
                                                       .cols = cols,
                                                       .vocab = 11,
                                                       .sequence = 13,
                                                       .first_id = 0,
                                                       .all_ids = 0,
                                                       .accumulate_table = add_table,
                                                       .accumulate_positions = add_positions,
                                                       .dtype = FT_F32,
                                                       .runs = nullptr,
                                                       .run_count = 0,
                                                       .grad_dtype = FT_F32,
                                                       .scale = 0.0F,
                                                       .document_starts = nullptr});
      ExpectClose(table, expected.table, {26.0 * 27.0 * kUnit}, "table");
      ExpectClose(positions, expected.positions, {26.0 * 27.0 * kUnit}, "positions");
    }
  }
}

// Ids with more rows than a kernel adds in one go: 1, 64, 65, 128, 129 and 413 of 800 rows. The sum
// of 413 numbers below 1 and the old value has 414 rounding errors.
TEST_P(EmbeddingTest, BackwardAddsAllRowsOfFrequentIds) {
  constexpr std::int64_t kRows = 800, kCols = 9, kVocab = 8;
  Ids ids;
  const std::int64_t counts[kVocab] = {1, 64, 65, 0, 128, 129, 413, 0};
  for (std::int64_t id = 0; id < kVocab; ++id) {
    ids.insert(ids.end(), static_cast<std::size_t>(counts[id]), static_cast<std::int32_t>(id));
  }
  for (std::size_t i = 0; i < ids.size(); ++i) std::swap(ids[i], ids[i * 377 % ids.size()]);
  const Floats dy = Random(kRows * kCols, 1), before = Random(kVocab * kCols, 2);
  const auto gradient = [&](std::int64_t first, std::int64_t vocab, std::int64_t all) {
    Floats table(before.begin() + first * kCols, before.begin() + (first + vocab) * kCols);
    FtEmbeddingBackward g{};
    g.ids = ids.data(), g.dy = dy.data(), g.table_grad = table.data(), g.rows = kRows;
    g.cols = kCols, g.vocab = vocab, g.sequence = 1, g.first_id = first, g.all_ids = all;
    g.accumulate_table = 1;
    Run(api_.embedding_backward, g);
    return table;
  };
  const Floats table = gradient(0, kVocab, 0);
  const reference::EmbeddingShape shape{.cols = kCols, .vocab = kVocab, .sequence = kRows};
  Tensor expected = reference::EmbeddingBackward(shape, ids, ToDouble(dy)).table;
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += static_cast<double>(before[i]);
  ExpectClose(table, expected, {414.0 * 414.0 * kUnit}, "table");
  // A rank that has the ids from 4 on gives the same bits.
  EXPECT_EQ(gradient(4, 4, kVocab), Floats(table.begin() + 4 * kCols, table.end()));
}

// Two ranks with 6 of 11 ids each, the second with one padding row. Their sum equals the whole bit
// by bit. Rows [5, 26) of a batch take their positions from row 5 on.
TEST_P(EmbeddingTest, SharesOfTheVocabularyAddUpToTheWhole) {
  constexpr std::int64_t kCols = 33, kRows = 21, kFirstRow = 5;
  const Ids ids = SomeIds(kRows, 11);
  Floats table = Random(11 * kCols, 1);
  const Floats position = Random(13 * kCols, 2), dy = Random(kRows * kCols, 3);
  const auto forward = [&](const float* rows, std::int64_t vocab, std::int64_t first,
                           std::int64_t all) {
    Floats out(static_cast<std::size_t>(kRows * kCols), kNan);
    Run(api_.embedding_forward, FtEmbeddingForward{.ids = ids.data(),
                                                   .table = rows,
                                                   .positions = position.data(),
                                                   .out = out.data(),
                                                   .rows = kRows,
                                                   .cols = kCols,
                                                   .vocab = vocab,
                                                   .sequence = 13,
                                                   .first_row = kFirstRow,
                                                   .first_id = first,
                                                   .all_ids = all,
                                                   .dtype = FT_F32,
                                                   .runs = nullptr,
                                                   .run_count = 0,
                                                   .table_dtype = FT_F32,
                                                   .scale = 0.0F,
                                                   .document_starts = nullptr});
    return out;
  };
  const auto backward = [&](std::int64_t vocab, std::int64_t first, std::int64_t all) {
    Floats grad(static_cast<std::size_t>(vocab * kCols), kNan);
    Run(api_.embedding_backward, FtEmbeddingBackward{.ids = ids.data(),
                                                     .dy = dy.data(),
                                                     .table_grad = grad.data(),
                                                     .positions_grad = nullptr,
                                                     .rows = kRows,
                                                     .cols = kCols,
                                                     .vocab = vocab,
                                                     .sequence = 13,
                                                     .first_id = first,
                                                     .all_ids = all,
                                                     .accumulate_table = 0,
                                                     .accumulate_positions = 0,
                                                     .dtype = FT_F32,
                                                     .runs = nullptr,
                                                     .run_count = 0,
                                                     .grad_dtype = FT_F32,
                                                     .scale = 0.0F,
                                                     .document_starts = nullptr});
    return grad;
  };
  const Floats whole = forward(table.data(), 11, 0, 0);
  for (std::int64_t c = 0; c < kCols; ++c) {  // row 0 has id 10 at position 5
    ASSERT_EQ(whole[static_cast<std::size_t>(c)],
              table[static_cast<std::size_t>(10 * kCols + c)] +
                  position[static_cast<std::size_t>(kFirstRow * kCols + c)]);
  }
  Floats whole_grad = backward(11, 0, 0);
  table.resize(12 * kCols, kNan);  // the padding row is never read
  Floats sum = forward(table.data(), 6, 0, 11);
  const Floats second = forward(table.data() + 6 * kCols, 6, 6, 11);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += second[i];
  EXPECT_EQ(sum, whole);
  Floats grads = backward(6, 0, 11);
  const Floats second_grads = backward(6, 6, 11);
  grads.insert(grads.end(), second_grads.begin(), second_grads.end());
  whole_grad.resize(12 * kCols, 0.0F);
  EXPECT_EQ(grads, whole_grad);
}

// Two samples; the rank has positions 3, 4 and 9 of each.
TEST_P(EmbeddingTest, FollowsThePositionsOfRuns) {
  const std::vector<FtRun> runs = {{0, 3, 2}, {2, 9, 1}};
  const std::vector<std::int64_t> at = {3, 4, 9, 3, 4, 9};
  const Ids ids = {1, 2, 3, 4, 5, 1};
  const Floats table = Random(11 * 5, 1), position = Random(12 * 5, 2), dy = Random(6 * 5, 3);
  Floats out(6 * 5), table_grad(11 * 5), position_grad = position;
  Run(api_.embedding_forward, FtEmbeddingForward{.ids = ids.data(),
                                                 .table = table.data(),
                                                 .positions = position.data(),
                                                 .out = out.data(),
                                                 .rows = 6,
                                                 .cols = 5,
                                                 .vocab = 11,
                                                 .sequence = 3,
                                                 .first_row = 0,
                                                 .first_id = 0,
                                                 .all_ids = 0,
                                                 .dtype = FT_F32,
                                                 .runs = runs.data(),
                                                 .run_count = 2,
                                                 .table_dtype = FT_F32,
                                                 .scale = 0.0F,
                                                 .document_starts = nullptr});
  Run(api_.embedding_backward, FtEmbeddingBackward{.ids = ids.data(),
                                                   .dy = dy.data(),
                                                   .table_grad = table_grad.data(),
                                                   .positions_grad = position_grad.data(),
                                                   .rows = 6,
                                                   .cols = 5,
                                                   .vocab = 11,
                                                   .sequence = 3,
                                                   .first_id = 0,
                                                   .all_ids = 0,
                                                   .accumulate_table = 0,
                                                   .accumulate_positions = 1,
                                                   .dtype = FT_F32,
                                                   .runs = runs.data(),
                                                   .run_count = 2,
                                                   .grad_dtype = FT_F32,
                                                   .scale = 0.0F,
                                                   .document_starts = nullptr});
  Tensor grad = ToDouble(position);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t row = i / 5, c = i % 5;
    const auto p = static_cast<std::size_t>(at[row]) * 5 + c;
    EXPECT_EQ(out[i], table[static_cast<std::size_t>(ids[row]) * 5 + c] + position[p]) << i;
    grad[p] += static_cast<double>(dy[i]);
  }
  ExpectClose(position_grad, grad, {6.0 * kUnit}, "positions");
}

TEST_P(EmbeddingTest, RefusesAnIdOutsideTheVocabularyOrLeavesItsRowZero) {
  const Ids ids = {0, 3, 11};
  const Floats table(11 * 4, 1.0F);
  Floats out(3 * 4, 5.0F);
  const FtEmbeddingForward call{.ids = ids.data(),
                                .table = table.data(),
                                .positions = nullptr,
                                .out = out.data(),
                                .rows = 3,
                                .cols = 4,
                                .vocab = 11,
                                .sequence = 3,
                                .first_row = 0,
                                .first_id = 0,
                                .all_ids = 0,
                                .dtype = FT_F32,
                                .runs = nullptr,
                                .run_count = 0,
                                .table_dtype = FT_F32,
                                .scale = 0.0F,
                                .document_starts = nullptr};
  if (IsCuda()) {
    Run(api_.embedding_forward, call);
    EXPECT_EQ(out, (Floats{1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0}));
    return;
  }
  EXPECT_EQ(api_.embedding_forward(queue_.get(), &call), FT_FAILED);
  EXPECT_STREQ(api_.queue_error(queue_.get()),
               "cpu embedding_forward: row 2 has id 11, outside the vocabulary of 11");
  EXPECT_EQ(out, Floats(3 * 4, 5.0F));
}

TEST(EmbeddingReference, BackwardIsTheDifferenceGradient) {
  const reference::EmbeddingShape shape{.cols = 3, .vocab = 5, .sequence = 4};
  const Ids ids = {1, 4, 1, 0, 2, 2, 4, 1};
  const Tensor table = ToDouble(Random(15, 1));
  const Tensor positions = ToDouble(Random(12, 2));
  const Tensor dy = ToDouble(Random(24, 3));
  const reference::EmbeddingGrads grads = reference::EmbeddingBackward(shape, ids, dy);
  ExpectGradient(
      grads.table, table,
      [&](const Tensor& x) {
        return Dot(reference::EmbeddingForward(shape, ids, x, positions), dy);
      },
      "table");
  ExpectGradient(
      grads.positions, positions,
      [&](const Tensor& x) { return Dot(reference::EmbeddingForward(shape, ids, table, x), dy); },
      "positions");
}

FT_TEST_ALL_VARIANTS(EmbeddingTest);

}  // namespace
}  // namespace foretrain::test
