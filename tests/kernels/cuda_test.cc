// Tests refusals of the CUDA device's entries and errors of its threads. What kernels compute is
// tested together with the CPU, as variants of the same tests.
#include <gmock/gmock.h>

#include <string>

#include "tests/kernels/support.h"

#if FORETRAIN_HAVE_CUDA_SHIM
#include "tests/plugins/shim/host_shim.h"
#undef __restrict__
#endif

namespace foretrain::test {
namespace {

class CudaEntryTest : public KernelTest {
 protected:
  std::string ErrorOf(FtStatus expected, FtStatus actual) {
    EXPECT_EQ(actual, expected);
    return api_.queue_error(queue_.get());
  }
};

TEST_P(CudaEntryTest, RefusesOtherTypesBadSizesAndNullByName) {
  Floats x(64, 1.0F);
  FtGelu gelu{x.data(), nullptr, x.data(), 64, FT_F64, FT_GELU_TANH};
  EXPECT_EQ(ErrorOf(FT_UNSUPPORTED, api_.gelu_forward(queue_.get(), &gelu)),
            "cuda gelu_forward: dtype 4: only f32 (0), bf16 (1) and f16 (2)");
  gelu.dtype = FT_F32;
  gelu.elements = -1;
  EXPECT_EQ(ErrorOf(FT_FAILED, api_.gelu_forward(queue_.get(), &gelu)),
            "cuda gelu_forward: elements is -1: a size cannot be negative");
  FtBiasGrad grad{nullptr, x.data(), 4, 4, 0, FT_F32, FT_F32};
  EXPECT_EQ(ErrorOf(FT_FAILED, api_.bias_grad(queue_.get(), &grad)), "cuda bias_grad: dy is null");
  FtAttentionForward attention{};
  attention.heads = 1;
  attention.kv_heads = 1;
  attention.head_dim = 257;
  EXPECT_EQ(ErrorOf(FT_UNSUPPORTED, api_.attention_forward(queue_.get(), &attention)),
            "cuda attention_forward: head_dim 257: this device takes up to 256");
  EXPECT_EQ(x, Floats(64, 1.0F));
}

// Encoder-decoders run on CPUs alone: a program that has them is refused before it starts.
TEST_P(CudaEntryTest, RefusesAttentionOfEncoderDecodersByName) {
  EXPECT_EQ(api_.supports(FT_KERNEL_RELATIVE_BIAS, FT_F32), 0);
  EXPECT_EQ(api_.supports(FT_KERNEL_RELATIVE_BIAS_BACKWARD, FT_F32), 0);
  const FtRun run{0, 0, 2};
  Floats x(16), lse(2), bias(3);
  FtAttentionPartForward part{};
  part.q = part.k = part.v = x.data(), part.out = x.data(), part.lse = lse.data();
  part.query_runs = part.key_runs = &run, part.query_run_count = part.key_run_count = 1;
  part.batch = 1, part.sample_rows = 2, part.q_stride = part.kv_stride = 8;
  part.heads = part.kv_heads = 1, part.head_dim = 8;
  part.bias = bias.data(), part.bias_stride = 3, part.bias_zero = 1;
  EXPECT_EQ(ErrorOf(FT_UNSUPPORTED, api_.attention_part_forward(queue_.get(), &part)),
            "cuda attention_part_forward: no kernel for keys of another length or a bias by "
            "distance");
}

TEST_P(CudaEntryTest, SupportsWhatHasAKernelAndNoOtherType) {
  EXPECT_EQ(api_.supports(FT_KERNEL_NORM_FORWARD, FT_F32), 1);
  EXPECT_EQ(api_.supports(FT_KERNEL_NORM_FORWARD, FT_BF16), 1);
  EXPECT_EQ(api_.supports(FT_KERNEL_NORM_FORWARD, FT_F64), 0);
  EXPECT_EQ(api_.supports(FT_KERNEL_DROPOUT, FT_U8), 1);
  EXPECT_EQ(api_.supports(FT_KERNEL_ADAMW_AMEND, FT_BF16), 0);
  EXPECT_EQ(api_.supports(FT_KERNEL_COUNT, FT_F32), 0);
}

#if FORETRAIN_HAVE_CUDA_SHIM
// Each thread passes its number to the next one through shared memory. Without a barrier, numbers
// of other warps are not there yet, and in some orders not even those of the own warp.
template <bool kWaits>
void PassOn(int* out) {
  __shared__ int handed[64];
  handed[threadIdx.x] = -1;
  __syncthreads();
  handed[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (kWaits) __syncthreads();
  out[threadIdx.x] = handed[(threadIdx.x + 1) % 64];
}

TEST_P(CudaEntryTest, ExecutionOnTheHostShowsAMissingBarrier) {
  int numbers[64] = {};
  int* const out = numbers;
  FT_LAUNCH(PassOn<true>, dim3(1), dim3(64), 0, nullptr, out);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(out[i], (i + 1) % 64);
  FT_LAUNCH(PassOn<false>, dim3(1), dim3(64), 0, nullptr, out);
  int wrong = 0;
  for (int i = 0; i < 64; ++i) wrong += out[i] != (i + 1) % 64 ? 1 : 0;
  // In forward order all but the last thread read too early; in reverse order the last one does.
  EXPECT_GT(wrong, 0);
}
#endif

INSTANTIATE_TEST_SUITE_P(Variants, CudaEntryTest, testing::ValuesIn(CudaVariants()),
                         [](const auto& i) { return Name(i.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CudaEntryTest);

}  // namespace
}  // namespace foretrain::test
