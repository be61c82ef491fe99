// Sampling of hardware counters over the tests' libcupti, and the choice of counters by the real
// one, which knows chips without having them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#if FORETRAIN_HAVE_CUPTI
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <set>
#include <string>
#include <thread>

#include "tests/paths.h"
#include "tests/profiler/cuda/fake_cupti_library.h"

#if FT_HAVE_PM_SAMPLING
namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr std::int64_t kInterval = 1'000'000;

struct CounterSamplerTest : testing::Test {
  void SetUp() override { ResetFakeCupti(); }

  // `devices`: 0 to devices - 1.
  FtStatus Open(std::int32_t devices = 1) {
    std::vector<std::int32_t> numbers;
    for (std::int32_t i = 0; i < devices; ++i) numbers.push_back(i);
    return sampler.Open(Library(), numbers, kInterval, why, sizeof why);
  }
  static void* Library() { return dlopen(TestPlugin("cupti").c_str(), RTLD_NOW | RTLD_LOCAL); }
  std::vector<FtCounterSample> Drained(std::int64_t capacity = 1000) {
    std::vector<FtCounterSample> all, part(static_cast<std::size_t>(capacity));
    for (std::int64_t count = capacity; count == capacity;) {
      EXPECT_EQ(sampler.Drain(part.data(), capacity, &count, why, sizeof why), FT_OK) << why;
      all.insert(all.end(), part.begin(), part.begin() + count);
    }
    return all;
  }
  // Samples for about `ms` milliseconds.
  void SampleFor(int ms) {
    ASSERT_EQ(sampler.Start(why, sizeof why), FT_OK) << why;
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    ASSERT_EQ(sampler.Stop(why, sizeof why), FT_OK) << why;
  }
  static std::int64_t Now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  FakeCupti& fake = TheFakeCupti();
  CounterSampler sampler;
  char why[512] = "";
};

TEST_F(CounterSamplerTest, GivesEachCounterAValueForEachInterval) {
  ASSERT_EQ(Open(2), FT_OK) << why;
  const std::int64_t before = Now();
  SampleFor(20);
  const std::int64_t after = Now();
  std::map<std::pair<int, std::string>, std::vector<FtCounterSample>> series;
  for (const FtCounterSample& sample : Drained(/*capacity=*/7)) {
    series[{sample.device, sample.name}].push_back(sample);
  }
  EXPECT_THAT(series, SizeIs(2 * 9));
  for (const auto& [name, samples] : series) {
    EXPECT_GE(samples.size(), 19U);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      // The fake stamps by another clock of the host, which may move by some microseconds.
      EXPECT_NEAR(
          static_cast<double>(samples[i].start_ns),
          static_cast<double>(samples[0].start_ns + static_cast<std::int64_t>(i) * kInterval), 1e5);
      EXPECT_GT(samples[i].start_ns, before - 100'000);
      EXPECT_LT(samples[i].start_ns + kInterval, after + 100'000);
    }
  }
  // The fake's constants are the metrics' places in the list: percent become shares.
  EXPECT_DOUBLE_EQ((series[{0, "gpu_tensor_active_share"}].front().value), 0.01);
  EXPECT_DOUBLE_EQ((series[{1, "gpu_nvlink_received_bytes_per_s"}].front().value), 5.0);
  EXPECT_TRUE(Drained().empty());
}

// A decoded image has room for 1,024 samples.
TEST_F(CounterSamplerTest, EmptiesAFullImageAndGoesOn) {
  ASSERT_EQ(sampler.Open(Library(), std::array<std::int32_t, 1>{0}, 10'000, why, sizeof why),
            FT_OK);
  SampleFor(30);
  EXPECT_GE(Drained().size(), 9U * 2'900);
}

TEST_F(CounterSamplerTest, TellsTheShareOfTimeInWhichKernelsRan) {
  ASSERT_EQ(Open(), FT_OK) << why;
  ASSERT_EQ(sampler.Start(why, sizeof why), FT_OK) << why;
  const auto now = static_cast<std::uint64_t>(Now());
  // From now to in 10 ms, on this device; the other is another's.
  fake.busy = {{0, now, now + 10'000'000}, {1, now, now + 1'000'000'000}};
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  ASSERT_EQ(sampler.Stop(why, sizeof why), FT_OK) << why;
  double busy_s = 0;
  for (const FtCounterSample& sample : Drained()) {
    if (sample.name == std::string("gpu_sm_active_share")) busy_s += sample.value * 1e-3;
  }
  EXPECT_NEAR(busy_s, 0.01, 0.002);
}

TEST_F(CounterSamplerTest, LeavesOutCountersThatTheChipLacksOrThatNeedASecondPass) {
  SamplingTable table;
  ASSERT_TRUE(FindSampling(Library(), table, why, sizeof why)) << why;
  const auto names = [&](const char* chip) {
    CounterConfig config(table);
    EXPECT_TRUE(config.Choose(chip, {}, why, sizeof why)) << why;
    EXPECT_EQ(config.metrics().size(), config.counters().size());
    std::vector<std::string> chosen;
    for (const HardwareCounter& counter : config.counters()) chosen.emplace_back(counter.name);
    return chosen;
  };
  EXPECT_THAT(names("GB202"), SizeIs(7));  // without NVLink
  fake.counters_a_pass = 2;
  EXPECT_THAT(names("GH100"), ElementsAre("gpu_sm_active_share", "gpu_tensor_active_share"));
  fake.counters_a_pass = 1;
  fake.failing = "ProfilerHostGetNumOfPasses";
  CounterConfig none(table);
  EXPECT_FALSE(none.Choose("GH100", {}, why, sizeof why));
  EXPECT_THAT(why, HasSubstr("count passes"));
}

TEST_F(CounterSamplerTest, CountsCyclesOnChipsWithoutAClock) {
  fake.chip = "GA100";
  EXPECT_EQ(Open(), FT_OK) << why;
}

TEST_F(CounterSamplerTest, ReadsTimesOfEitherClockOfTheHost) {
  constexpr std::int64_t kMonotonic = 5'000'000'000'000, kRealtime = 1'700'000'000'000'000'000;
  std::int64_t time_ns = kMonotonic - 1'000;
  EXPECT_TRUE(ToMonotonic(kMonotonic, kRealtime, time_ns));
  EXPECT_EQ(time_ns, kMonotonic - 1'000);
  time_ns = kRealtime - 2'000;
  EXPECT_TRUE(ToMonotonic(kMonotonic, kRealtime, time_ns));
  EXPECT_EQ(time_ns, kMonotonic - 2'000);
  time_ns = kRealtime / 2;
  EXPECT_FALSE(ToMonotonic(kMonotonic, kRealtime, time_ns));
}

TEST_F(CounterSamplerTest, SaysInOneSentenceWhyItCannotSample) {
  for (const char* call :
       {"ProfilerInitialize", "DeviceGetChipName", "PmSamplingGetCounterAvailability",
        "ProfilerHostInitialize", "ProfilerHostConfigAddMetrics", "ProfilerHostGetConfigImageSize",
        "ProfilerHostGetConfigImage", "PmSamplingEnable", "PmSamplingSetConfig",
        "PmSamplingGetCounterDataSize", "PmSamplingCounterDataImageInitialize"}) {
    fake.failing = call;
    CounterSampler other;
    EXPECT_EQ(other.Open(Library(), std::array<std::int32_t, 1>{0}, kInterval, why, sizeof why),
              FT_UNSUPPORTED)
        << call;
    EXPECT_THAT(why, HasSubstr("CUPTI_ERROR_OF_THE_TEST")) << call;
    // Nothing is left to call.
    std::int64_t count = 7;
    EXPECT_EQ(other.Start(why, sizeof why), FT_OK);
    EXPECT_EQ(other.Drain(nullptr, 0, &count, why, sizeof why), FT_OK);
    EXPECT_EQ(count, 0);
  }
}

TEST_F(CounterSamplerTest, NamesTheRemedyOfMissingPermissionAndOfAnotherProfiler) {
  fake.failing = "PmSamplingGetCounterAvailability";
  fake.failure = CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
  EXPECT_EQ(Open(), FT_UNSUPPORTED);
  EXPECT_THAT(why, HasSubstr("NVreg_RestrictProfilingToAdminUsers=0"));
  fake.failing = "PmSamplingEnable";
  fake.failure = CUPTI_ERROR_INVALID_OPERATION;
  CounterSampler other;
  EXPECT_EQ(other.Open(Library(), std::array<std::int32_t, 1>{0}, kInterval, why, sizeof why),
            FT_UNSUPPORTED);
  EXPECT_THAT(why, HasSubstr("another profiler"));
}

TEST_F(CounterSamplerTest, EndsWhereACallFailsAndNamesIt) {
  ASSERT_EQ(Open(), FT_OK) << why;
  fake.failing = "PmSamplingStart";
  EXPECT_EQ(sampler.Start(why, sizeof why), FT_FAILED);
  EXPECT_THAT(why, HasSubstr("start sampling"));
  fake.failing = "";
  ASSERT_EQ(sampler.Start(why, sizeof why), FT_OK);
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  std::array<FtCounterSample, 4> room{};
  std::int64_t count = 0;
  for (const auto& [call, text] :
       {std::pair("PmSamplingDecodeData", "decode samples"),
        std::pair("PmSamplingGetCounterDataInfo", "count samples"),
        std::pair("PmSamplingCounterDataGetSampleInfo", "read the time of a sample"),
        std::pair("ProfilerHostEvaluateToGpuValues", "compute counters")}) {
    fake.failing = call;
    EXPECT_EQ(sampler.Drain(room.data(), 4, &count, why, sizeof why), FT_FAILED) << call;
    EXPECT_THAT(why, HasSubstr(text));
    EXPECT_EQ(count, 0);
  }
  fake.failing = "";
  fake.overflow = true;
  EXPECT_EQ(sampler.Drain(room.data(), 4, &count, why, sizeof why), FT_FAILED);
  EXPECT_THAT(why, HasSubstr("sample less often"));
  fake.overflow = false;
  fake.sample_shift_ns = 1'000'000'000'000'000'000;
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  EXPECT_EQ(sampler.Drain(room.data(), 4, &count, why, sizeof why), FT_FAILED);
  EXPECT_THAT(why, HasSubstr("no clock"));
  fake.failing = "PmSamplingStop";
  EXPECT_EQ(sampler.Stop(why, sizeof why), FT_FAILED);
  EXPECT_THAT(why, HasSubstr("stop sampling"));
}

TEST_F(CounterSamplerTest, OpensOnceAndNeedsALibraryWithSampling) {
  ASSERT_EQ(Open(), FT_OK) << why;
  EXPECT_EQ(Open(), FT_UNSUPPORTED);
  EXPECT_THAT(why, HasSubstr("earlier run"));
  CounterSampler other;
  void* const c = dlopen("libc.so.6", RTLD_NOW | RTLD_LOCAL);
  EXPECT_EQ(other.Open(c, {}, kInterval, why, sizeof why), FT_UNSUPPORTED);
  EXPECT_THAT(why, HasSubstr("CUDA 12.6 or later"));
}

TEST_F(CounterSamplerTest, NeedsARecordingOfKernels) {
  CudaCapture capture{MakeSurroundings()};
  EXPECT_EQ(capture.OpenCounters(std::array<std::int32_t, 1>{0}, kInterval, why, sizeof why),
            FT_UNSUPPORTED);
  ASSERT_EQ(capture.Open(FT_CAPTURE_FULL, why, sizeof why), FT_OK) << why;
  EXPECT_EQ(capture.OpenCounters(std::array<std::int32_t, 1>{0}, kInterval, why, sizeof why), FT_OK)
      << why;
  EXPECT_EQ(capture.counters().Start(why, sizeof why), FT_OK) << why;
}

// libcupti 13.0 without a GPU: an H100 samples all counters in one pass.
TEST_F(CounterSamplerTest, FindsAllCountersOfAnH100InTheRealLibrary) {
  const std::string name = "libcupti.so." + std::to_string(CUDART_VERSION / 1000);
  void* const real = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  SamplingTable table;
  if (real == nullptr || !FindSampling(real, table, why, sizeof why)) {
    GTEST_SKIP() << name << " does not load here, or cannot sample"
                 << "; with the CUDA toolkit's libraries in LD_LIBRARY_PATH it would";
  }
  for (const auto& [chip, counters] :
       {std::pair("GH100", 9U), std::pair("GA100", 9U), std::pair("GB100", 7U)}) {
    CounterConfig config(table);
    ASSERT_TRUE(config.Choose(chip, {}, why, sizeof why)) << why;
    EXPECT_EQ(config.counters().size(), counters) << chip;
    EXPECT_FALSE(config.image().empty());
  }
  CounterConfig unknown(table);
  EXPECT_FALSE(unknown.Choose("no such chip", {}, why, sizeof why));
  EXPECT_THAT(why, HasSubstr("CUPTI: prepare counters"));
}

}  // namespace
}  // namespace foretrain
#endif
#else
TEST(CounterSampler, IsLeftOut) {
  GTEST_SKIP() << "this build found no cupti.h of a CUDA toolkit: configure where it is";
}
#endif
