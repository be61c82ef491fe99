// Attention by the device's library, cuDNN. Without a GPU, the library is a fake
// (tests/plugins/fake_cudnn.cc) that computes the graphs it is given. That tests the graphs, not
// what a real engine computes. On a GPU, the library is real.
#include "kernels/cuda/library/library_attention.h"

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "kernels/cuda/device/queue.h"
#include "tests/kernels/attention/short_attention.h"
#include "tests/paths.h"
#include "tests/plugins/fake_cudnn.h"

namespace foretrain::test {
namespace {

#if FORETRAIN_HAVE_CUDA_SHIM

std::vector<Variant> OfCuda() {
  std::vector<Variant> variants = AllVariants();
  std::erase_if(variants, [](const Variant& v) { return v.cuda == CudaThreads::kNone; });
  return variants;
}

FakeCudnn& Fake() {
  static FakeCudnn* const control = [] {
    void* const library = dlopen(TestPlugin("cudnn").c_str(), RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<FakeCudnn* (*)()>(dlsym(library, "fake_cudnn"))();
  }();
  return *control;
}

class LibraryAttentionTest : public ShortAttentionTest {
 protected:
  bool IsReal() const { return GetParam().cuda == CudaThreads::kGpu; }

  void SetUp() override {
    ShortAttentionTest::SetUp();
    char name[64] = "", why[512] = "";
    if (IsReal()) {
      if (api_.attention_library == nullptr) {
        GTEST_SKIP() << "this device's table has no attention library";
      }
      const FtStatus status = api_.attention_library(name, sizeof name, why, sizeof why);
      if (status != FT_OK) GTEST_SKIP() << why << "; put cuDNN 9's folder in LD_LIBRARY_PATH";
      return;
    }
    Fake().Reset();
    ASSERT_EQ(MakeAttentionLibrary(TestPlugin("cudnn").c_str(), &Cuda().attention, why, sizeof why),
              FT_OK)
        << why;
  }
  void TearDown() override {
    queue_.reset();
    if (IsReal()) return;
    EXPECT_EQ(Fake().wrong, "");
    EXPECT_EQ(Fake().live, 0) << "descriptors or handles are left";
  }
  CudaQueue& Cuda() { return QueueOf(queue_.get()); }
  std::string Error() const { return api_.queue_error(queue_.get()); }

  FtStatus Use(const FtAttentionForward& g, FtAttentionKernels kernels) {
    return IsReal() ? api_.attention_forward_use(queue_.get(), &g, kernels)
                    : UseAttentionForward(queue_.get(), &g, kernels);
  }
  FtStatus Use(const FtAttentionBackward& g, FtAttentionKernels kernels) {
    return IsReal() ? api_.attention_backward_use(queue_.get(), &g, kernels)
                    : UseAttentionBackward(queue_.get(), &g, kernels);
  }
  void Choose(const FtAttentionForward& g) override {
    ASSERT_EQ(Use(g, kernels_), FT_OK) << Error();
  }
  void Choose(const FtAttentionBackward& g) override {
    ASSERT_EQ(Use(g, kernels_), FT_OK) << Error();
  }

  // Keys shared by several query heads: their gradients are rounded once more per head.
  static ShortFormat Shared(ShortFormat format) {
    format.rounding.unit *= 2;
    return format;
  }

  FtAttentionKernels kernels_ = FT_ATTENTION_LIBRARY;
};
using Sizes = std::vector<std::vector<std::int64_t>>;

TEST_P(LibraryAttentionTest, EqualsTheReferenceForHeadsOfEveryWidth) {
  for (const std::int64_t head_dim : {64, 80, 96, 128}) {
    Check({.batch = 1, .sequence = 33, .heads = 2, .kv_heads = 2, .head_dim = head_dim}, kBf16);
  }
  Check({.batch = 2, .sequence = 40, .heads = 2, .kv_heads = 2, .head_dim = 64}, kFp16);
  if (!IsReal()) {
    EXPECT_EQ(Fake().runs, 10);
  }
}

TEST_P(LibraryAttentionTest, SharesKeyHeadsAmongGroups) {
  for (const std::int64_t kv_heads : {1, 2}) {
    Check({.batch = 2, .sequence = 37, .heads = 4, .kv_heads = kv_heads, .head_dim = 64},
          Shared(kBf16));
  }
}

TEST_P(LibraryAttentionTest, EqualsTheReferenceInAnyOrder) {
  kernels_ = FT_ATTENTION_LIBRARY_ANY_ORDER;
  Check({.batch = 2, .sequence = 37, .heads = 4, .kv_heads = 2, .head_dim = 64}, Shared(kBf16));
}

// Forward by the library and backward by the own kernels use the same out and lse: Check gives the
// backward those of the reference.
TEST_P(LibraryAttentionTest, OwnKernelsAreThoseOfTheQueueAgain) {
  const AttentionShape s{.batch = 1, .sequence = 33, .heads = 1, .kv_heads = 1, .head_dim = 64};
  Check(s, kBf16);
  kernels_ = FT_ATTENTION_OWN;
  Check(s, kBf16);
  if (!IsReal()) {
    EXPECT_EQ(Fake().runs, 2);
  }
}

TEST_P(LibraryAttentionTest, PlansACallOnce) {
  if (IsReal()) GTEST_SKIP() << "counts the fake library's plans";
  const AttentionShape s{.batch = 1, .sequence = 33, .heads = 1, .kv_heads = 1, .head_dim = 64};
  Check(s, kBf16);
  Check(s, kBf16);
  EXPECT_EQ(Fake().plans, 2);
  EXPECT_EQ(Fake().runs, 4);
}

// In 16 bits, the gradients of all scores of a head take 8 MiB at 2,048 positions. 64 MiB minus 16
// KiB of sums per head hold fewer than 8 heads. So 2 samples of 6 heads make 2 pieces, one for each
// sample. At 5,888 positions a head takes 66 MiB, which fits no piece.
TEST_P(LibraryAttentionTest, GoesInPiecesThatFindRoomInTheWorkspace) {
  if (IsReal()) GTEST_SKIP() << "sizes of the fake library's plans";
  auto g = Sized<FtAttentionBackward>(
      {.batch = 2, .sequence = 2048, .heads = 6, .kv_heads = 6, .head_dim = 64}, kBf16,
      std::int64_t{3} * 6 * 64);
  ASSERT_EQ(Use(g, FT_ATTENTION_LIBRARY), FT_OK) << Error();
  EXPECT_EQ(Fake().plans, 2);  // a plan for both samples does not fit
  g.batch = 1, g.sequence = 5888, g.heads = g.kv_heads = 2, g.row_stride = 3 * 2 * 64;
  EXPECT_EQ(Use(g, FT_ATTENTION_LIBRARY), FT_UNSUPPORTED);
  EXPECT_THAT(Error(), testing::HasSubstr("64 MiB for one key head of one sample"));
  EXPECT_EQ(Use(g, FT_ATTENTION_LIBRARY_ANY_ORDER), FT_OK) << Error();
}

// Pieces forced by a small workspace: first samples, then key heads with their groups.
TEST_P(LibraryAttentionTest, PiecesTogetherEqualTheReference) {
  if (IsReal()) GTEST_SKIP() << "sizes of the fake library's plans";
  const AttentionShape s{.batch = 2, .sequence = 128, .heads = 8, .kv_heads = 4, .head_dim = 8};
  Cuda().attention_bytes = 200 << 10;  // gradients of scores take 32 KiB per head
  Check(s, Shared(kBf16));
  // Forward needs no workspace for scores. Backward runs in pieces of 4 heads with 2 key heads.
  EXPECT_EQ(
      Fake().ran,
      (Sizes{{2, 8, 128, 8}, {1, 4, 128, 8}, {1, 4, 128, 8}, {1, 4, 128, 8}, {1, 4, 128, 8}}));
}

TEST_P(LibraryAttentionTest, LeavesWhatItDoesNotComputeToOwnKernels) {
  auto g = Sized<FtAttentionForward>(
      {.batch = 1, .sequence = 16, .heads = 2, .kv_heads = 1, .head_dim = 64}, kBf16, 256);
  const auto refused = [&](const FtAttentionForward& call, const std::string& why) {
    EXPECT_EQ(Use(call, FT_ATTENTION_LIBRARY), FT_UNSUPPORTED);
    EXPECT_THAT(Error(), testing::HasSubstr(why));
  };
  FtAttentionForward other = g;
  other.dtype = FT_F32;
  refused(other, "of bf16 and fp16");
  other = g, other.head_dim = 136;
  refused(other, "multiples of 8 up to 128");
  other = g, other.value_dim = 32;
  refused(other, "values as wide as keys");
  other = g, other.window = 4;
  refused(other, "neither windows, caps, slopes, documents nor dropout");
  other = g, other.row_stride = 260;
  refused(other, "whole 16-byte words");
  if (IsReal()) return;
  Cuda().capability = 75;
  refused(g, "compute capability 8.0");
  Cuda().capability = 100;
  auto back = Sized<FtAttentionBackward>(
      {.batch = 1, .sequence = 16, .heads = 2, .kv_heads = 1, .head_dim = 64}, kBf16, 256);
  EXPECT_EQ(Use(back, FT_ATTENTION_LIBRARY), FT_UNSUPPORTED);
  EXPECT_THAT(Error(), testing::HasSubstr("in a fixed order"));
  EXPECT_EQ(Use(back, FT_ATTENTION_LIBRARY_ANY_ORDER), FT_OK) << Error();
}

TEST_P(LibraryAttentionTest, TensorsThatDoNotLieOn16BytesAreOwnKernels) {
  if (IsReal()) GTEST_SKIP() << "counts the fake library's runs";
  const AttentionShape s{.batch = 1, .sequence = 9, .heads = 1, .kv_heads = 1, .head_dim = 64};
  const ShortInputs in(s, FT_BF16);
  auto g = Sized<FtAttentionForward>(s, kBf16, 64);
  ASSERT_EQ(Use(g, FT_ATTENTION_LIBRARY), FT_OK) << Error();
  std::vector<Codes> tensors;
  for (const Tensor* const x : {&in.q, &in.k, &in.v}) {
    tensors.push_back(CodesOf(FT_BF16, *x));
    tensors.back().insert(tensors.back().begin(), 0);
  }
  Codes out(9 * 64);
  Floats lse(9);
  g.q = tensors[0].data() + 1, g.k = tensors[1].data() + 1, g.v = tensors[2].data() + 1;
  g.out = out.data(), g.lse = lse.data();
  Run(api_.attention_forward, g);
  EXPECT_EQ(Fake().runs, 0);
}

TEST_P(LibraryAttentionTest, TriesTheNextEngineAndSaysWhyThereIsNone) {
  if (IsReal()) GTEST_SKIP() << "engines of the fake library";
  const auto g = Sized<FtAttentionForward>(
      {.batch = 1, .sequence = 16, .heads = 1, .kv_heads = 1, .head_dim = 64}, kBf16, 192);
  Fake().refused_configs = 1;
  EXPECT_EQ(Use(g, FT_ATTENTION_LIBRARY), FT_OK) << Error();
  EXPECT_EQ(Use(g, FT_ATTENTION_OWN), FT_OK);
  Fake().refused_configs = 2;
  EXPECT_EQ(Use(g, FT_ATTENTION_LIBRARY), FT_UNSUPPORTED);
  EXPECT_EQ(
      Error(),
      "cuDNN 9.19.0: make a plan of attention: CUDNN_STATUS_NOT_SUPPORTED (the test says so)");
  Fake().has_engine = false;
  EXPECT_EQ(Use(g, FT_ATTENTION_LIBRARY), FT_UNSUPPORTED);
  EXPECT_THAT(Error(), testing::HasSubstr("choose an engine for attention"));
}

// Each call of the library fails once. A failure while a plan is made selects the own kernels,
// except that a failing engine leads to the next engine. A failure after that fails the call.
TEST_P(LibraryAttentionTest, EveryCallThatFailsGivesOneSentenceAndLeavesNothing) {
  if (GetParam().cuda != CudaThreads::kForward) GTEST_SKIP() << "the fake library fails, once";
  const AttentionShape s{.batch = 1, .sequence = 8, .heads = 1, .kv_heads = 1, .head_dim = 8};
  const ShortInputs in(s, FT_BF16);
  const Codes q = CodesOf(FT_BF16, in.q), k = CodesOf(FT_BF16, in.k), v = CodesOf(FT_BF16, in.v);
  Codes out(q.size());
  Floats lse(8);
  auto g = Sized<FtAttentionForward>(s, kBf16, 8);
  g.q = q.data(), g.k = k.data(), g.v = v.data(), g.out = out.data(), g.lse = lse.data();
  int refused = 0, failed = 0, passed = 0;
  std::int64_t calls = 1;  // replaced once the number of calls is known
  for (std::int64_t at = -1; at < calls; ++at) {
    SCOPED_TRACE("call " + std::to_string(at));
    const Queue queue = MakeQueue(GetParam());
    char why[256] = "";
    ASSERT_EQ(MakeAttentionLibrary(TestPlugin("cudnn").c_str(), &QueueOf(queue.get()).attention,
                                   why, sizeof why),
              FT_OK);
    Fake().calls = 0, Fake().fail_at = at, Fake().runs = 0;
    const FtStatus used = UseAttentionForward(queue.get(), &g, FT_ATTENTION_LIBRARY);
    const std::string sentence = api_.queue_error(queue.get());
    const FtStatus ran = api_.attention_forward(queue.get(), &g);
    if (at < 0) calls = Fake().calls;
    if (used != FT_OK) {
      EXPECT_EQ(used, FT_UNSUPPORTED);
      EXPECT_THAT(sentence, testing::StartsWith("cuDNN 9.19.0: "));
      EXPECT_EQ(ran, FT_OK) << api_.queue_error(queue.get());
      EXPECT_EQ(Fake().runs, 0) << "own kernels were to compute it";
      ++refused;
    } else if (ran != FT_OK) {
      EXPECT_EQ(ran, FT_FAILED);
      EXPECT_THAT(api_.queue_error(queue.get()),
                  testing::StartsWith("cuda attention: cuDNN 9.19.0: "));
      ++failed;
    } else {
      ++passed;
    }
  }
  EXPECT_GT(refused, 200);  // one tensor takes 9 calls
  EXPECT_EQ(failed, 6);     // a pack, its three attributes, finalize, execute
  EXPECT_EQ(passed,
            3);  // no failure; a failure of the list of engines; a failure of the first engine
}

TEST(LibraryOfAttention, SaysWhatIsMissing) {
  AttentionLibrary* library = nullptr;
  char why[512] = "";
  EXPECT_EQ(MakeAttentionLibrary("/nowhere/libcudnn.so.9", &library, why, sizeof why),
            FT_UNSUPPORTED);
  EXPECT_THAT(why, testing::StartsWith("cuDNN does not load: /nowhere/libcudnn.so.9"));
  const std::string nccl = TestPlugin("nccl"), cudnn = TestPlugin("cudnn");
  EXPECT_EQ(MakeAttentionLibrary(nccl.c_str(), &library, why, sizeof why), FT_UNSUPPORTED);
  EXPECT_EQ(std::string(why),
            nccl + " has no function cudnnGetVersion; cuDNN 9.13 or later of 9 is needed");
  for (const std::size_t version : {std::size_t{91202}, std::size_t{100000}}) {
    Fake().Reset();
    Fake().version = version;
    EXPECT_EQ(MakeAttentionLibrary(cudnn.c_str(), &library, why, sizeof why), FT_UNSUPPORTED);
    EXPECT_EQ(std::string(why), cudnn + " is cuDNN " + (version < 100000 ? "9.12.2" : "10.0.0") +
                                    "; 9.13 or later of 9 is needed");
  }
  Fake().Reset();
  EXPECT_EQ(library, nullptr);
}

// pip installs cuDNN as a package; PyTorch comes with it.
TEST(LibraryOfAttention, IsFoundAmongPythonsPackages) {
  const std::filesystem::path root =
      std::filesystem::path(testing::TempDir()) / "an environment of Python";
  const std::filesystem::path folder = root / "lib/python3.11/site-packages/nvidia/cudnn/lib";
  const char* const name = "libcudnn.so.of_this_test";
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(TestPlugin("cudnn"), folder / name,
                             std::filesystem::copy_options::overwrite_existing);
  AttentionLibrary* library = nullptr;
  char why[512] = "";
  EXPECT_EQ(MakeAttentionLibrary(name, &library, why, sizeof why), FT_UNSUPPORTED);
  setenv("VIRTUAL_ENV", root.c_str(), 1);
  EXPECT_EQ(MakeAttentionLibrary(name, &library, why, sizeof why), FT_OK) << why;
  unsetenv("VIRTUAL_ENV");
  DestroyAttentionLibrary(library);
  std::filesystem::remove_all(root);
}

INSTANTIATE_TEST_SUITE_P(Variants, LibraryAttentionTest, testing::ValuesIn(OfCuda()),
                         [](const auto& i) { return ::foretrain::test::Name(i.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LibraryAttentionTest);

#endif

}  // namespace
}  // namespace foretrain::test
