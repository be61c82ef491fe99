// Entries on rows of 16-bit numbers give the fp32 result of the same entry, rounded once. Rows are
// wide enough that several warps share one.
#include <cstdint>
#include <vector>

#include "base/numeric/number_formats.h"
#include "kernels/cpu/wide_copies.h"
#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

using Codes = std::vector<std::uint16_t>;
using Ids = std::vector<std::int32_t>;

constexpr std::int64_t kRows = 6, kCols = 520, kAll = kRows * kCols;

// A tensor in a 16-bit format and the same numbers in fp32.
class Both {
 public:
  Both(FtDtype dtype, std::int64_t elements, std::uint32_t seed)
      : codes_(static_cast<std::size_t>(elements)), wide_(Random(elements, seed)) {
    Narrow(dtype, wide_.data(), codes_.data(), elements);
    Widen(dtype, codes_.data(), wide_.data(), elements);
  }
  void* in(FtDtype dtype) {
    return dtype == FT_F32 ? static_cast<void*>(wide_.data()) : codes_.data();
  }
  // Expects that the codes are the fp32 numbers rounded.
  void ExpectRounded(FtDtype dtype, const char* what) {
    Codes expected(codes_.size());
    Narrow(dtype, wide_.data(), expected.data(), static_cast<std::int64_t>(wide_.size()));
    EXPECT_EQ(codes_, expected) << what;
  }

 private:
  Codes codes_;
  Floats wide_;
};

class ShortRowsTest : public KernelTest {
 protected:
  template <class Body>
  static void InEachFormat(const Body& body) {
    for (const FtDtype dtype : {FT_BF16, FT_F16}) {
      SCOPED_TRACE(dtype == FT_BF16 ? "bf16" : "fp16");
      body(dtype);
    }
  }
};

TEST_P(ShortRowsTest, ActivationsAndSums) {
  InEachFormat([&](FtDtype dtype) {
    Both x(dtype, kAll, 1), dy(dtype, kAll, 2), bias(dtype, kCols, 3), y(dtype, kAll, 4),
        dx(dtype, kAll, 5), sum(dtype, kAll, 6);
    for (const FtDtype of : {FT_F32, dtype}) {
      Run(api_.gelu_forward, FtGelu{x.in(of), nullptr, y.in(of), kAll, of, FT_GELU_TANH});
      Run(api_.gelu_backward, FtGelu{x.in(of), dy.in(of), dx.in(of), kAll, of, FT_GELU_TANH});
      Run(api_.add, FtAdd{x.in(of), dy.in(of), bias.in(of), sum.in(of), kRows, kCols, of, of});
    }
    y.ExpectRounded(dtype, "gelu");
    dx.ExpectRounded(dtype, "gelu backward");
    sum.ExpectRounded(dtype, "add");
  });
}

TEST_P(ShortRowsTest, Swiglu) {
  InEachFormat([&](FtDtype dtype) {
    Both x(dtype, 2 * kAll, 1), dy(dtype, kAll, 2), y(dtype, kAll, 3), dx(dtype, 2 * kAll, 4);
    for (const FtDtype of : {FT_F32, dtype}) {
      Run(api_.swiglu_forward,
          FtSwiglu{x.in(of), nullptr, y.in(of), kRows, kCols, of, FT_GATE_SILU});
      Run(api_.swiglu_backward,
          FtSwiglu{x.in(of), dy.in(of), dx.in(of), kRows, kCols, of, FT_GATE_SILU});
    }
    y.ExpectRounded(dtype, "forward");
    dx.ExpectRounded(dtype, "backward");
  });
}

TEST_P(ShortRowsTest, Gates) {
  InEachFormat([&](FtDtype dtype) {
    const Floats scores = Random(kRows, 1);
    Floats d_wide(kRows), d_short(kRows);
    Both x(dtype, kAll, 2), dy(dtype, kAll, 3), y(dtype, kAll, 4), dx(dtype, kAll, 5);
    for (const FtDtype of : {FT_F32, dtype}) {
      Run(api_.gate_forward, FtGateForward{x.in(of), scores.data(), y.in(of), kRows, kCols, 0, of});
      Run(api_.gate_backward,
          FtGateBackward{dy.in(of), x.in(of), scores.data(), dx.in(of),
                         (of == FT_F32 ? d_wide : d_short).data(), kRows, kCols, of});
    }
    y.ExpectRounded(dtype, "forward");
    dx.ExpectRounded(dtype, "backward");
    EXPECT_EQ(Bits(d_short), Bits(d_wide));
  });
}

// Six rows of experts, of which the fourth is empty, from three tokens with two experts each.
TEST_P(ShortRowsTest, RowsOfExperts) {
  const Ids sources = {4, 0, 2, -1, 1, 5}, places = {1, 4, 2, -1, 0, 5};
  const Floats weights = {0.5F, 0.25F, 1, 0.75F, 0.125F, 2};
  constexpr std::int64_t tokens = 3, per_token = 2;
  InEachFormat([&](FtDtype dtype) {
    Both x(dtype, tokens * kCols, 1), of_experts(dtype, kAll, 2), gathered(dtype, kAll, 3),
        combined(dtype, tokens * kCols, 4);
    Floats d_wide(tokens * per_token), d_short(tokens * per_token);
    for (const FtDtype of : {FT_F32, dtype}) {
      Run(api_.expert_gather, FtExpertGather{x.in(of), sources.data(), weights.data(),
                                             gathered.in(of), tokens, kRows, kCols, per_token, of});
      Run(api_.expert_combine,
          FtExpertCombine{of_experts.in(of), places.data(), weights.data(), combined.in(of), tokens,
                          kRows, kCols, per_token, of});
      Run(api_.expert_dots, FtExpertDots{x.in(of), of_experts.in(of), places.data(),
                                         (of == FT_F32 ? d_wide : d_short).data(), tokens, kRows,
                                         kCols, per_token, of});
    }
    gathered.ExpectRounded(dtype, "gather");
    combined.ExpectRounded(dtype, "combine");
    EXPECT_EQ(Bits(d_short), Bits(d_wide));
  });
}

TEST_P(ShortRowsTest, Embeddings) {
  const Ids ids = {3, 0, 3, 9, 1, 7};
  const Ids starts = {0, 1, 1, 0, 0, 2};
  constexpr std::int64_t vocab = 10, sequence = 3;
  const auto expect_rounded = [&](FtDtype dtype, const std::int32_t* document_starts) {
    Both table(dtype, vocab * kCols, 1), positions(dtype, sequence * kCols, 2), y(dtype, kAll, 3),
        dy(dtype, kAll, 4), table_grad(dtype, vocab * kCols, 5),
        positions_grad(dtype, sequence * kCols, 6);
    for (const FtDtype of : {FT_F32, dtype}) {
      FtEmbeddingForward forward{};
      forward.ids = ids.data(), forward.table = table.in(of);
      forward.positions = positions.in(of), forward.out = y.in(of);
      forward.rows = kRows, forward.cols = kCols, forward.vocab = vocab;
      forward.sequence = sequence, forward.all_ids = vocab, forward.scale = 1.0F;
      forward.dtype = forward.table_dtype = of;
      forward.document_starts = document_starts;
      Run(api_.embedding_forward, forward);
      FtEmbeddingBackward backward{};
      backward.ids = ids.data(), backward.dy = dy.in(of);
      backward.table_grad = table_grad.in(of), backward.positions_grad = positions_grad.in(of);
      backward.rows = kRows, backward.cols = kCols, backward.vocab = vocab;
      backward.sequence = sequence, backward.all_ids = vocab, backward.scale = 1.0F;
      backward.dtype = backward.grad_dtype = of;
      backward.document_starts = document_starts;
      backward.accumulate_positions = document_starts != nullptr;
      Run(api_.embedding_backward, backward);
    }
    y.ExpectRounded(dtype, "forward");
    table_grad.ExpectRounded(dtype, "gradient of the table");
    positions_grad.ExpectRounded(dtype, "gradient of the positions");
  };
  InEachFormat([&](FtDtype dtype) {
    expect_rounded(dtype, nullptr);
    expect_rounded(dtype, starts.data());
  });
}

TEST_P(ShortRowsTest, NormsBackwardAndGradientsOfColumns) {
  InEachFormat([&](FtDtype dtype) {
    const Floats mean = Random(kRows, 1), rstd = Random(kRows, 2);
    Both dy(dtype, kAll, 3), x(dtype, kAll, 4), weight(dtype, kCols, 5), dx(dtype, kAll, 6),
        weight_grad(dtype, kCols, 7), bias_grad(dtype, kCols, 8), sums(dtype, kCols, 9);
    for (const FtDtype of : {FT_F32, dtype}) {
      Run(api_.norm_backward_input,
          FtNormBackwardInput{dy.in(of), x.in(of), weight.in(of), mean.data(), rstd.data(), nullptr,
                              dx.in(of), kRows, kCols, 0, of, of});
      Run(api_.norm_backward_weight,
          FtNormBackwardWeight{dy.in(of), x.in(of), mean.data(), rstd.data(), weight_grad.in(of),
                               bias_grad.in(of), kRows, kCols, 0, 0, of, of});
      Run(api_.bias_grad, FtBiasGrad{dy.in(of), sums.in(of), kRows, kCols, 0, of, of});
    }
    dx.ExpectRounded(dtype, "dx");
    weight_grad.ExpectRounded(dtype, "gradient of the weight");
    bias_grad.ExpectRounded(dtype, "gradient of the norm's bias");
    sums.ExpectRounded(dtype, "gradient of the bias");
  });
}

TEST_P(ShortRowsTest, SharesOfTheVocabulary) {
  const Ids targets = {0, 519, 7, -1, 260, 3};
  InEachFormat([&](FtDtype dtype) {
    Both logits(dtype, kAll, 1);
    Floats max[2], sum[2], picked[2];
    for (const int i : {0, 1}) {
      const FtDtype of = i == 0 ? FT_F32 : dtype;
      max[i].resize(kRows), sum[i].resize(kRows), picked[i].resize(kRows);
      Run(api_.vocab_max, FtVocabMax{logits.in(of), max[i].data(), kRows, kCols, 0, kCols, of});
      Run(api_.vocab_sums, FtVocabSums{logits.in(of), targets.data(), max[i].data(), sum[i].data(),
                                       picked[i].data(), kRows, kCols, 0, kCols, of});
    }
    EXPECT_EQ(Bits(max[1]), Bits(max[0]));
    EXPECT_EQ(Bits(sum[1]), Bits(sum[0]));
    EXPECT_EQ(Bits(picked[1]), Bits(picked[0]));
  });
}

TEST_P(ShortRowsTest, SumsOfRanksAndCopiesOfColumns) {
  InEachFormat([&](FtDtype dtype) {
    Both a(dtype, kAll, 1), b(dtype, kAll, 2), sum(dtype, kAll, 3), copy(dtype, kAll, 4);
    for (const FtDtype of : {FT_F32, dtype}) {
      const void* const sources[] = {a.in(of), b.in(of)};
      Run(api_.sum_ranks, FtSumRanks{sources, sum.in(of), kAll, 2, 0, of});
      Run(api_.copy_rows, FtCopyRows{a.in(of), copy.in(of), kRows, 3, kCols, kCols, of});
      Run(api_.copy_rows, FtCopyRows{b.in(of), copy.in(of), kRows, 256, kCols, kCols, of});
    }
    sum.ExpectRounded(dtype, "sum");
    copy.ExpectRounded(dtype, "copy");
  });
}

FT_TEST_ALL_VARIANTS(ShortRowsTest);

}  // namespace
}  // namespace foretrain::test
