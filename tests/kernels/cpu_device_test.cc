#include "kernels/cpu/cpu_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cpu/cpu_memory.h"
#include "tests/kernels/support.h"

namespace foretrain::test {
namespace {

using testing::HasSubstr;

struct DeviceTest : testing::Test {
  const FtDeviceApi& api = CpuDeviceApi();
  char why[256] = "";
};

TEST_F(DeviceTest, TableIsComplete) {
  EXPECT_EQ(api.version, FT_DEVICE_API_VERSION);
  EXPECT_EQ(api.asynchronous, 0);
  EXPECT_STREQ(api.name, "cpu");
  std::int32_t count = 0;
  EXPECT_EQ(api.device_count(&count, why, sizeof why), FT_OK);
  EXPECT_EQ(count, 1);
  // Entries of the table from device_count to quantize_tensor are set, except those of asynchronous
  // devices. Entries for a library's algorithms, capture and graphs are not set.
  const auto place = [](const auto& entry) { return reinterpret_cast<void* const*>(&entry); };
  const auto* begin = place(api.device_count);
  for (const auto* entry = begin; entry != place(api.gemm_library); ++entry) {
    const bool asynchronous = entry >= place(api.queue_reserve) && entry < place(api.supports);
    EXPECT_EQ(*entry == nullptr, asynchronous) << "entry " << entry - begin;
  }
  const auto* end = reinterpret_cast<void* const*>(&api + 1);
  for (const auto* entry = place(api.gemm_library); entry != end; ++entry) {
    EXPECT_EQ(*entry, nullptr) << "entry " << entry - begin;
  }
}

TEST_F(DeviceTest, SupportsEveryKernelInFp32AllButTheLossIn16BitsAndProductsIn8) {
  for (int kernel = 0; kernel < FT_KERNEL_COUNT; ++kernel) {
    EXPECT_EQ(api.supports(static_cast<FtKernel>(kernel), FT_F32), 1) << kernel;
    const bool scaled = kernel == FT_KERNEL_GEMM || kernel == FT_KERNEL_GROUPED_GEMM ||
                        kernel == FT_KERNEL_QUANTIZE_TENSOR;
    EXPECT_EQ(api.supports(static_cast<FtKernel>(kernel), FT_FP8), scaled ? 1 : 0) << kernel;
  }
  for (const FtDtype dtype : {FT_BF16, FT_F16}) {
    EXPECT_EQ(api.supports(FT_KERNEL_GEMM, dtype), 1);
    EXPECT_EQ(api.supports(FT_KERNEL_VOCAB_LOSS, dtype), 0);
  }
  EXPECT_EQ(api.supports(FT_KERNEL_DROPOUT, FT_U8), 1);
  EXPECT_EQ(api.supports(FT_KERNEL_GEMM, FT_U8), 0);
  EXPECT_EQ(api.supports(FT_KERNEL_COUNT, FT_F32), 0);
}

TEST_F(DeviceTest, MemoryIsWhatTheMachineHas) {
  FtMemory memory{};
  ASSERT_EQ(api.memory(0, &memory, why, sizeof why), FT_OK) << why;
  EXPECT_GT(memory.free_bytes, 0);
  EXPECT_LE(memory.free_bytes, memory.total_bytes);
}

TEST_F(DeviceTest, AllocatesAlignedMemory) {
  for (const std::int64_t bytes : {0L, 1L, 1000L, 5L << 20}) {
    void* pointer = nullptr;
    ASSERT_EQ(api.allocate(0, bytes, &pointer, why, sizeof why), FT_OK) << why;
    ASSERT_NE(pointer, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pointer) % 256, 0U);
    EXPECT_EQ(api.release(0, pointer, why, sizeof why), FT_OK);
  }
}

TEST_F(DeviceTest, OutOfMemorySaysWhatWasAskedAndWhatThereIs) {
  void* pointer = this;
  EXPECT_EQ(api.allocate(0, std::int64_t{1} << 50, &pointer, why, sizeof why), FT_OUT_OF_MEMORY);
  EXPECT_EQ(pointer, nullptr);
  EXPECT_THAT(why, HasSubstr("asked 1048576.00 GiB, free "));
}

TEST_F(DeviceTest, RefusesOtherDevices) {
  FtMemory memory{};
  FtQueue* queue = nullptr;
  EXPECT_EQ(api.memory(1, &memory, why, sizeof why), FT_FAILED);
  EXPECT_STREQ(why, "cpu device 1: there is only device 0");
  EXPECT_EQ(api.queue_create(-1, &queue, why, sizeof why), FT_FAILED);
  EXPECT_EQ(queue, nullptr);
}

TEST_F(DeviceTest, QueuesCopyAndFillAtOnceAndEventsAreDone) {
  FtQueue* queue = nullptr;
  FtEvent* event = nullptr;
  ASSERT_EQ(api.queue_create(0, &queue, why, sizeof why), FT_OK) << why;
  ASSERT_EQ(api.event_create(0, 0, &event, why, sizeof why), FT_OK) << why;
  EXPECT_STREQ(api.queue_error(queue), "");
  const Floats from = Random(33, 1);
  Floats to(33);
  EXPECT_EQ(api.copy(queue, to.data(), from.data(), 33 * 4), FT_OK);
  EXPECT_EQ(to, from);
  EXPECT_EQ(api.fill(queue, to.data(), 0, 32 * 4), FT_OK);
  EXPECT_EQ(to[31], 0.0F);
  EXPECT_EQ(to[32], from[32]);
  EXPECT_EQ(api.event_record(queue, event), FT_OK);
  EXPECT_EQ(api.event_wait(queue, event), FT_OK);
  EXPECT_EQ(api.queue_synchronize(queue), FT_OK);
  EXPECT_EQ(api.copy(queue, nullptr, from.data(), 4), FT_FAILED);
  EXPECT_THAT(api.queue_error(queue), HasSubstr("cpu copy: 4 bytes at"));
  api.event_destroy(event);
  api.queue_destroy(queue);
}

TEST(ParseMemInfo, ReadsKilobytes) {
  FtMemory memory{};
  ASSERT_TRUE(ParseMemInfo("MemTotal:       24000000 kB\nMemFree: 1 kB\nMemAvailable:   1024 kB\n",
                           memory));
  EXPECT_EQ(memory.total_bytes, 24'000'000LL * 1024);
  EXPECT_EQ(memory.free_bytes, 1 << 20);
}

TEST(ParseMemInfo, RefusesWhatItDoesNotUnderstand) {
  FtMemory memory{};
  EXPECT_FALSE(ParseMemInfo("", memory));
  EXPECT_FALSE(ParseMemInfo("MemTotal: 5 kB\n", memory));
  EXPECT_FALSE(ParseMemInfo("MemTotal: 5 kB\nMemAvailable: 5 MB\n", memory));
  EXPECT_FALSE(ParseMemInfo("MemTotal: 5 kB\nMemAvailable: -5 kB\n", memory));
  EXPECT_FALSE(ParseMemInfo("MemTotal: 5 kB\nMemAvailable:", memory));
  EXPECT_FALSE(ParseMemInfo("MemTotal: 5 kB\nMemAvailable: 99999999999999999999 kB", memory));
}

class EntryTest : public KernelTest {};

class CpuEntryTest : public KernelTest {
 protected:
  std::string ErrorOf(FtStatus expected, FtStatus actual) {
    EXPECT_EQ(actual, expected);
    return api_.queue_error(queue_.get());
  }
};

TEST_P(CpuEntryTest, RefusesOtherTypesBadSizesAndNullByName) {
  Floats x(64, 1.0F);
  FtGelu gelu{x.data(), nullptr, x.data(), 64, FT_F64, FT_GELU_TANH};
  EXPECT_EQ(ErrorOf(FT_UNSUPPORTED, api_.gelu_forward(queue_.get(), &gelu)),
            "cpu gelu_forward: dtype 4: this device computes in fp32 (dtype 0)");
  gelu.dtype = FT_F32;
  gelu.elements = -1;
  EXPECT_EQ(ErrorOf(FT_FAILED, api_.gelu_forward(queue_.get(), &gelu)),
            "cpu gelu_forward: elements is -1: a size cannot be negative");
  gelu.elements = 64;
  gelu.out = nullptr;
  EXPECT_EQ(ErrorOf(FT_FAILED, api_.gelu_forward(queue_.get(), &gelu)),
            "cpu gelu_forward: out is null");
  FtGemm gemm{};
  gemm.a = x.data(), gemm.b = x.data(), gemm.c = x.data();
  gemm.m = 4, gemm.n = 4, gemm.k = 4;
  gemm.lda = 3, gemm.ldb = 4, gemm.ldc = 4;
  gemm.scale = 1.0F;
  EXPECT_EQ(ErrorOf(FT_FAILED, api_.gemm(queue_.get(), &gemm)),
            "cpu gemm: lda is 3: must be at least 4");
  FtAttentionForward attention{.q = x.data(),
                               .k = x.data(),
                               .v = x.data(),
                               .out = x.data(),
                               .lse = x.data(),
                               .batch = 1,
                               .sequence = 1,
                               .row_stride = 2048,
                               .heads = 3,
                               .kv_heads = 2,
                               .head_dim = 4,
                               .dtype = FT_F32,
                               .window = 0,
                               .scale = 0.0F,
                               .value_dim = 0,
                               .alibi_heads = 0,
                               .first_head = 0,
                               .softcap = 0.0F,
                               .random = {},
                               .document_starts = nullptr};
  EXPECT_EQ(ErrorOf(FT_FAILED, api_.attention_forward(queue_.get(), &attention)),
            "cpu attention_forward: 3 heads cannot share 2 key heads evenly");
  attention.heads = 2;
  attention.head_dim = 1024;
  EXPECT_EQ(ErrorOf(FT_UNSUPPORTED, api_.attention_forward(queue_.get(), &attention)),
            "cpu attention_forward: head_dim 1024: this device takes up to 512");
  FtRope rope{};
  rope.data = x.data();
  rope.rows = 4;
  rope.row_stride = 15;
  rope.sequence = 2;
  rope.heads = 3;
  rope.head_dim = 5;
  rope.theta = 10000.0F;
  EXPECT_EQ(ErrorOf(FT_FAILED, api_.rope(queue_.get(), &rope)),
            "cpu rope: head_dim 5: rotary positions need pairs");
  rope.head_dim = 4;
  rope.theta = 0;
  EXPECT_EQ(ErrorOf(FT_FAILED, api_.rope(queue_.get(), &rope)),
            "cpu rope: theta 0: must be above 0");
  rope.stretch = FT_ROPE_QUERY_GROWTH;
  EXPECT_EQ(ErrorOf(FT_FAILED, api_.rope(queue_.get(), &rope)),
            "cpu rope: original 0 of growing queries must be above 0");
  FtAdamW adamw{};
  EXPECT_EQ(ErrorOf(FT_FAILED, api_.adamw(queue_.get(), &adamw)),
            "cpu adamw: step is 0: must be at least 1");
  FtBiasGrad huge{x.data(), x.data(), INT64_MAX, 64, 0, FT_F32, FT_F32};
  EXPECT_THAT(ErrorOf(FT_FAILED, api_.bias_grad(queue_.get(), &huge)),
              HasSubstr("more than this machine can address"));
  EXPECT_EQ(x, Floats(64, 1.0F));
}

std::int64_t ThreadsOfThisProcess() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

// One layer's worth of large and small kernels: all that two ranks can run at the same time.
std::vector<std::uint32_t> RunMany(const Variant& variant, std::size_t offset) {
  const FtDeviceApi& api = ApiOf(variant);
  const Queue queue = MakeQueue(variant);
  constexpr std::int64_t kSize = 300;
  // The first `offset` floats are unused, which moves tensors relative to cache lines.
  const Floats noise = Random(kSize * kSize + 64, 1);
  Floats a(noise.begin(), noise.begin() + kSize * kSize);
  a.insert(a.begin(), offset, 0.0F);
  Floats c(offset + kSize * kSize);
  FtGemm gemm{};
  gemm.a = a.data() + offset, gemm.b = a.data() + offset, gemm.bias = a.data() + offset,
  gemm.c = c.data() + offset;
  gemm.m = kSize, gemm.n = kSize, gemm.k = kSize;
  gemm.lda = kSize, gemm.ldb = kSize, gemm.ldc = kSize;
  gemm.trans_b = 1, gemm.scale = 1.0F;
  EXPECT_EQ(api.gemm(queue.get(), &gemm), FT_OK);
  Floats out(offset + 100 * 300);
  Floats lse(300);
  const FtAttentionForward attention{.q = c.data() + offset,
                                     .k = c.data() + offset + 100,
                                     .v = c.data() + offset + 200,
                                     .out = out.data() + offset,
                                     .lse = lse.data(),
                                     .batch = 1,
                                     .sequence = kSize,
                                     .row_stride = kSize,
                                     .heads = 1,
                                     .kv_heads = 1,
                                     .head_dim = 100,
                                     .dtype = FT_F32,
                                     .window = 0,
                                     .scale = 0.0F,
                                     .value_dim = 0,
                                     .alibi_heads = 0,
                                     .first_head = 0,
                                     .softcap = 0.0F,
                                     .random = {},
                                     .document_starts = nullptr};
  EXPECT_EQ(api.attention_forward(queue.get(), &attention), FT_OK);
  float norm = 0.0F;
  const FtSquaredNorm squared{c.data() + offset, &norm, kSize * kSize, 0, FT_F32};
  EXPECT_EQ(api.squared_norm(queue.get(), &squared), FT_OK);
  Floats result(out.begin() + static_cast<std::ptrdiff_t>(offset), out.end());
  result.insert(result.end(), c.begin() + static_cast<std::ptrdiff_t>(offset), c.end());
  result.push_back(norm);
  return Bits(result);
}

TEST_P(EntryTest, GivesTheSameBitsOnAnyThreadAndAtAnyAddress) {
  const std::vector<std::uint32_t> expected = RunMany(GetParam(), 0);
  std::vector<std::vector<std::uint32_t>> results(3);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = RunMany(GetParam(), i == 0 ? 0 : 5 * i); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const auto& result : results) {
    EXPECT_EQ(result, expected);
  }
}

TEST_P(EntryTest, WorksInTheCallingThreadAlone) {
  const std::int64_t before = ThreadsOfThisProcess();
  RunMany(GetParam(), 0);
  EXPECT_EQ(ThreadsOfThisProcess(), before);
}

FT_TEST_ALL_VARIANTS(EntryTest);
FT_TEST_CPU_VARIANTS(CpuEntryTest);

}  // namespace
}  // namespace foretrain::test
