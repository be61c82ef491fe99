// Tests the gradients of the attention reference by finite differences.
#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

using reference::AttentionShape;

class AttentionReference : public testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(Windows, AttentionReference, testing::Values(0, 1, 3));

TEST_P(AttentionReference, BackwardIsTheDifferenceGradient) {
  const AttentionShape s{
      .batch = 2, .sequence = 5, .heads = 4, .kv_heads = 2, .head_dim = 3, .window = GetParam()};
  const std::int64_t queries = s.batch * s.sequence * s.heads * s.head_dim;
  const std::int64_t keys = s.batch * s.sequence * s.kv_heads * s.head_dim;
  const Tensor q = ToDouble(Random(queries, 1)), k = ToDouble(Random(keys, 2));
  const Tensor v = ToDouble(Random(keys, 3)), dout = ToDouble(Random(queries, 4));
  const reference::AttentionOutputs forward = reference::AttentionForward(s, q, k, v);
  const reference::AttentionGrads grads =
      reference::AttentionBackward(s, q, k, v, forward.out, forward.lse, dout);
  ExpectGradient(
      grads.q, q,
      [&](const Tensor& x) { return Dot(reference::AttentionForward(s, x, k, v).out, dout); }, "q");
  ExpectGradient(
      grads.k, k,
      [&](const Tensor& x) { return Dot(reference::AttentionForward(s, q, x, v).out, dout); }, "k");
  ExpectGradient(
      grads.v, v,
      [&](const Tensor& x) { return Dot(reference::AttentionForward(s, q, k, x).out, dout); }, "v");
}

}  // namespace
}  // namespace foretrain::test
