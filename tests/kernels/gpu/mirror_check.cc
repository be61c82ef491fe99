// Tests the mirror itself. `kernels_gpu_tests --on-host` runs it together with the kernel tests.
#include "tests/kernels/gpu/mirror.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/kernels/support.h"

#if FORETRAIN_HAVE_CUDA_SHIM
#include "tests/plugins/shim/shim_device.h"

namespace foretrain::test {
namespace {

// An entry with an error: it writes 1 to every number of its output and to one number past it.
FtStatus AddTooMany(FtQueue* /*queue*/, const FtAdd* add) {
  auto* const out = static_cast<float*>(add->out);
  for (std::int64_t i = 0; i <= add->rows * add->cols; ++i) out[i] = 1.0F;
  return FT_OK;
}

class Mirror : public testing::Test {
 protected:
  void TearDown() override {
    queue_.reset();
    UseGpu(MirrorOf(ShimDeviceApi(), {}));
  }

  void Use(FtStatus (*add)(FtQueue*, const FtAdd*)) {
    wrong_ = ShimDeviceApi();
    wrong_.add = add;
    UseGpu(MirrorOf(wrong_, {}));
    queue_ = MakeQueue({nullptr, GemmBackend::kBuiltIn, CudaThreads::kGpu});
  }

  FtStatus Add(const float* a, float* out, std::int64_t elements) {
    FtAdd add{};
    add.a = a;
    add.b = out;
    add.out = out;
    add.rows = 1;
    add.cols = elements;
    return MirrorOf(wrong_, {}).add(queue_.get(), &add);
  }

  FtDeviceApi wrong_{};
  Queue queue_;
};

TEST_F(Mirror, FindsAWriteBehindATensor) {
  Use(&AddTooMany);
  std::vector<float> a(3, 2.0F);
  std::vector<float> out(3, 0.0F);
  EXPECT_NONFATAL_FAILURE(Add(a.data(), out.data(), 3), "written behind a tensor of 12 bytes");
  EXPECT_EQ(out, std::vector<float>(3, 1.0F));
  EXPECT_EQ(a, std::vector<float>(3, 2.0F));
}

TEST_F(Mirror, CopiesNumbersOnTheStackAndTensorsThatAreOneAllocation) {
  Use(ShimDeviceApi().add);
  float here[2] = {3.0F, 5.0F};
  EXPECT_EQ(Add(here, here + 1, 1), FT_OK);
  EXPECT_EQ(here[0], 3.0F);
  EXPECT_EQ(here[1], 8.0F);
  std::vector<float> both{1.0F, 2.0F, 0.0F, 0.0F};
  EXPECT_EQ(Add(both.data(), both.data() + 2, 2), FT_OK);
  EXPECT_EQ(both, (std::vector<float>{1.0F, 2.0F, 1.0F, 2.0F}));
}

TEST_F(Mirror, RefusesMemoryWhoseSizeIsNotKnown) {
  Use(ShimDeviceApi().add);
  auto* const unknown = static_cast<float*>(std::calloc(4, sizeof(float)));
  std::vector<float> out(4, 1.0F);
  EXPECT_NONFATAL_FAILURE(Add(unknown, out.data(), 4), "neither of new nor of the stack");
  std::free(unknown);
}

#if __has_builtin(__builtin_clear_padding)
// Puts the padding after the last member into `padding`.
std::uint32_t padding = 0;
FtStatus ReadPadding(FtQueue* /*queue*/, const FtHeadNormBackwardInput* arguments) {
  constexpr std::size_t kEnd = offsetof(FtHeadNormBackwardInput, dtype) + sizeof(FtDtype);
  static_assert(kEnd + sizeof padding == sizeof *arguments);
  std::memcpy(&padding, reinterpret_cast<const std::byte*>(arguments) + kEnd, sizeof padding);
  return FT_OK;
}

TEST_F(Mirror, ClearsPaddingWhichCanLookLikeAnAddress) {
  FtHeadNormBackwardInput arguments;
  std::memset(&arguments, 0xFF, sizeof arguments);
  arguments.dqkv = arguments.kept_grad = nullptr;
  arguments.kept = arguments.q_weight = arguments.k_weight = nullptr;
  arguments.rstd = nullptr;
  wrong_ = ShimDeviceApi();
  wrong_.head_norm_backward_input = &ReadPadding;
  UseGpu(MirrorOf(wrong_, {}));
  queue_ = MakeQueue({nullptr, GemmBackend::kBuiltIn, CudaThreads::kGpu});
  padding = 1;
  EXPECT_EQ(MirrorOf(wrong_, {}).head_norm_backward_input(queue_.get(), &arguments), FT_OK);
  EXPECT_EQ(padding, 0U);
}
#endif

}  // namespace
}  // namespace foretrain::test
#endif
