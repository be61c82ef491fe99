// Choice of attention kernels: timed on a device whose clock the test controls, stored, and used.
#include "runtime/device/attention_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_device.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

// A device whose attention takes a set time and computes nothing.
struct Fake {
  std::map<FtAttentionKernels, std::int64_t> ns{{FT_ATTENTION_OWN, 1000},
                                                {FT_ATTENTION_LIBRARY, 800}};
  std::int64_t refused_head_dim = 0;
  std::string library = "fakednn-7";  // empty: no library
  FtAttentionKernels current = FT_ATTENTION_OWN;
  std::int64_t clock = 0;
  std::map<const FtEvent*, std::int64_t> events;
  std::vector<std::pair<std::int64_t, FtAttentionKernels>> used;  // by head_dim, forward or not
  int forward = 0, backward = 0;                                  // launches
};
Fake fake;
char objects[8];  // their addresses stand for queues and events
int made = 0;

template <class Arguments>
FtStatus UseIt(FtQueue*, const Arguments* g, FtAttentionKernels kernels) {
  if (kernels != FT_ATTENTION_OWN && g->head_dim == fake.refused_head_dim) return FT_UNSUPPORTED;
  fake.current = kernels;
  fake.used.emplace_back(g->head_dim, kernels);
  return FT_OK;
}
template <class Arguments>
FtStatus Launch(FtQueue*, const Arguments* g) {
  // The call may write the whole tensor.
  std::memset(const_cast<float*>(g->lse), 0,
              static_cast<std::size_t>(g->batch * g->sequence * g->heads) * sizeof(float));
  fake.clock += fake.ns[fake.current];
  (std::is_same_v<Arguments, FtAttentionForward> ? fake.forward : fake.backward) += 1;
  return FT_OK;
}
FtStatus Library(char* name, std::size_t n, char* why, std::size_t why_n) {
  std::snprintf(why, why_n, "cuDNN does not load: no such file");
  if (fake.library.empty()) return FT_UNSUPPORTED;
  std::snprintf(name, n, "%s", fake.library.c_str());
  return FT_OK;
}

FtDeviceApi FakeApi() {
  FtDeviceApi api = CpuDeviceApi();
  api.name = "fake";
  api.queue_create = [](std::int32_t, FtQueue** out, char*, std::size_t) {
    *out = reinterpret_cast<FtQueue*>(&objects[0]);
    return FT_OK;
  };
  api.queue_destroy = [](FtQueue*) {};
  api.queue_error = [](const FtQueue*) { return "not of this width"; };
  api.queue_synchronize = [](FtQueue*) { return FT_OK; };
  api.event_create = [](std::int32_t, std::int32_t, FtEvent** out, char*, std::size_t) {
    *out = reinterpret_cast<FtEvent*>(&objects[1 + made++ % 4]);
    return FT_OK;
  };
  api.event_destroy = [](FtEvent*) {};
  api.event_record = [](FtQueue*, FtEvent* event) {
    fake.events[event] = fake.clock;
    return FT_OK;
  };
  api.event_elapsed = [](FtEvent* from, FtEvent* to, std::int64_t* ns, char*, std::size_t) {
    *ns = fake.events[to] - fake.events[from];
    return FT_OK;
  };
  api.fill = [](FtQueue*, void* to, std::int32_t value, std::int64_t bytes) {
    std::memset(to, value, static_cast<std::size_t>(bytes));
    return FT_OK;
  };
  api.attention_forward = Launch<FtAttentionForward>;
  api.attention_backward = Launch<FtAttentionBackward>;
  api.attention_library = Library;
  api.attention_forward_use = UseIt<FtAttentionForward>;
  api.attention_backward_use = UseIt<FtAttentionBackward>;
  return api;
}

template <class Arguments>
AttentionPass Pass(std::int32_t head_dim, FtDtype dtype = FT_BF16) {
  Arguments g{};
  g.batch = 2, g.sequence = 8, g.heads = 4, g.kv_heads = 2, g.head_dim = head_dim;
  g.row_stride = (4 + 2 * 2) * head_dim;
  g.dtype = dtype;
  return g;
}
const AttentionPass kForward = Pass<FtAttentionForward>(64);
const AttentionPass kBackward = Pass<FtAttentionBackward>(64);

class AttentionKernelsTest : public testing::Test {
 protected:
  void SetUp() override { fake = {}; }
  AttentionTimes Times(const std::vector<AttentionPass>& passes) {
    const Result<AttentionTimes> times = TimeAttention(api_, passes, {});
    EXPECT_TRUE(times.has_value()) << times.error().message;
    return times.value_or(AttentionTimes{});
  }
  Result<void> UseThem(AttentionChoice choice, const AttentionTimes& times,
                       const std::vector<AttentionPass>& passes) {
    fake.used.clear();
    return UseAttentionKernels(api_, queue_, choice, times, passes);
  }
  FtQueue* queue_ = reinterpret_cast<FtQueue*>(&objects[0]);
  const FtDeviceApi api_ = FakeApi();
};
using Used = std::vector<std::pair<std::int64_t, FtAttentionKernels>>;

// 2 launches to warm up and 5 rounds of 2, for 2 kernels; equal passes once.
TEST_F(AttentionKernelsTest, AreTimedInTurnsForEachPass) {
  const AttentionTimes times = Times({kForward, kBackward, kForward});
  EXPECT_EQ(times.library, "fakednn-7");
  ASSERT_EQ(times.of.size(), 2U);
  const AttentionTime& kept = times.of[0];
  EXPECT_EQ(kept.batch, 2);
  EXPECT_EQ(kept.sequence, 8);
  EXPECT_EQ(kept.heads, 4);
  EXPECT_EQ(kept.kv_heads, 2);
  EXPECT_EQ(kept.head_dim, 64);
  EXPECT_EQ(kept.format, NumberFormat::kBf16);
  EXPECT_FALSE(kept.backward);
  EXPECT_DOUBLE_EQ(kept.own_seconds, 1000e-9);
  EXPECT_DOUBLE_EQ(kept.library_seconds, 800e-9);
  EXPECT_TRUE(times.of[1].backward);
  EXPECT_EQ(fake.forward, 2 * (2 + 5 * 2));
  EXPECT_EQ(fake.backward, 2 * (2 + 5 * 2));
}

TEST_F(AttentionKernelsTest, AreNotTimedWhereTheLibraryIsNotAskedOrRefuses) {
  fake.refused_head_dim = 80;
  FtAttentionForward windowed = std::get<FtAttentionForward>(kForward);
  windowed.window = 4;
  EXPECT_TRUE(Times({Pass<FtAttentionForward>(80), Pass<FtAttentionForward>(64, FT_F32), windowed})
                  .of.empty());
  fake.library.clear();
  EXPECT_EQ(Times({kForward}), AttentionTimes{});
  const Result<AttentionTimes> cpu =
      TimeAttention(CpuDeviceApi(), std::vector<AttentionPass>{kForward}, {});
  ASSERT_TRUE(cpu.has_value());
  EXPECT_EQ(*cpu, AttentionTimes{});
}

TEST_F(AttentionKernelsTest, EndWhenStopped) {
  TimeAttentionOptions options;
  options.stop = [] { return true; };
  const Result<AttentionTimes> times =
      TimeAttention(api_, std::vector<AttentionPass>{kForward}, options);
  ASSERT_FALSE(times.has_value());
  EXPECT_EQ(times.error().code, ErrorCode::kAborted);
}

TEST_F(AttentionKernelsTest, AreChosenByTheirTimes) {
  AttentionTimes times = Times({kForward, kBackward});
  times.of[1].library_seconds = times.of[1].own_seconds;
  ASSERT_TRUE(
      UseThem(AttentionChoice::kAuto, times, {kForward, kBackward, Pass<FtAttentionForward>(128)})
          .has_value());
  EXPECT_EQ(fake.used, (Used{{64, FT_ATTENTION_LIBRARY}, {128, FT_ATTENTION_LIBRARY}}));
  fake.refused_head_dim = 64;  // e.g. by another driver: no error and no choice
  ASSERT_TRUE(UseThem(AttentionChoice::kAuto, times, {kForward}).has_value());
  EXPECT_EQ(fake.used, Used{});
}

TEST_F(AttentionKernelsTest, AreThoseThatAreAskedFor) {
  ASSERT_TRUE(UseThem(AttentionChoice::kLibrary, {}, {kForward, kBackward}).has_value());
  EXPECT_EQ(fake.used, (Used{{64, FT_ATTENTION_LIBRARY}, {64, FT_ATTENTION_LIBRARY}}));
  ASSERT_TRUE(UseThem(AttentionChoice::kLibraryAnyOrder, {}, {kBackward}).has_value());
  EXPECT_EQ(fake.used, (Used{{64, FT_ATTENTION_LIBRARY_ANY_ORDER}}));
  ASSERT_TRUE(UseThem(AttentionChoice::kOwn, Times({kForward}), {kForward}).has_value());
  EXPECT_EQ(fake.used, Used{});
}

TEST_F(AttentionKernelsTest, ThatAreAskedForAndMissingEndTheRun) {
  fake.refused_head_dim = 80;
  Result<void> used =
      UseThem(AttentionChoice::kLibrary, {}, {kForward, Pass<FtAttentionForward>(80)});
  ASSERT_FALSE(used.has_value());
  EXPECT_EQ(used.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(used.error().message, "attention by cuDNN: not of this width");
  fake.library.clear();
  used = UseThem(AttentionChoice::kLibrary, {}, {kForward});
  ASSERT_FALSE(used.has_value());
  EXPECT_EQ(used.error().message, "attention by cuDNN: cuDNN does not load: no such file");
  const std::vector<AttentionPass> passes{kForward};
  used = UseAttentionKernels(CpuDeviceApi(), queue_, AttentionChoice::kLibrary, {}, passes);
  ASSERT_FALSE(used.has_value());
  EXPECT_EQ(used.error().message, "attention by cuDNN: cpu has no library for attention");
}

TEST_F(AttentionKernelsTest, AreTheLibrarysForwardWithoutTimesOfItsVersion) {
  FtAttentionForward windowed = std::get<FtAttentionForward>(kForward);
  windowed.window = 4;
  ASSERT_TRUE(UseThem(AttentionChoice::kAuto, {}, {kForward, kBackward, windowed}).has_value());
  EXPECT_EQ(fake.used, (Used{{64, FT_ATTENTION_LIBRARY}}));
  AttentionTimes times = Times({kForward});
  times.of[0].library_seconds = 2 * times.of[0].own_seconds;
  ASSERT_TRUE(UseThem(AttentionChoice::kAuto, times, {kForward}).has_value());
  EXPECT_EQ(fake.used, Used{});
  fake.library = "fakednn-8";
  ASSERT_TRUE(UseThem(AttentionChoice::kAuto, times, {kForward}).has_value());
  EXPECT_EQ(fake.used, (Used{{64, FT_ATTENTION_LIBRARY}}));
}

TEST_F(AttentionKernelsTest, AreOwnWithoutALibraryAndSaidToBe) {
  EXPECT_EQ(WhyLibraryNotUsed(api_, AttentionChoice::kAuto), "");
  fake.library.clear();
  EXPECT_EQ(WhyLibraryNotUsed(api_, AttentionChoice::kAuto),
            "attention by cuDNN: cuDNN does not load: no such file");
  EXPECT_EQ(WhyLibraryNotUsed(api_, AttentionChoice::kOwn), "");
  EXPECT_EQ(WhyLibraryNotUsed(CpuDeviceApi(), AttentionChoice::kAuto), "");
  ASSERT_TRUE(UseThem(AttentionChoice::kAuto, {}, {kForward}).has_value());
  EXPECT_EQ(fake.used, Used{});
}

}  // namespace
}  // namespace foretrain
