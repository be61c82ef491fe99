// Checks attention of 16-bit tensors with aligned rows against the reference, forward and backward,
// for any kernel.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cpu/wide_copies.h"
#include "tests/kernels/attention/attention_bounds.h"
#include "tests/kernels/support.h"

namespace foretrain::test {

using Codes = std::vector<std::uint16_t>;
using reference::AttentionShape;

// A format of 8 or 11 significant bits: half a unit in the last place, and half the smallest
// number.
struct ShortFormat {
  FtDtype dtype;
  Rounding rounding;
};
inline constexpr ShortFormat kBf16{FT_BF16, {0x1p-8, 0x1p-134}};
inline constexpr ShortFormat kFp16{FT_F16, {0x1p-11, 0x1p-25}};

inline Codes Shortened(FtDtype dtype, const Floats& x) {
  Codes codes(x.size());
  Narrow(dtype, x.data(), codes.data(), static_cast<std::int64_t>(x.size()));
  return codes;
}
inline Floats Longer(FtDtype dtype, const Codes& codes) {
  Floats x(codes.size());
  Widen(dtype, codes.data(), x.data(), static_cast<std::int64_t>(codes.size()));
  return x;
}

// The bound of each element after it is rounded to the format.
inline Tensor Stored(const Tensor& bounds, const Tensor& expected, const Rounding& rounding) {
  Tensor stored = bounds;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    stored[i] += rounding.unit * (std::abs(expected[i]) + bounds[i]) + rounding.floor;
  }
  return stored;
}

// Random inputs rounded to the format, so that the reference sees what the codes hold.
struct ShortInputs {
  ShortInputs(const AttentionShape& s, FtDtype dtype)
      : q(Rounded(dtype, Random(s.batch * s.sequence * s.heads * s.head_dim, 1, 2.0F))),
        k(Rounded(dtype, Random(s.batch * s.sequence * s.kv_heads * s.head_dim, 2, 2.0F))),
        v(Rounded(dtype, Random(s.batch * s.sequence * s.kv_heads * s.ValueDim(), 3))),
        dout(Rounded(dtype, Random(s.batch * s.sequence * s.heads * s.ValueDim(), 4))) {}
  static Tensor Rounded(FtDtype dtype, const Floats& x) {
    return ToDouble(Longer(dtype, Shortened(dtype, x)));
  }
  Tensor q, k, v, dout;
};

inline Codes CodesOf(FtDtype dtype, const Tensor& x) {
  return Shortened(dtype, Floats(x.begin(), x.end()));
}

// Rows [q | k | v | gap]. The gap holds NaN; its 8 numbers keep rows aligned.
struct ShortPacked {
  static constexpr std::int64_t kGap = 8;

  ShortPacked(const AttentionShape& s, FtDtype dtype)
      : rows(s.batch * s.sequence),
        widths{s.heads * s.head_dim, s.kv_heads * s.head_dim, s.kv_heads * s.ValueDim()},
        stride(widths[0] + widths[1] + widths[2] + kGap),
        nan(Shortened(dtype, {std::numeric_limits<float>::quiet_NaN()})[0]),
        data(static_cast<std::size_t>(rows * stride), nan) {}

  std::uint16_t* At(int part) {
    return data.data() + (part > 0 ? widths[0] : 0) + (part > 1 ? widths[1] : 0);
  }
  void Put(int part, const Codes& x) {
    for (std::int64_t i = 0; i < rows * widths[part]; ++i) {
      At(part)[i / widths[part] * stride + i % widths[part]] = x[static_cast<std::size_t>(i)];
    }
  }
  Codes Get(int part) {
    Codes x;
    for (std::int64_t i = 0; i < rows * widths[part]; ++i) {
      x.push_back(At(part)[i / widths[part] * stride + i % widths[part]]);
    }
    return x;
  }
  void ExpectGapIsNan() const {
    for (std::size_t i = 0; i < data.size(); ++i) {
      if (static_cast<std::int64_t>(i) % stride < stride - kGap) continue;
      ASSERT_EQ(data[i], nan) << "a number was written beside the slices";
    }
  }

  std::int64_t rows, widths[3], stride;
  std::uint16_t nan;
  Codes data;
};

class ShortAttentionTest : public KernelTest {
 protected:
  // Called before an entry, once its tensors are set.
  virtual void Choose(const FtAttentionForward& /*g*/) {}
  virtual void Choose(const FtAttentionBackward& /*g*/) {}

  template <class Arguments>
  Arguments Sized(const AttentionShape& s, const ShortFormat& format, std::int64_t stride) {
    Arguments g{};
    g.batch = s.batch, g.sequence = s.sequence, g.row_stride = stride, g.window = s.window;
    g.heads = static_cast<std::int32_t>(s.heads);
    g.kv_heads = static_cast<std::int32_t>(s.kv_heads);
    g.head_dim = static_cast<std::int32_t>(s.head_dim);
    g.value_dim = static_cast<std::int32_t>(s.value_dim);
    g.dtype = format.dtype;
    return g;
  }

  void Check(const AttentionShape& s, const ShortFormat& format) {
    SCOPED_TRACE("sequence " + std::to_string(s.sequence) + " heads " + std::to_string(s.heads) +
                 "/" + std::to_string(s.kv_heads) + " head_dim " + std::to_string(s.head_dim) +
                 "/" + std::to_string(s.ValueDim()) + " window " + std::to_string(s.window));
    const ShortInputs in(s, format.dtype);
    const auto bounds = BoundAttention(s, in.q, in.k, in.v, in.dout, format.rounding);
    ShortPacked packed(s, format.dtype);
    packed.Put(0, CodesOf(format.dtype, in.q));
    packed.Put(1, CodesOf(format.dtype, in.k));
    packed.Put(2, CodesOf(format.dtype, in.v));
    const auto forward = reference::AttentionForward(s, in.q, in.k, in.v);
    CheckForward(s, format, packed, forward, bounds);
    CheckBackward(s, format, packed, in, forward, bounds);
  }

  void CheckForward(const AttentionShape& s, const ShortFormat& format, ShortPacked& packed,
                    const reference::AttentionOutputs& expected, const AttentionBounds& bounds) {
    Codes out(expected.out.size(), packed.nan);
    Floats lse(expected.lse.size(), std::numeric_limits<float>::quiet_NaN());
    auto g = Sized<FtAttentionForward>(s, format, packed.stride);
    g.q = packed.At(0), g.k = packed.At(1), g.v = packed.At(2);
    g.out = out.data(), g.lse = lse.data();
    Choose(g);
    Run(api_.attention_forward, g);
    ExpectClose(Longer(format.dtype, out), expected.out,
                Stored(bounds.out, expected.out, format.rounding), "out");
    ExpectClose(lse, expected.lse, bounds.lse, "lse");
  }

  void CheckBackward(const AttentionShape& s, const ShortFormat& format, ShortPacked& packed,
                     const ShortInputs& in, const reference::AttentionOutputs& forward,
                     const AttentionBounds& bounds) {
    const Codes out = CodesOf(format.dtype, forward.out), dout = CodesOf(format.dtype, in.dout);
    const Floats lse(forward.lse.begin(), forward.lse.end());
    const auto expected = reference::AttentionBackward(
        s, in.q, in.k, in.v, ToDouble(Longer(format.dtype, out)), ToDouble(lse), in.dout);
    ShortPacked grads(s, format.dtype);
    auto g = Sized<FtAttentionBackward>(s, format, packed.stride);
    g.q = packed.At(0), g.k = packed.At(1), g.v = packed.At(2);
    g.out = out.data(), g.lse = lse.data(), g.dout = dout.data();
    g.dq = grads.At(0), g.dk = grads.At(1), g.dv = grads.At(2);
    Choose(g);
    Run(api_.attention_backward, g);
    grads.ExpectGapIsNan();
    const auto close = [&](int part, const Tensor& to, const Tensor& bound, const char* what) {
      ExpectClose(Longer(format.dtype, grads.Get(part)), to, Stored(bound, to, format.rounding),
                  what);
    };
    close(0, expected.q, bounds.q, "dq");
    close(1, expected.k, bounds.k, "dk");
    close(2, expected.v, bounds.v, "dv");
  }
};

}  // namespace foretrain::test
