// Host time of graph launches, on a fake device whose times the test sets.
#include "runtime/calibrate/graph_launches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "kernels/cpu/cpu_device.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

// A launch takes 3 us plus 5 ns for each kernel. The first launch takes 1 ms more, and every tenth
// is delayed by 50 us.
struct Fake {
  std::int64_t now_ns = 0;
  bool notes = false;  // between graph_begin and graph_end
  int noted = 0;
  std::map<const FtGraph*, int> kernels;  // of graphs
  std::map<const FtGraph*, int> launches;
  int calls = 0, fail_at = -1;
  int alive = 0;
};
Fake fake;
char graphs[4];  // whose addresses stand for graphs

bool Fails() { return fake.calls++ == fake.fail_at; }
FtStatus Begin(FtQueue*) {
  fake.notes = true;
  fake.noted = 0;
  return Fails() ? FT_FAILED : FT_OK;
}
FtStatus Gelu(FtQueue*, const FtGelu* g) {
  EXPECT_NE(g->x, g->out);
  fake.noted += fake.notes ? 1 : 0;
  return FT_OK;
}
FtStatus End(FtQueue*, FtGraph** out) {
  fake.notes = false;
  *out = nullptr;
  if (Fails()) return FT_FAILED;
  *out = reinterpret_cast<FtGraph*>(&graphs[fake.kernels.size()]);
  fake.kernels[*out] = fake.noted;
  ++fake.alive;
  return FT_OK;
}
FtStatus Launch(FtQueue*, FtGraph* graph) {
  if (Fails()) return FT_FAILED;
  const int before = fake.launches[graph]++;
  fake.now_ns += 3'000 + 5 * fake.kernels[graph];
  if (before == 0) fake.now_ns += 1'000'000;
  if (before % 10 == 9) fake.now_ns += 50'000;
  return FT_OK;
}
void Destroy(FtGraph*) { --fake.alive; }
FtStatus Synchronize(FtQueue*) {
  fake.now_ns += 20'000;
  return FT_OK;
}

class FakeClock : public RunClock {
 public:
  std::int64_t Now() const override { return fake.now_ns; }
  bool Wait(std::unique_lock<std::mutex>&, WaitPoint&, std::int64_t) override { return false; }
  void Notify(WaitPoint&) override {}
};

FtDeviceApi FakeDevice() {
  fake = {};
  FtDeviceApi api = CpuDeviceApi();
  api.graph_begin = &Begin;
  api.graph_end = &End;
  api.graph_launch = &Launch;
  api.graph_destroy = &Destroy;
  api.gelu_forward = &Gelu;
  api.queue_synchronize = &Synchronize;
  return api;
}

TEST(GraphLaunches, AreALineThroughTwoSizes) {
  const FtDeviceApi api = FakeDevice();
  const auto times = TimeGraphLaunches(api, 0, FakeClock());
  ASSERT_TRUE(times.has_value()) << times.error().message;
  ASSERT_TRUE(times->has_value());
  EXPECT_NEAR((*times)->launch_s, 3e-6, 1e-12);
  EXPECT_NEAR((*times)->op_s, 5e-9, 1e-15);
  EXPECT_EQ(fake.alive, 0);
}

TEST(GraphLaunches, AreNoneWithoutGraphs) {
  const auto times = TimeGraphLaunches(CpuDeviceApi(), 0, FakeClock());
  ASSERT_TRUE(times.has_value());
  EXPECT_FALSE(times->has_value());
}

// A device that cannot capture a graph is no error, because the executor then runs op by op. A
// failed launch is.
TEST(GraphLaunches, WhicheverCallFailsNothingIsLeftBehind) {
  for (int call = 0; call < 8; ++call) {
    const FtDeviceApi api = FakeDevice();
    fake.fail_at = call;
    const auto times = TimeGraphLaunches(api, 0, FakeClock());
    if (call < 2) {
      ASSERT_TRUE(times.has_value());
      EXPECT_FALSE(times->has_value());
    } else {
      ASSERT_FALSE(times.has_value());
      EXPECT_THAT(times.error().message, HasSubstr("launch a graph"));
    }
    EXPECT_EQ(fake.alive, 0);
  }
}

TEST(GraphLaunches, StopWhenAsked) {
  const FtDeviceApi api = FakeDevice();
  int asked = 0;
  const auto times = TimeGraphLaunches(api, 0, FakeClock(), [&] { return ++asked == 5; });
  ASSERT_FALSE(times.has_value());
  EXPECT_EQ(times.error().code, ErrorCode::kAborted);
}

}  // namespace
}  // namespace foretrain
