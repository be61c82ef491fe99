// Samples that are packed from documents: attention, rotary positions and position tables give
// what the documents give as samples of their own.
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

// Lengths of the documents of each sample. Blocks of queries and keys end inside documents, at
// their borders and between several of them.
struct Packing {
  std::int64_t sequence = 0;
  std::vector<std::vector<std::int64_t>> samples{};

  std::int64_t batch() const { return std::ssize(samples); }
  Ids Starts() const {
    Ids starts;
    for (const auto& lengths : samples) {
      std::int64_t first = 0;
      for (const std::int64_t length : lengths) {
        starts.insert(starts.end(), static_cast<std::size_t>(length),
                      static_cast<std::int32_t>(first));
        first += length;
      }
      EXPECT_EQ(first, sequence);
    }
    return starts;
  }
  // Calls take(first row, length) for each document.
  template <class Take>
  void ForEach(const Take& take) const {
    std::int64_t row = 0;
    for (const auto& lengths : samples) {
      for (const std::int64_t length : lengths) {
        take(row, length);
        row += length;
      }
    }
  }
};

Packing Ragged() {
  return {.sequence = 203, .samples = {{1, 5, 64, 130, 3}, {203}, {32, 1, 1, 96, 73}}};
}

struct Heads {
  std::int64_t heads = 4, kv_heads = 2, head_dim = 8, window = 0;
  int alibi_heads = 0;
  std::int64_t Stride() const { return (heads + 2 * kv_heads) * head_dim; }
};

struct Results {
  Floats out, lse, grads, weights;
};

class DocumentsTest : public KernelTest {
 protected:
  // Fields that forward and backward share; rows begin at `row`.
  template <class Arguments>
  Arguments Common(const Heads& h, const float* rows, std::int64_t row) {
    Arguments g{};
    g.q = rows + row * h.Stride();
    g.k = rows + row * h.Stride() + h.heads * h.head_dim;
    g.v = rows + row * h.Stride() + (h.heads + h.kv_heads) * h.head_dim;
    g.row_stride = h.Stride();
    g.heads = static_cast<std::int32_t>(h.heads);
    g.kv_heads = static_cast<std::int32_t>(h.kv_heads);
    g.head_dim = static_cast<std::int32_t>(h.head_dim);
    if constexpr (requires { g.window; }) g.window = h.window;
    if constexpr (requires { g.alibi_heads; }) g.alibi_heads = h.alibi_heads;
    return g;
  }
  template <class Arguments>
  static void SetGradients(const Heads& h, float* grads, std::int64_t row, Arguments& g) {
    g.dq = grads + row * h.Stride();
    g.dk = grads + row * h.Stride() + h.heads * h.head_dim;
    g.dv = grads + row * h.Stride() + (h.heads + h.kv_heads) * h.head_dim;
  }

  // Attention of `batch` samples of `sequence` rows from `row` on, forward and backward.
  void Flash(const Heads& h, std::int64_t row, std::int64_t batch, std::int64_t sequence,
             const std::int32_t* starts, Results& made) {
    const std::int64_t width = h.heads * h.head_dim;
    auto forward = Common<FtAttentionForward>(h, rows_.data(), row);
    forward.out = made.out.data() + row * width;
    forward.lse = made.lse.data() + row * h.heads;
    forward.batch = batch, forward.sequence = sequence;
    forward.document_starts = starts;
    Run(api_.attention_forward, forward);
    auto backward = Common<FtAttentionBackward>(h, rows_.data(), row);
    backward.out = forward.out, backward.lse = forward.lse;
    backward.dout = dout_.data() + row * width;
    SetGradients(h, made.grads.data(), row, backward);
    backward.batch = batch, backward.sequence = sequence;
    backward.document_starts = starts;
    Run(api_.attention_backward, backward);
  }

  // The same with stored scores; weights [sequence, sequence] begin at `weights`.
  void Standard(const Heads& h, std::int64_t row, std::int64_t batch, std::int64_t sequence,
                const std::int32_t* starts, Results& made) {
    const std::int64_t width = h.heads * h.head_dim;
    made.weights.assign(static_cast<std::size_t>(batch * h.heads * sequence * sequence), NAN);
    Floats scores(made.weights.size(), NAN);
    auto forward = Common<FtStandardAttentionForward>(h, rows_.data(), row);
    forward.scores = scores.data(), forward.weights = made.weights.data();
    forward.out = made.out.data() + row * width;
    forward.batch = batch, forward.sequence = sequence;
    forward.document_starts = starts;
    Run(api_.standard_attention_forward, forward);
    auto backward = Common<FtStandardAttentionBackward>(h, rows_.data(), row);
    backward.weights = made.weights.data(), backward.d_scores = scores.data();
    backward.dout = dout_.data() + row * width;
    SetGradients(h, made.grads.data(), row, backward);
    backward.batch = batch, backward.sequence = sequence;
    Run(api_.standard_attention_backward, backward);
  }

  Results Empty(const Heads& h, std::int64_t rows) {
    rows_ = Random(rows * h.Stride(), 7);
    dout_ = Random(rows * h.heads * h.head_dim, 8);
    return {Floats(dout_.size(), NAN),
            Floats(static_cast<std::size_t>(rows * h.heads), NAN),
            Floats(rows_.size(), NAN),
            {}};
  }

  // On the CPU each document takes the same steps as a sample of its own. On CUDA blocks begin
  // elsewhere, which changes the order of sums of at most 203 products of numbers up to 1.
  void ExpectEqual(const Results& packed, const Results& apart, bool to_the_bit,
                   const std::string& what) {
    if (to_the_bit) {
      EXPECT_EQ(Bits(packed.out), Bits(apart.out)) << what;
      EXPECT_EQ(Bits(packed.lse), Bits(apart.lse)) << what;
      EXPECT_EQ(Bits(packed.grads), Bits(apart.grads)) << what;
      return;
    }
    const Tensor bound = {1e-5};
    ExpectClose(packed.out, ToDouble(apart.out), bound, what + ": out");
    ExpectClose(packed.grads, ToDouble(apart.grads), bound, what + ": gradients");
  }

  Floats rows_, dout_;
};

TEST_P(DocumentsTest, AttendAsSamplesOfTheirOwn) {
  const Packing packing = Ragged();
  const Ids starts = packing.Starts();
  const Heads cases[] = {{}, {.window = 7}, {.heads = 2, .head_dim = 33}, {.alibi_heads = 4}};
  for (const Heads& h : cases) {
    const std::string what =
        "head_dim " + std::to_string(h.head_dim) + ", window " + std::to_string(h.window);
    Results packed = Empty(h, std::ssize(starts));
    Results apart = packed;
    Flash(h, 0, packing.batch(), packing.sequence, starts.data(), packed);
    packing.ForEach(
        [&](std::int64_t row, std::int64_t length) { Flash(h, row, 1, length, nullptr, apart); });
    ExpectEqual(packed, apart, !IsCuda(), what);
  }
}

// One document a sample is plain attention, also where the row is the last of its block.
TEST_P(DocumentsTest, OfWholeSamplesChangeNothing) {
  const Packing packing{.sequence = 65, .samples = {{65}, {65}}};
  const Ids starts = packing.Starts();
  const Heads h;
  Results with = Empty(h, std::ssize(starts));
  Results without = with;
  Flash(h, 0, 2, 65, starts.data(), with);
  Flash(h, 0, 2, 65, nullptr, without);
  ExpectEqual(with, without, /*to_the_bit=*/true, "whole samples");
}

TEST_P(DocumentsTest, AttendAsSamplesOfTheirOwnWithStoredScores) {
  const Packing packing{.sequence = 40, .samples = {{1, 7, 32}, {40}, {20, 20}}};
  const Ids starts = packing.Starts();
  for (const std::int64_t window : {0, 5}) {
    const Heads h{.window = window};
    Results packed = Empty(h, std::ssize(starts));
    Results apart = packed;
    Standard(h, 0, packing.batch(), packing.sequence, starts.data(), packed);
    packing.ForEach([&](std::int64_t row, std::int64_t length) {
      Standard(h, row, 1, length, nullptr, apart);
    });
    ExpectEqual(packed, apart, /*to_the_bit=*/false, "window " + std::to_string(window));
    // Weights of keys before the document are exactly 0.
    for (std::size_t i = 0; i < packed.weights.size(); ++i) {
      const auto key = static_cast<std::int64_t>(i % 40),
                 query = static_cast<std::int64_t>(i / 40 % 40);
      const std::size_t sample = i / (4 * 40 * 40);
      const std::int32_t start = starts[sample * 40 + static_cast<std::size_t>(query)];
      if (key < start || key > query) {
        ASSERT_EQ(packed.weights[i], 0.0F) << i;
      }
    }
  }
}

// A sequence on two ranks: rank r has chunks r and 3 - r of four, and sees the other's keys in a
// second part.
class SplitRows {
 public:
  SplitRows(std::int64_t batch, std::int64_t sequence)
      : batch_(batch), sequence_(sequence), chunk_(sequence / 4) {}
  std::vector<FtRun> RunsOf(std::int64_t rank) const {
    return {{0, rank * chunk_, chunk_}, {chunk_, (3 - rank) * chunk_, chunk_}};
  }
  // Rows of a rank, of `width` numbers each.
  template <class Numbers>
  Numbers Take(std::int64_t rank, std::int64_t width, const Numbers& whole) const {
    Numbers own;
    ForEach(rank, width, [&](std::int64_t at) {
      own.insert(own.end(), whole.begin() + at, whole.begin() + at + width);
    });
    return own;
  }
  void Add(std::int64_t rank, std::int64_t width, const Floats& own, Floats& whole) const {
    auto from = own.begin();
    ForEach(rank, width, [&](std::int64_t at) {
      for (std::int64_t i = 0; i < width; ++i) whole[static_cast<std::size_t>(at + i)] += *from++;
    });
  }

 private:
  template <class Use>
  void ForEach(std::int64_t rank, std::int64_t width, const Use& use) const {
    for (std::int64_t sample = 0; sample < batch_; ++sample) {
      for (const FtRun& run : RunsOf(rank)) {
        for (std::int64_t i = 0; i < run.rows; ++i) {
          use((sample * sequence_ + run.position + i) * width);
        }
      }
    }
  }
  std::int64_t batch_, sequence_, chunk_;
};

// Sums of at most 160 products of numbers up to 1, in another order.
TEST_P(DocumentsTest, AttendInPartsAsInWholeSamples) {
  const Packing packing{
      .sequence = 160,
      .samples = {{1, 5, 64, 87, 3}, {160}, {40, 1, 39, 41, 39}, {20, 20, 20, 20, 20, 20, 20, 20}}};
  const Ids starts = packing.Starts();
  const SplitRows split(packing.batch(), packing.sequence);
  const Heads cases[] = {{}, {.window = 7}, {.heads = 2, .head_dim = 33}, {.alibi_heads = 4}};
  for (const Heads& h : cases) {
    const std::int64_t width = h.heads * h.head_dim, stride = h.Stride();
    Results whole = Empty(h, std::ssize(starts));
    Flash(h, 0, packing.batch(), packing.sequence, starts.data(), whole);
    Results parts{Floats(whole.out.size(), 0.0F), {}, Floats(whole.grads.size(), 0.0F), {}};
    for (const std::int64_t rank : {0, 1}) {
      const Floats rows = split.Take(rank, stride, rows_), dout = split.Take(rank, width, dout_);
      const Ids own_starts = split.Take(rank, 1, starts);
      const std::vector<FtRun> runs = split.RunsOf(rank);
      Floats out(dout.size(), NAN), grads(rows.size(), NAN);
      Floats lse(own_starts.size() * static_cast<std::size_t>(h.heads), NAN);
      const auto part = [&]<class Arguments>(Arguments& g, const Floats& keys,
                                             const std::vector<FtRun>& key_runs) {
        g.q = rows.data(), g.k = keys.data() + width;
        g.v = keys.data() + width + h.kv_heads * h.head_dim;
        g.lse = lse.data();
        g.query_runs = runs.data(), g.key_runs = key_runs.data();
        g.query_run_count = g.key_run_count = 2;
        g.batch = packing.batch(), g.sample_rows = packing.sequence / 2;
        g.q_stride = g.kv_stride = stride;
        g.heads = static_cast<std::int32_t>(h.heads);
        g.kv_heads = static_cast<std::int32_t>(h.kv_heads);
        g.head_dim = static_cast<std::int32_t>(h.head_dim);
        g.window = h.window, g.alibi_heads = h.alibi_heads;
        g.document_starts = own_starts.data();
      };
      for (const std::int64_t turn : {0, 1}) {
        FtAttentionPartForward g{};
        const Floats keys = split.Take((rank + turn) % 2, stride, rows_);
        const std::vector<FtRun> key_runs = split.RunsOf((rank + turn) % 2);
        part(g, keys, key_runs);
        g.out = out.data(), g.merge = turn == 1 ? 1 : 0;
        Run(api_.attention_part_forward, g);
      }
      split.Add(rank, width, out, parts.out);
      for (const std::int64_t turn : {0, 1}) {
        FtAttentionPartBackward g{};
        const Floats keys = split.Take((rank + turn) % 2, stride, rows_);
        const std::vector<FtRun> key_runs = split.RunsOf((rank + turn) % 2);
        part(g, keys, key_runs);
        g.out = out.data(), g.dout = dout.data(), g.dq = grads.data();
        Floats of_keys(keys.size(), 0.0F);
        g.dk = of_keys.data() + width, g.dv = of_keys.data() + width + h.kv_heads * h.head_dim;
        g.dkv_stride = stride, g.accumulate_dq = turn == 1 ? 1 : 0;
        Run(api_.attention_part_backward, g);
        split.Add((rank + turn) % 2, stride, of_keys, parts.grads);
      }
      for (std::size_t i = 0; i < grads.size(); ++i) {
        if (static_cast<std::int64_t>(i) % stride >= width) grads[i] = 0.0F;  // k and v
      }
      split.Add(rank, stride, grads, parts.grads);
    }
    ExpectEqual(parts, whole, /*to_the_bit=*/false,
                "head_dim " + std::to_string(h.head_dim) + ", window " + std::to_string(h.window));
  }
}

TEST_P(DocumentsTest, RotateFromTheirFirstTokens) {
  const Packing packing = Ragged();
  const Ids starts = packing.Starts();
  const std::int64_t width = 2 * 6;
  for (const int inverse : {0, 1}) {
    Floats packed = Random(std::ssize(starts) * width, 3);
    Floats apart = packed;
    FtRope rope{};
    rope.rows = std::ssize(starts), rope.sequence = packing.sequence;
    rope.row_stride = width, rope.heads = 2, rope.head_dim = 6;
    rope.theta = 10000.0F, rope.inverse = inverse;
    rope.data = packed.data(), rope.document_starts = starts.data();
    Run(api_.rope, rope);
    packing.ForEach([&](std::int64_t row, std::int64_t length) {
      FtRope one = rope;
      one.data = apart.data() + row * width;
      one.rows = one.sequence = length;
      one.document_starts = nullptr;
      Run(api_.rope, one);
    });
    EXPECT_EQ(Bits(packed), Bits(apart)) << inverse;
  }
}

// Position p of each document reads row p of the table, and its gradient adds to that row. With
// rows from `first_row` on, as under sequence parallelism, starts are still those of all rows.
TEST_P(DocumentsTest, ReadThePositionTableFromItsStart) {
  constexpr std::int64_t kCols = 5, kSequence = 6, kRows = 12;
  const Ids ids = {3, 1, 4, 1, 5, 2, 0, 2, 4, 3, 5, 1};
  const Ids starts = {0, 0, 2, 2, 2, 5, 0, 0, 0, 0, 4, 4};
  const std::int64_t positions[] = {0, 1, 0, 1, 2, 0, 0, 1, 2, 3, 0, 1};
  const Floats table = Random(6 * kCols, 1), places = Random(kSequence * kCols, 2);
  for (const std::int64_t first : {0, 4}) {
    Floats out(static_cast<std::size_t>((kRows - first) * kCols), NAN);
    FtEmbeddingForward g{};
    g.ids = ids.data() + first, g.table = table.data(), g.positions = places.data();
    g.out = out.data();
    g.rows = kRows - first, g.cols = kCols, g.vocab = 6, g.sequence = kSequence;
    g.first_row = first;
    g.document_starts = starts.data();
    Run(api_.embedding_forward, g);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto row = static_cast<std::size_t>(first) + i / kCols;
      const std::size_t id = static_cast<std::size_t>(ids[row]) * kCols;
      const std::size_t place = static_cast<std::size_t>(positions[row]) * kCols;
      EXPECT_EQ(out[i], table[id + i % kCols] + places[place + i % kCols]) << i;
    }
  }
  const Floats dy = Random(kRows * kCols, 3);
  Floats table_grad(table.size(), NAN), grad(places.size(), 0.5F);
  Tensor expected(places.size(), 0.5);
  for (std::size_t i = 0; i < dy.size(); ++i) {
    expected[static_cast<std::size_t>(positions[i / kCols]) * kCols + i % kCols] += dy[i];
  }
  FtEmbeddingBackward g{};
  g.ids = ids.data(), g.dy = dy.data(), g.table_grad = table_grad.data();
  g.positions_grad = grad.data();
  g.rows = kRows, g.cols = kCols, g.vocab = 6, g.sequence = kSequence;
  g.accumulate_positions = 1;
  g.document_starts = starts.data();
  Run(api_.embedding_backward, g);
  // At most 5 additions of numbers up to 1.
  ExpectClose(grad, expected, {5 * 5 * kUnit}, "positions");
}

// A rank that holds rows 2, 3 and 8, 9 of a sequence of 12 counts as the whole sequence does.
TEST_P(DocumentsTest, CountPositionsOfSplitSequencesFromTheirStart) {
  const std::vector<FtRun> runs = {{0, 2, 2}, {2, 8, 2}};
  const Ids starts = {0, 3, 3, 9, 1, 1, 8, 8};  // two samples
  const std::int64_t positions[] = {2, 0, 5, 0, 1, 2, 0, 1};
  constexpr std::int64_t kCols = 6;
  const auto set = [&](auto& g) {
    g.rows = 8, g.sequence = 4;
    g.runs = runs.data(), g.run_count = 2;
    g.document_starts = starts.data();
  };
  Floats turned = Random(8 * kCols, 1);
  const Floats before = turned;
  FtRope rope{};
  rope.data = turned.data(), rope.row_stride = kCols, rope.heads = 1, rope.head_dim = kCols;
  rope.theta = 10000.0F;
  set(rope);
  Run(api_.rope, rope);
  for (std::size_t row = 0; row < 8; ++row) {
    const auto position = static_cast<double>(positions[row]);
    for (std::size_t pair = 0; pair < 3; ++pair) {
      const std::size_t x = row * kCols + pair, y = x + 3;
      const double angle = position * std::pow(10000.0, -static_cast<double>(pair) / 3);
      EXPECT_NEAR(turned[x], before[x] * std::cos(angle) - before[y] * std::sin(angle), 1e-6) << x;
      EXPECT_NEAR(turned[y], before[y] * std::cos(angle) + before[x] * std::sin(angle), 1e-6) << x;
    }
  }
  const Ids ids(8, 0);
  const Floats table(kCols, 0.0F), places = Random(12 * kCols, 2), dy = Random(8 * kCols, 3);
  Floats out(8 * kCols, NAN), table_grad(kCols, NAN), grad(places.size(), 0.0F);
  FtEmbeddingForward forward{};
  forward.ids = ids.data(), forward.table = table.data(), forward.positions = places.data();
  forward.out = out.data(), forward.cols = kCols, forward.vocab = 1;
  set(forward);
  Run(api_.embedding_forward, forward);
  FtEmbeddingBackward backward{};
  backward.ids = ids.data(), backward.dy = dy.data(), backward.table_grad = table_grad.data();
  backward.positions_grad = grad.data(), backward.accumulate_positions = 1;
  backward.cols = kCols, backward.vocab = 1;
  set(backward);
  Run(api_.embedding_backward, backward);
  Tensor expected(grad.size(), 0.0);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t place = static_cast<std::size_t>(positions[i / kCols]) * kCols + i % kCols;
    EXPECT_EQ(out[i], places[place]) << i;
    expected[place] += dy[i];
  }
  ExpectClose(grad, expected, {5 * 5 * kUnit}, "positions");
}

FT_TEST_ALL_VARIANTS(DocumentsTest);

}  // namespace
}  // namespace foretrain::test
