// Attention of encoder-decoders: keys of another length than the queries, biases by distance with
// their gradient, and the tables that biases come from.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/numeric/relative_buckets.h"
#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

// Buckets of transformers 5.24 (T5Attention._relative_position_bucket).
TEST(RelativeBuckets, AreThoseOfTheLibrary) {
  const auto buckets = [](std::vector<std::int64_t> distances, std::int32_t count,
                          std::int32_t most, bool both) {
    std::vector<std::int32_t> out;
    for (const std::int64_t distance : distances) {
      out.push_back(RelativeBucket(distance, count, most, both));
    }
    return out;
  };
  const std::vector<std::int64_t> far = {-200, -91, -90, -16, -8, -7, 0, 1, 8, 12, 127, 128};
  EXPECT_EQ(buckets(far, 32, 128, true),
            (std::vector<std::int32_t>{15, 15, 14, 10, 8, 7, 0, 17, 24, 25, 31, 31}));
  EXPECT_EQ(buckets({-200, -113, -112, -16, -15, -1, 0, 1, 50}, 32, 128, false),
            (std::vector<std::int32_t>{31, 31, 30, 16, 15, 1, 0, 0, 0}));
}

class RelativeAttentionTest : public KernelTest {};

// Two heads, four buckets, 2 queries and 3 keys: distances -1 to 2. Both ways, the buckets are 1
// (one back), 0, then 3 for one and more ahead.
TEST_P(RelativeAttentionTest, BiasesSpreadTheTableAndItsGradientSumsThem) {
  const Floats table = {1, 10, 2, 20, 3, 30, 4, 40};  // [4, 2]
  Floats bias(8, -1.0F);
  Run(api_.relative_bias, FtRelativeBias{table.data(), bias.data(), 2, 3, 2, 4, 8, 1, FT_F32});
  EXPECT_EQ(bias, (Floats{2, 1, 4, 4, 20, 10, 40, 40}));
  const Floats bias_grad = {1, 2, 3, 4, 10, 20, 30, 40}, dy = {0, 0, 5, 0, 0, 7, 0, 0};
  Floats dx(8, -1.0F);
  FtRelativeBiasBackward back{bias_grad.data(), dy.data(), dx.data(), 2, 3, 2, 4, 8, 1, FT_F32};
  Run(api_.relative_bias_backward, back);
  EXPECT_EQ(dx, (Floats{2, 20, 6, 10, 0, 7, 7, 70}));
  // One way, keys ahead share the bucket of distance 0.
  back.bidirectional = 0;
  Run(api_.relative_bias_backward, back);
  EXPECT_EQ(dx, (Floats{9, 90, 6, 10, 0, 7, 0, 0}));
}

struct Shape {
  std::int64_t batch = 2, heads = 2, queries = 0, keys = 0, head_dim = 0;
  bool causal = false, biased = true;

  std::int64_t distances() const { return queries + keys - 1; }
  std::int64_t width() const { return heads * head_dim; }
};

struct Inputs {
  explicit Inputs(const Shape& s)
      : q(Random(s.batch * s.queries * s.width(), 1)),
        k(Random(s.batch * s.keys * s.width(), 2)),
        v(Random(s.batch * s.keys * s.width(), 3)),
        bias(Random(s.heads * s.distances(), 4)),
        dout(Random(s.batch * s.queries * s.width(), 5)) {}
  Floats q, k, v, bias, dout;
};

struct Reference {
  Tensor out, lse, dq, dk, dv, d_bias;
};

// Written down from the definition, in double; scores are not scaled.
Reference Expected(const Shape& s, const Inputs& in) {
  const auto n = [](std::int64_t size) { return static_cast<std::size_t>(size); };
  Reference r{Tensor(in.q.size()), Tensor(n(s.batch * s.queries * s.heads)),
              Tensor(in.q.size()), Tensor(in.k.size()),
              Tensor(in.k.size()), Tensor(in.bias.size())};
  for (std::int64_t item = 0; item < s.batch * s.heads * s.queries; ++item) {
    const std::int64_t i = item % s.queries, head = item / s.queries % s.heads;
    const std::int64_t sample = item / s.queries / s.heads;
    const std::int64_t seen = s.causal ? std::min(i + 1, s.keys) : s.keys;
    const auto query = n((sample * s.queries + i) * s.width() + head * s.head_dim);
    const auto key = [&](std::int64_t j) {
      return n((sample * s.keys + j) * s.width() + head * s.head_dim);
    };
    const auto distance = [&](std::int64_t j) {
      return n(head * s.distances() + s.queries - 1 + j - i);
    };
    Tensor p(n(seen));
    double sum = 0;
    for (std::int64_t j = 0; j < seen; ++j) {
      double score = s.biased ? in.bias[distance(j)] : 0.0;
      for (std::size_t c = 0; c < n(s.head_dim); ++c) {
        score += static_cast<double>(in.q[query + c]) * in.k[key(j) + c];
      }
      sum += p[n(j)] = std::exp(score);
    }
    r.lse[n((sample * s.queries + i) * s.heads + head)] = std::log(sum);
    double delta = 0;
    for (std::int64_t j = 0; j < seen; ++j) {
      p[n(j)] /= sum;
      for (std::size_t c = 0; c < n(s.head_dim); ++c) {
        r.out[query + c] += p[n(j)] * in.v[key(j) + c];
        r.dv[key(j) + c] += p[n(j)] * in.dout[query + c];
        delta += p[n(j)] * in.v[key(j) + c] * in.dout[query + c];
      }
    }
    for (std::int64_t j = 0; j < seen; ++j) {
      double dp = 0;
      for (std::size_t c = 0; c < n(s.head_dim); ++c) {
        dp += static_cast<double>(in.dout[query + c]) * in.v[key(j) + c];
      }
      const double ds = p[n(j)] * (dp - delta);
      if (s.biased) r.d_bias[distance(j)] += ds;
      for (std::size_t c = 0; c < n(s.head_dim); ++c) {
        r.dq[query + c] += ds * in.k[key(j) + c];
        r.dk[key(j) + c] += ds * in.q[query + c];
      }
    }
  }
  return r;
}

// The same by the kernels. Queries that see all keys stand after them.
Reference Found(const FtDeviceApi& api, FtQueue* queue, const Shape& s, const Inputs& in) {
  const std::int64_t shift = s.causal ? 0 : s.keys;
  const FtRun queries{0, shift, s.queries}, keys{0, 0, s.keys};
  Floats out(in.q.size()), lse(static_cast<std::size_t>(s.batch * s.queries * s.heads));
  Floats dq(in.q.size()), dk(in.k.size()), dv(in.k.size()), d_bias(in.bias.size(), 7.0F);
  const auto set = [&](auto& g) {
    g.q = in.q.data(), g.k = in.k.data(), g.v = in.v.data();
    g.query_runs = &queries, g.key_runs = &keys, g.query_run_count = g.key_run_count = 1;
    g.batch = s.batch, g.sample_rows = s.queries, g.key_sample_rows = s.keys;
    g.q_stride = g.kv_stride = s.width();
    g.heads = g.kv_heads = static_cast<std::int32_t>(s.heads);
    g.head_dim = static_cast<std::int32_t>(s.head_dim);
    g.scale = 1;
    if (!s.biased) return;
    g.bias = in.bias.data();
    g.bias_stride = s.distances();
    g.bias_zero = s.queries - 1 + shift;
  };
  FtAttentionPartForward f{};
  set(f);
  f.out = out.data(), f.lse = lse.data();
  EXPECT_EQ(api.attention_part_forward(queue, &f), FT_OK) << api.queue_error(queue);
  FtAttentionPartBackward b{};
  set(b);
  b.out = out.data(), b.lse = lse.data(), b.dout = in.dout.data();
  b.dq = dq.data(), b.dk = dk.data(), b.dv = dv.data(), b.dkv_stride = s.width();
  if (s.biased) b.bias_grad = d_bias.data();
  EXPECT_EQ(api.attention_part_backward(queue, &b), FT_OK) << api.queue_error(queue);
  if (!s.biased) std::fill(d_bias.begin(), d_bias.end(), 0.0F);
  return {ToDouble(out), ToDouble(lse), ToDouble(dq), ToDouble(dk), ToDouble(dv), ToDouble(d_bias)};
}

void ExpectNear(const Tensor& found, const Tensor& expected, double tolerance, const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], tolerance) << what << " " << i;
  }
}

// Scores are at most head_dim + 1 in magnitude with inputs below 1, so an error of n roundings in a
// score scales a probability by at most (head_dim + 1) n units. Sums over keys add probabilities,
// which add up to 1; sums over queries are as many times larger, as are biases' over samples and
// queries. Lengths lie around the blocks of 128 queries and 96 keys.
TEST_P(RelativeAttentionTest, EqualsTheDefinitionWithKeysOfAnotherLength) {
  const std::vector<Shape> shapes = {
      {.queries = 5, .keys = 9, .head_dim = 4},
      {.queries = 33, .keys = 33, .head_dim = 8, .causal = true},
      {.queries = 131, .keys = 101, .head_dim = 16},
      {.queries = 130, .keys = 130, .head_dim = 8, .causal = true},
      {.queries = 7, .keys = 197, .head_dim = 24, .biased = false},
  };
  for (const Shape& s : shapes) {
    SCOPED_TRACE(std::to_string(s.queries) + " queries, " + std::to_string(s.keys) + " keys");
    const Inputs in(s);
    const Reference expected = Expected(s, in), found = Found(api_, queue_.get(), s, in);
    const double score = static_cast<double>(s.head_dim) + 1;
    const double relative = score * (Roundings(s.head_dim + 4) + 8 * kUnit) + Roundings(s.keys + 8);
    const double of_ds = 4 * static_cast<double>(s.head_dim) * relative;
    ExpectNear(found.out, expected.out, relative, "out");
    ExpectNear(found.lse, expected.lse, relative, "lse");
    ExpectNear(found.dq, expected.dq, of_ds, "dq");
    ExpectNear(found.dk, expected.dk, of_ds * static_cast<double>(s.queries), "dk");
    ExpectNear(found.dv, expected.dv, relative * static_cast<double>(s.queries), "dv");
    ExpectNear(found.d_bias, expected.d_bias, of_ds * static_cast<double>(s.batch * s.queries),
               "d_bias");
  }
}

TEST_P(RelativeAttentionTest, RefusesBiasesThatLackADistance) {
  const FtRun queries{0, 0, 4}, keys{0, 0, 4};
  Floats rows(16), lse(4), bias(6);
  FtAttentionPartForward g{};
  g.q = g.k = g.v = rows.data(), g.out = rows.data(), g.lse = lse.data();
  g.query_runs = &queries, g.key_runs = &keys, g.query_run_count = g.key_run_count = 1;
  g.batch = 1, g.sample_rows = 4, g.q_stride = g.kv_stride = 4;
  g.heads = g.kv_heads = 1, g.head_dim = 4;
  g.bias = bias.data(), g.bias_stride = 6, g.bias_zero = 3;
  EXPECT_EQ(api_.attention_part_forward(queue_.get(), &g), FT_FAILED);
  EXPECT_NE(std::string(api_.queue_error(queue_.get())).find("elements 0 to 6 of 6"),
            std::string::npos)
      << api_.queue_error(queue_.get());
}

FT_TEST_CPU_VARIANTS(RelativeAttentionTest);

}  // namespace
}  // namespace foretrain::test
