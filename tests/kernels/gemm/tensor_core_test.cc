// Tests warp products and asynchronous copies as the host executes them. Also tests the choice of
// attention kernels, with the tiles and scores that they visit.
#include <vector>

#include "kernels/cuda/library/attention_path.h"
#include "tests/kernels/support.h"

#if FORETRAIN_HAVE_CUDA_SHIM
#define FT_HOST_SHIM "tests/plugins/shim/host_tensor_core.h"
#include "kernels/cuda/tensor/tensor_core.cuh"
#undef __restrict__
#endif

namespace foretrain::test {
namespace {

constexpr AttentionNeeds kPlain{FT_BF16, 128, 128, false, false, true, 90};

TEST(AttentionPath, TakesTensorCoresForShortNumbersAndWholeOctetsUpTo128) {
  EXPECT_EQ(PathOf(kPlain), AttentionPath::kTensorCores);
  for (const std::int32_t dim : {8, 64, 72, 80, 96, 128}) {
    AttentionNeeds needs = kPlain;
    needs.dtype = FT_F16;
    needs.head_dim = needs.value_dim = dim;
    EXPECT_EQ(PathOf(needs), AttentionPath::kTensorCores) << dim;
  }
}

TEST(AttentionPath, LeavesTheRestToCudaCores) {
  std::vector<AttentionNeeds> rest(8, kPlain);
  rest[0].dtype = FT_F32;
  rest[1].head_dim = 136;
  rest[2].value_dim = 192;
  rest[3].head_dim = 68;
  rest[4].is_bent = true;
  rest[5].drops = true;
  rest[6].is_aligned = false;
  rest[7].capability = 75;
  for (const AttentionNeeds& needs : rest) EXPECT_EQ(PathOf(needs), AttentionPath::kCudaCores);
}

TEST(AttentionPath, PadsHeadsToTheNextWidthOfItsKernels) {
  const std::int32_t dims[][2] = {{8, 64}, {64, 64}, {72, 80}, {88, 96}, {104, 128}, {136, 0}};
  for (const auto& [dim, padded] : dims) EXPECT_EQ(PaddedTensorDim(dim), padded);
}

TEST(AttentionPath, VisitsTheTilesThatHoldPositions) {
  const FtRun run{1000, 50, 100};  // positions 50 to 149, tiles of 32: 50, 82, 114, 146
  const auto expect = [&](std::int64_t first, std::int64_t last, std::int64_t begin,
                          std::int64_t end) {
    const TileRange range = TilesWithin(run, first, last, 32);
    EXPECT_EQ(range.begin, begin) << first << " to " << last;
    EXPECT_EQ(range.end, end) << first << " to " << last;
  };
  expect(-kNoLimit, kNoLimit, 0, 4);
  expect(0, 81, 0, 1);
  expect(0, 82, 0, 2);
  expect(82, 113, 1, 2);
  expect(81, 145, 0, 3);
  expect(0, 49, 0, 0);     // before the run
  expect(178, 300, 4, 4);  // after the run
}

// Queries 64 to 95 with a window of 10 see keys 55 to 95. Keys 64 to 95 are seen by queries 64 to
// 104.
TEST(AttentionPath, BoundsWhatMeets) {
  EXPECT_EQ(KeysSeenBy(64, 32, 10).first, 55);
  EXPECT_EQ(KeysSeenBy(64, 32, 10).last, 95);
  EXPECT_EQ(KeysSeenBy(64, 32, 0).first, -kNoLimit);
  EXPECT_EQ(QueriesThatSee(64, 32, 10).first, 64);
  EXPECT_EQ(QueriesThatSee(64, 32, 10).last, 104);
  EXPECT_EQ(QueriesThatSee(64, 32, 0).last, kNoLimit);
}

// Definition: key <= query, and with a window key > query - window.
TEST(AttentionPath, SeesTheColumnsOfItsDefinition) {
  constexpr int kCols = 16;
  for (const std::int64_t window : {0, 1, 5, 16, 40}) {
    for (std::int64_t row = 0; row < 64; ++row) {
      for (int c = 0; c < kCols; ++c) {
        const auto sees = [&](std::int64_t query, std::int64_t key) {
          return key <= query && (window == 0 || key > query - window);
        };
        const Columns keys = KeyColumns(row, 24, kCols, window);
        EXPECT_EQ(c >= keys.from && c < keys.to, sees(row, 24 + c));
        const Columns queries = QueryColumns(row, 24, kCols, window);
        EXPECT_EQ(c >= queries.from && c < queries.to, sees(24 + c, row));
      }
    }
  }
}

// Eight rows of 16 bytes of one matrix lie in different eighths of the 32 banks.
TEST(TensorCore, RowsOfAMatrixFallOnDifferentBanks) {
#if FORETRAIN_HAVE_CUDA_SHIM
  for (const int row : {PaddedRow<64>, PaddedRow<80>, PaddedRow<96>, PaddedRow<128>}) {
    unsigned seen = 0;
    for (int r = 0; r < 8; ++r) seen |= 1U << r * row / 8 % 8;
    EXPECT_EQ(seen, 0xffU) << row;
  }
#else
  GTEST_SKIP() << "kernels run on the host of x86-64 alone; run kernels_tests there, or "
                  "kernels_gpu_tests on a GPU";
#endif
}

#if FORETRAIN_HAVE_CUDA_SHIM
constexpr int kM = 32, kN = 32, kDeep = 64;

class TensorCoreTest : public KernelTest {};

// Integers from -4 to 3: products and sums are exact in every format.
template <class T>
std::vector<T> Whole(int n, unsigned seed) {
  std::vector<T> x;
  for (int i = 0; i < n; ++i) {
    seed = seed * 1664525U + 1013904223U;
    x.push_back(Narrow<T>(static_cast<float>(seed >> 29) - 4.0F));
  }
  return x;
}

// Copies [rows][cols] to shared memory, in rows of PaddedRow.
template <int kRows, int kCols, class T>
void Place(const T* from, T* to) {
  CopyTile<kRows, kCols, 32>(from, kCols, kRows, kCols, to);
  CommitCopies();
  AwaitCopies<0>();
  __syncthreads();
}

template <int kRowTiles, int kColTiles>
void Write(const float (&sums)[kRowTiles][kColTiles][4], float* to) {
  for (int i = 0; i < kRowTiles; ++i) {
    for (int j = 0; j < kColTiles; ++j) {
      for (int n = 0; n < 4; ++n) {
        const int row = i * 16 + LaneOf() / 4 + n / 2 * 8, col = j * 8 + LaneOf() % 4 * 2 + n % 2;
        to[row * kColTiles * 8 + col] = sums[i][j][n];
      }
    }
  }
}

// first = a b^T for a [kM, kDeep] and b [kN, kDeep]; second = first c for c [kN, kDeep].
template <class T>
void TwoProducts(const T* a, const T* b, const T* c, float* first, float* second) {
  FT_DYN_SHARED(T, shared);
  T* const of_b = shared + kM * PaddedRow<kDeep>;
  T* const of_c = of_b + kN * PaddedRow<kDeep>;
  Place<kM, kDeep>(a, shared);
  Place<kN, kDeep>(b, of_b);
  Place<kN, kDeep>(c, of_c);
  float sums[kM / 16][kN / 8][4] = {};
  MultiplyRows<kDeep>(shared, of_b, sums);
  Write(sums, first);
  for (auto& row : sums) {  // small enough to be exact after packing
    for (auto& tile : row) {
      for (float& x : tile) x = static_cast<float>(static_cast<int>(x) % 8);
    }
  }
  std::uint32_t packed[kM / 16][kN / 16][4];
  PackRows<T>(sums, packed);
  float more[kM / 16][kDeep / 8][4] = {};
  MultiplyPacked(packed, of_c, more);
  Write(more, second);
}

template <class T>
void CheckProducts() {
  const auto a = Whole<T>(kM * kDeep, 1), b = Whole<T>(kN * kDeep, 2), c = Whole<T>(kN * kDeep, 3);
  Floats first(kM * kN), second(kM * kDeep);
  const T *const of_a = a.data(), *const of_b = b.data(), *const of_c = c.data();
  float *const to_first = first.data(), *const to_second = second.data();
  FT_LAUNCH(TwoProducts<T>, dim3(1), dim3(32), sizeof(T) * (kM + 2 * kN) * PaddedRow<kDeep>,
            nullptr, of_a, of_b, of_c, to_first, to_second);
  const auto at = [](const std::vector<T>& x, int i) {
    return Widen(x[static_cast<std::size_t>(i)]);
  };
  Floats product(kM * kN), next(kM * kDeep);
  for (int m = 0; m < kM; ++m) {
    for (int n = 0; n < kN; ++n) {
      float& sum = product[static_cast<std::size_t>(m * kN + n)];
      for (int k = 0; k < kDeep; ++k) sum += at(a, m * kDeep + k) * at(b, n * kDeep + k);
      const auto weight = static_cast<float>(static_cast<int>(sum) % 8);
      for (int k = 0; k < kDeep; ++k) {
        next[static_cast<std::size_t>(m * kDeep + k)] += weight * at(c, n * kDeep + k);
      }
    }
  }
  EXPECT_EQ(first, product);
  EXPECT_EQ(second, next);
}

TEST_P(TensorCoreTest, MultipliesTilesAsMatricesAre) {
  CheckProducts<Bf16>();
  CheckProducts<Fp16>();
}

// A thread's copies are complete after it has waited. Before that, they may be or not.
template <bool kWaits>
void CopyAndRead(const float* from, float* to) {
  alignas(16) __shared__ float copied[4 * 32];
  const int i = static_cast<int>(threadIdx.x) * 4;
  for (int n = 0; n < 4; ++n) copied[i + n] = -1.0F;
  CopyAsync(copied + i, from + i, threadIdx.x % 2 == 0);
  CommitCopies();
  if constexpr (kWaits) AwaitCopies<0>();
  for (int n = 0; n < 4; ++n) to[i + n] = copied[i + n];
}

TEST_P(TensorCoreTest, CopiesAreThereOnceTheyWereWaitedFor) {
  alignas(16) float from[128], to[128];
  for (int i = 0; i < 128; ++i) from[i] = static_cast<float>(i + 1);
  const float* const source = from;
  float* const target = to;
  FT_LAUNCH(CopyAndRead<true>, dim3(1), dim3(32), 0, nullptr, source, target);
  for (int i = 0; i < 128; ++i) EXPECT_EQ(to[i], i / 4 % 2 == 0 ? from[i] : 0.0F) << i;
  FT_LAUNCH(CopyAndRead<false>, dim3(1), dim3(32), 0, nullptr, source, target);
  EXPECT_EQ(to[0], GetParam().cuda == CudaThreads::kForward ? 1.0F : -1.0F);
}

INSTANTIATE_TEST_SUITE_P(Variants, TensorCoreTest, testing::ValuesIn(CudaVariants()),
                         [](const auto& i) { return Name(i.param); });
#endif

}  // namespace
}  // namespace foretrain::test
