// Tests the reference of attention in parts by difference quotients.
#include <gtest/gtest.h>

#include "tests/kernels/reference/attention_part.h"
#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

using reference::AttentionPartShape;

// No window; a window in which every query has keys in each part; and one in which query 8 sees
// keys of neither part.
class AttentionPartReference : public testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(Windows, AttentionPartReference, testing::Values(0, 5, 3));

TEST_P(AttentionPartReference, BackwardIsTheDifferenceGradient) {
  // Queries 1, 2 and 7, 8 over keys 0, 1, 4, 5. Another part holds keys 2, 3.
  const AttentionPartShape here{2, 4, 2, 3, {1, 2, 7, 8}, {0, 1, 4, 5}, GetParam()};
  const AttentionPartShape there{2, 4, 2, 3, {1, 2, 7, 8}, {2, 3}, GetParam()};
  const auto random = [](std::int64_t n, std::uint32_t seed) { return ToDouble(Random(n, seed)); };
  const Tensor q = random(2 * 4 * 4 * 3, 1), dout = random(2 * 4 * 4 * 3, 4);
  const Tensor k = random(2 * 4 * 2 * 3, 2), v = random(2 * 4 * 2 * 3, 3);
  const Tensor k2 = random(2 * 2 * 2 * 3, 5), v2 = random(2 * 2 * 2 * 3, 6);
  const auto loss = [&](const Tensor& x, const Tensor& y, const Tensor& z) {
    const auto merged = reference::MergeParts(here, reference::AttentionPartForward(here, x, y, z),
                                              reference::AttentionPartForward(there, x, k2, v2));
    return Dot(merged.out, dout);
  };
  const auto whole = reference::MergeParts(here, reference::AttentionPartForward(here, q, k, v),
                                           reference::AttentionPartForward(there, q, k2, v2));
  const auto grads = reference::AttentionPartBackward(here, q, k, v, whole.out, whole.lse, dout);
  const auto others =
      reference::AttentionPartBackward(there, q, k2, v2, whole.out, whole.lse, dout);
  Tensor dq = grads.q;
  for (std::size_t i = 0; i < dq.size(); ++i) dq[i] += others.q[i];
  ExpectGradient(
      dq, q, [&](const Tensor& x) { return loss(x, k, v); }, "q");
  ExpectGradient(
      grads.k, k, [&](const Tensor& x) { return loss(q, x, v); }, "k");
  ExpectGradient(
      grads.v, v, [&](const Tensor& x) { return loss(q, k, x); }, "v");
}

}  // namespace
}  // namespace foretrain::test
