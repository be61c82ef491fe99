// Choice of a library's algorithms for products: timed on a device whose clock the test controls,
// stored, and used.
#include "runtime/device/gemm_algorithms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "sim/program/ir/program.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

// A device with one queue whose GEMM takes its algorithm's time and computes nothing.
struct Fake {
  std::vector<std::int64_t> ns;     // of each algorithm; the first is the library's own
  std::set<std::uint64_t> refused;  // by gemm_use
  bool takes_sums = true;           // supports products with row sums
  std::uint64_t current = 0;
  std::int64_t clock = 0;
  std::map<const FtEvent*, std::int64_t> events;
  std::vector<std::uint64_t> used;
  int gemms = 0;
  std::string library = "fakeLt-7";
};
Fake fake;
char objects[8];  // their addresses stand for queues and events
int made = 0;

FtStatus QueueCreate(std::int32_t, FtQueue** out, char*, std::size_t) {
  *out = reinterpret_cast<FtQueue*>(&objects[0]);
  return FT_OK;
}
FtStatus EventCreate(std::int32_t, std::int32_t, FtEvent** out, char*, std::size_t) {
  *out = reinterpret_cast<FtEvent*>(&objects[1 + made++ % 4]);
  return FT_OK;
}
FtStatus EventRecord(FtQueue*, FtEvent* event) {
  fake.events[event] = fake.clock;
  return FT_OK;
}
FtStatus EventElapsed(FtEvent* from, FtEvent* to, std::int64_t* ns, char*, std::size_t) {
  *ns = fake.events[to] - fake.events[from];
  return FT_OK;
}
FtStatus Gemm(FtQueue*, const FtGemm*) {
  fake.clock += fake.ns[fake.current];
  fake.gemms += 1;
  return FT_OK;
}
FtStatus Library(char* name, std::size_t n) {
  std::snprintf(name, n, "%s", fake.library.c_str());
  return FT_OK;
}
FtStatus Algorithms(FtQueue*, const FtGemm* g, FtGemmAlgorithm* out, std::int32_t capacity,
                    std::int32_t* count) {
  *count = 0;
  if (g->row_sums != nullptr && !fake.takes_sums) return FT_OK;
  *count = std::min(capacity, static_cast<std::int32_t>(fake.ns.size()));
  for (std::int32_t i = 0; i < *count; ++i) out[i] = {{static_cast<std::uint64_t>(i), 0xabc}};
  return FT_OK;
}
FtStatus UseIt(FtQueue*, const FtGemm* g, const FtGemmAlgorithm* algorithm) {
  if (g->row_sums != nullptr && !fake.takes_sums) return FT_UNSUPPORTED;
  if (fake.refused.count(algorithm->words[0]) > 0) return FT_UNSUPPORTED;
  fake.current = algorithm->words[0];
  fake.used.push_back(fake.current);
  return FT_OK;
}

FtDeviceApi FakeApi() {
  FtDeviceApi api = CpuDeviceApi();
  api.name = "fake";
  api.queue_create = QueueCreate;
  api.queue_destroy = [](FtQueue*) {};
  api.queue_error = [](const FtQueue*) { return "no more"; };
  api.queue_synchronize = [](FtQueue*) { return FT_OK; };
  api.event_create = EventCreate;
  api.event_destroy = [](FtEvent*) {};
  api.event_record = EventRecord;
  api.event_elapsed = EventElapsed;
  api.fill = [](FtQueue*, void* to, std::int32_t value, std::int64_t bytes) {
    std::memset(to, value, static_cast<std::size_t>(bytes));
    return FT_OK;
  };
  api.gemm = Gemm;
  api.gemm_library = Library;
  api.gemm_algorithms = Algorithms;
  api.gemm_use = UseIt;
  return api;
}

FtGemm Product(std::int64_t m, std::int64_t n, std::int64_t k, FtDtype dtype = FT_BF16) {
  FtGemm g{};
  g.m = m, g.n = n, g.k = k, g.lda = g.ldb = k, g.ldc = n, g.trans_b = 1;
  g.dtype = g.c_dtype = dtype;
  return g;
}

class GemmAlgorithmsTest : public testing::Test {
 protected:
  void SetUp() override { fake = {}; }
  GemmAlgorithms Tune(const std::vector<FtGemm>& products) {
    const Result<GemmAlgorithms> tuned = TuneGemms(api_, products, {});
    EXPECT_TRUE(tuned.has_value());
    return tuned.value_or(GemmAlgorithms{});
  }
  FtQueue* queue_ = reinterpret_cast<FtQueue*>(&objects[0]);
  const FtDeviceApi api_ = FakeApi();
};

TEST_F(GemmAlgorithmsTest, KeepsTheFastestWithBothTimes) {
  fake.ns = {1000, 900, 1200, 800};
  const GemmAlgorithms tuned = Tune({Product(64, 32, 16)});
  EXPECT_EQ(tuned.library, "fakeLt-7");
  ASSERT_EQ(tuned.of.size(), 1U);
  const GemmAlgorithm& kept = tuned.of[0];
  EXPECT_EQ(kept.words[0], 3U);
  EXPECT_EQ(kept.words[1], 0xabcU);
  EXPECT_DOUBLE_EQ(kept.seconds, 800e-9);
  EXPECT_DOUBLE_EQ(kept.library_seconds, 1000e-9);
  EXPECT_EQ(kept.rows, 64);
  EXPECT_EQ(kept.cols, 32);
  EXPECT_EQ(kept.inner, 16);
  EXPECT_TRUE(kept.trans_b && !kept.trans_a && !kept.accumulate && !kept.has_bias);
  EXPECT_EQ(kept.format, NumberFormat::kBf16);
}

// 981 of 1,000 is less than 2 % faster.
TEST_F(GemmAlgorithmsTest, KeepsTheLibrarysOwnUnlessAnotherIsTwoPercentFaster) {
  fake.ns = {1000, 981, 1000};
  EXPECT_EQ(Tune({Product(64, 32, 16)}).of.at(0).words[0], 0U);
  fake.ns = {1000, 979, 1000};
  EXPECT_EQ(Tune({Product(64, 32, 16)}).of.at(0).words[0], 1U);
}

TEST_F(GemmAlgorithmsTest, LeavesOutWhatTheLibraryRefuses) {
  fake.ns = {1000, 100, 900};
  fake.refused = {1};
  EXPECT_EQ(Tune({Product(64, 32, 16)}).of.at(0).words[0], 2U);
  fake.refused = {0, 1, 2};
  EXPECT_TRUE(Tune({Product(64, 32, 16)}).of.empty());
}

// 2 launches to warm up and 5 rounds of 4, for 2 algorithms; equal products once.
TEST_F(GemmAlgorithmsTest, TimesEachProductOnce) {
  fake.ns = {1000, 900};
  FtGemm with_bias = Product(8, 8, 8), sliced = Product(4, 4, 4);
  with_bias.bias = &objects;
  sliced.lda += 8;  // such rows are not stored
  const GemmAlgorithms tuned =
      Tune({Product(8, 8, 8), Product(8, 8, 8), with_bias, sliced, Product(8, 8, 8, FT_F32)});
  EXPECT_EQ(tuned.of.size(), 3U);
  EXPECT_EQ(fake.gemms, 3 * 2 * (2 + 5 * 4));
}

// A launch of 15 ms comes alone in its turn. The algorithm that takes twice as long is not timed
// again.
TEST_F(GemmAlgorithmsTest, TakesFewerLaunchesOfLongProducts) {
  fake.ns = {15'000'000, 30'000'000};
  const GemmAlgorithms tuned = Tune({Product(8, 8, 8)});
  ASSERT_EQ(tuned.of.size(), 1U);
  EXPECT_DOUBLE_EQ(tuned.of[0].seconds, 15e-3);
  EXPECT_EQ(fake.gemms, 2 * 2 + 5);
}

TEST_F(GemmAlgorithmsTest, LeavesProductsToTheLibraryWhenTimeIsSpent) {
  fake.ns = {1000, 900};
  int asked = 0;
  const std::vector<FtGemm> products{Product(8, 8, 8), Product(16, 8, 8)};
  const Result<GemmAlgorithms> tuned =
      TuneGemms(api_, products, {.is_over = [&] { return ++asked > 1; }});
  ASSERT_TRUE(tuned.has_value());
  EXPECT_EQ(tuned->of.size(), 1U);
}

// An activation with and without its stored input, its derivative, and row sums.
TEST_F(GemmAlgorithmsTest, OfProductsWithPartsAreTheirOwn) {
  fake.ns = {1000, 900};
  FtGemm activated = Product(8, 8, 8), kept = activated, slope = activated, sums = activated;
  activated.epilogue = kept.epilogue = FT_EPILOGUE_ACTIVATE, slope.epilogue = FT_EPILOGUE_SLOPE;
  kept.aux = slope.aux = objects, kept.ld_aux = slope.ld_aux = 8;
  sums.row_sums = objects, sums.row_sums_dtype = FT_F32;
  const GemmAlgorithms tuned = Tune({Product(8, 8, 8), activated, kept, slope, sums, sums});
  ASSERT_EQ(tuned.of.size(), 5U);
  EXPECT_EQ(tuned.of[1].epilogue, GemmEpilogue::kActivate);
  EXPECT_TRUE(!tuned.of[1].has_aux && tuned.of[2].has_aux && tuned.of[3].has_aux);
  EXPECT_EQ(tuned.of[3].epilogue, GemmEpilogue::kSlope);
  EXPECT_TRUE(tuned.of[4].has_row_sums);
  EXPECT_EQ(FindAlgorithm(tuned, kept), &tuned.of[2]);
}

// The library computes the plain product, and a kernel the rest.
TEST_F(GemmAlgorithmsTest, OfPartsThatTheLibraryLacksAreThoseOfTheProductAlone) {
  fake.ns = {1000, 900};
  fake.takes_sums = false;
  FtGemm sums = Product(8, 8, 8);
  sums.row_sums = objects;
  const GemmAlgorithms tuned = Tune({sums});
  ASSERT_EQ(tuned.of.size(), 1U);
  EXPECT_EQ(FindAlgorithm(tuned, sums), nullptr);
  EXPECT_EQ(FindAlgorithm(tuned, Product(8, 8, 8)), &tuned.of[0]);
  fake.used.clear();
  const std::vector<FtGemm> gemms{sums};
  ASSERT_TRUE(UseGemmAlgorithms(api_, queue_, tuned, gemms).has_value());
  EXPECT_EQ(fake.used, std::vector<std::uint64_t>{1});
}

TEST_F(GemmAlgorithmsTest, OfADeviceWithoutALibraryAreNone) {
  const std::vector<FtGemm> products{Product(8, 8, 8)};
  const Result<GemmAlgorithms> tuned = TuneGemms(CpuDeviceApi(), products, {});
  ASSERT_TRUE(tuned.has_value());
  EXPECT_EQ(*tuned, GemmAlgorithms{});
}

TEST_F(GemmAlgorithmsTest, EndWhenStopped) {
  fake.ns = {1000};
  TuneOptions options;
  options.stop = [] { return true; };
  const std::vector<FtGemm> products{Product(8, 8, 8)};
  const Result<GemmAlgorithms> tuned = TuneGemms(api_, products, options);
  ASSERT_FALSE(tuned.has_value());
  EXPECT_EQ(tuned.error().code, ErrorCode::kAborted);
}

TEST_F(GemmAlgorithmsTest, AreFoundBySizesPartsAndFormats) {
  fake.ns = {1000};
  FtGemm tf32 = Product(8, 8, 8, FT_F32);
  tf32.compute = FT_TF32;
  const GemmAlgorithms kept = Tune({Product(8, 8, 8), tf32});
  EXPECT_EQ(FindAlgorithm(kept, Product(8, 8, 8)), &kept.of[0]);
  EXPECT_EQ(FindAlgorithm(kept, tf32), &kept.of[1]);
  EXPECT_EQ(FindAlgorithm(kept, Product(8, 8, 8, FT_F32)), nullptr);
  EXPECT_EQ(FindAlgorithm(kept, Product(8, 8, 16)), nullptr);
  FtGemm other = Product(8, 8, 8);
  other.accumulate = 1;
  EXPECT_EQ(FindAlgorithm(kept, other), nullptr);
  other = Product(8, 8, 8), other.c_dtype = FT_F32;
  EXPECT_EQ(FindAlgorithm(kept, other), nullptr);
}

TEST_F(GemmAlgorithmsTest, AreUsedByAQueueForItsProducts) {
  fake.ns = {1000, 900, 800};
  const GemmAlgorithms kept = Tune({Product(8, 8, 8)});
  fake.used.clear();
  const std::vector<FtGemm> gemms{Product(8, 8, 8), Product(16, 8, 8)};
  ASSERT_TRUE(UseGemmAlgorithms(api_, queue_, kept, gemms).has_value());
  EXPECT_EQ(fake.used, std::vector<std::uint64_t>{2});
  fake.used.clear();
  fake.refused = {2};  // e.g. by another driver: no error and no choice
  ASSERT_TRUE(UseGemmAlgorithms(api_, queue_, kept, gemms).has_value());
  EXPECT_TRUE(fake.used.empty());
}

TEST_F(GemmAlgorithmsTest, OfAnotherVersionAreNotUsedAndSaidToBe) {
  fake.ns = {1000, 900};
  const GemmAlgorithms kept = Tune({Product(8, 8, 8)});
  EXPECT_EQ(WhyNotUsed(api_, kept), "");
  EXPECT_EQ(WhyNotUsed(CpuDeviceApi(), GemmAlgorithms{}), "");
  EXPECT_EQ(WhyNotUsed(CpuDeviceApi(), kept),
            "the profile's algorithms of GEMMs are those of fakeLt-7, and cpu has no such library: "
            "the library chooses; calibrate again");
  fake.library = "fakeLt-8";
  EXPECT_EQ(WhyNotUsed(api_, kept),
            "the profile's algorithms of GEMMs are those of fakeLt-7, and this device has "
            "fakeLt-8: the library chooses; calibrate again");
  fake.used.clear();
  const std::vector<FtGemm> gemms{Product(8, 8, 8)};
  ASSERT_TRUE(UseGemmAlgorithms(api_, queue_, kept, gemms).has_value());
  EXPECT_TRUE(fake.used.empty());
}

TEST_F(GemmAlgorithmsTest, LibrariesThatLackScalesOfBlocksAreNamed) {
  fake.library = "cublasLt-130100";
  EXPECT_EQ(WhyNoLibraryBlocks(api_, 90), "");
  EXPECT_EQ(WhyNoLibraryBlocks(CpuDeviceApi(), 0), "");
  EXPECT_EQ(WhyNoLibraryBlocks(api_, 89),
            "products of codes with scales of blocks are those of own kernels: cuBLASLt has them "
            "for compute capability 9.0 alone, this GPU has 8.9");
  fake.library = "cublasLt-120803";
  EXPECT_EQ(WhyNoLibraryBlocks(api_, 90),
            "products of codes with scales of blocks are those of own kernels: cublasLt-120803 has "
            "none, cuBLASLt has them from CUDA 12.9 on");
}

// Runs the CPU's kernels on a device that claims to have a library.
TEST_F(GemmAlgorithmsTest, OfAProfileAreUsedByARun) {
  FtDeviceApi api = CpuDeviceApi();
  api.gemm_library = Library, api.gemm_algorithms = Algorithms, api.gemm_use = UseIt;
  const auto program = Compile(TinyGpt(), TinyPlan());
  ASSERT_TRUE(program.has_value()) << program.error().message;
  TrainingOptions options;
  options.steps = 1;
  options.api = &api;
  options.gemm_algorithms.library = fake.library;
  for (const Block& block : program->blocks) {
    for (const Op& op : block.ops) {
      if (op.name != "mlp.up") continue;
      GemmAlgorithm kept;
      kept.rows = op.shape.rows, kept.cols = op.shape.cols, kept.inner = op.shape.inner;
      kept.trans_b = kept.has_bias = true;
      kept.words = {5};
      options.gemm_algorithms.of.push_back(kept);
    }
  }
  ASSERT_FALSE(options.gemm_algorithms.of.empty());
  TrainTiny(TinyGpt(), TinyPlan(), options);
  EXPECT_FALSE(fake.used.empty());
  EXPECT_EQ(std::set<std::uint64_t>(fake.used.begin(), fake.used.end()),
            (std::set<std::uint64_t>{5}));
  fake.used.clear();
  fake.library = "fakeLt-8";
  TrainTiny(TinyGpt(), TinyPlan(), options);
  EXPECT_TRUE(fake.used.empty());
}

}  // namespace
}  // namespace foretrain
