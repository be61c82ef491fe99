// Records that processes send to rank 0 besides host spans: their devices' records, readings, and
// the clocks that relate them.
#include "runtime/processes/records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "kernels/cpu/cpu_device.h"
#include "runtime/data/token_data.h"
#include "runtime/processes/peer_clock.h"
#include "runtime/processes/process_group.h"
#include "runtime/processes/process_world.h"
#include "runtime/run/trainer.h"
#include "tests/capture_device.h"
#include "tests/runtime/ranks/free_port.h"
#include "tests/runtime/training.h"
#include "traces/metrics/data_wait.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;

struct Process {
  RecordingSink sink;
  std::optional<Error> error;
};

// A rank with its own recording device.
template <int kRank>
void RunRank(int port, const CaptureWindow& window, std::int64_t steps, Process& process) {
  const auto run = [&]() -> Result<void> {
    Plan plan = TinyPlan();
    plan.dp = 2;
    const ModelSpec model = TinyGpt();
    FT_ASSIGN(auto program, Compile(model, plan));
    FT_ASSIGN(std::shared_ptr<ProcessGroup> group,
              ProcessGroup::Join({kRank, 2, kRank, "127.0.0.1", port}, 30 * kSecond));
    FT_ASSIGN(auto data, TokenData::FromText(TrainingText(), "text", model.vocab, plan));
    RealClock clock;
    const FtDeviceApi api = WithCapture<kRank>(CpuDeviceApi());
    CaptureOptions options;
    options.window = window;
    options.ranks = {kRank};
    options.now = [&clock] { return clock.Now(); };
    options.interval_ns = 1'000'000;
    TrainJob job;
    job.program = std::make_shared<const Program>(std::move(program));
    job.steps = steps;
    job.capture = CaptureSession::Open(api, options);
    job.executor.window = window;
    job.executor.local = {{kRank, 0}};
    job.executor.world = ProcessWorldMaker(group, nullptr);
    job.executor.timeout_ns = 30 * kSecond;
    job.processes = group.get();
    FT_TRY(Train(job, api, clock, *data, process.sink));
    return {};
  };
  if (const auto end = run(); !end.has_value()) process.error = end.error();
}

struct DevicesOfProcesses : testing::Test {
  void SetUp() override {
    TheCaptureDevice<0>().Reset();
    TheCaptureDevice<1>().Reset();
  }
  // Returns what rank 0 received.
  RecordingSink& RunBoth(const CaptureWindow& window = {}, std::int64_t steps = 4) {
    const int port = FreePort();
    std::thread other([&] { RunRank<1>(port, window, steps, second_); });
    RunRank<0>(port, window, steps, first_);
    other.join();
    EXPECT_FALSE(first_.error.has_value()) << first_.error->message;
    EXPECT_FALSE(second_.error.has_value()) << second_.error->message;
    return first_.sink;
  }
  Process first_, second_;
};

bool IsLaunch(const Span& span) {
  return span.queue == Queue::kHost && span.op_class == OpClass::kHost;
}

// The spans of ops. A rank waits for data as it happens.
std::vector<Span> OpsIn(const RecordingSink& sink) {
  std::vector<Span> spans = sink.timeline.spans;
  std::erase_if(spans, [](const Span& span) { return IsDataWait(span.op); });
  return spans;
}

TEST_F(DevicesOfProcesses, RecordForRankZero) {
  TheCaptureDevice<1>().dropped = 17;
  const RecordingSink& sink = RunBoth();
  // The ops of both processes as their devices recorded them, with their launches.
  std::map<int, std::set<std::pair<std::int32_t, OpId>>> ops, launches;
  for (const Span& span : OpsIn(sink)) {
    (IsLaunch(span) ? launches : ops)[span.rank].insert({span.step, span.op});
  }
  EXPECT_GT(ops[1].size(), 100U);
  EXPECT_EQ(ops[1].size(), ops[0].size());
  EXPECT_GT(launches[1].size(), 100U);
  EXPECT_EQ(launches[1].size(), launches[0].size());
  ASSERT_EQ(sink.captures.size(), 2U);
  for (const int rank : {0, 1}) {
    const CaptureReport& report = sink.captures.at(rank);
    EXPECT_TRUE(report.records);
    EXPECT_EQ(report.problem, "");
    EXPECT_EQ(report.dropped, rank == 1 ? 17 : 0);
    EXPECT_EQ(report.counts.Coverage(), 1.0);
    EXPECT_GT(report.counts.records, 100);
    EXPECT_EQ(report.counts.launches, report.counts.records);
    ASSERT_EQ(report.kernels.rows.size(), 1U);
    EXPECT_EQ(report.kernels.rows[0].calls, report.counts.records);
    EXPECT_GE(report.clocks.size(), 2U);
  }
  EXPECT_GT(sink.captures.at(1).clock_error_ns, 0);
  EXPECT_TRUE(second_.sink.timeline.spans.empty());
  EXPECT_TRUE(second_.sink.captures.empty());
}

// Rank 1's device is a second ahead of rank 0's, and its process started at another moment. In the
// stored records, an all-reduce still ends on no side before the other side has arrived.
TEST_F(DevicesOfProcesses, AreOnOneClock) {
  const RecordingSink& sink = RunBoth();
  std::map<std::pair<std::int32_t, OpId>, std::vector<Span>> calls;
  for (const Span& span : sink.timeline.spans) {
    if (span.queue == Queue::kReduce) calls[{span.step, span.op}].push_back(span);
  }
  ASSERT_FALSE(calls.empty());
  for (const auto& [key, spans] : calls) {
    ASSERT_EQ(spans.size(), 2U);
    const std::int64_t slack_ns =
        sink.captures.at(0).clock_error_ns + sink.captures.at(1).clock_error_ns;
    EXPECT_GT(spans[0].end_ns + slack_ns, spans[1].start_ns);
    EXPECT_GT(spans[1].end_ns + slack_ns, spans[0].start_ns);
  }
  // A device's reading is rank 0's time plus the device's lead; both processes started during the
  // test.
  for (const int rank : {0, 1}) {
    for (const ClockSample& sample : sink.captures.at(rank).clocks) {
      EXPECT_GT(sample.device_ns, sample.host_ns + (5 + rank) * kSecond);
    }
  }
  const auto ahead = [&](int rank) {
    const ClockSample& sample = sink.captures.at(rank).clocks.front();
    return sample.device_ns - sample.host_ns;
  };
  const std::int64_t error_ns =
      sink.captures.at(0).clock_error_ns + sink.captures.at(1).clock_error_ns;
  EXPECT_NEAR(static_cast<double>(ahead(1) - ahead(0)), 1e9, static_cast<double>(2 * error_ns));
}

TEST_F(DevicesOfProcesses, SayWhichOfThemFails) {
  TheCaptureDevice<1>().fail_at = 60;
  const RecordingSink& sink = RunBoth();
  EXPECT_EQ(sink.captures.at(0).problem, "");
  EXPECT_THAT(sink.captures.at(1).problem, HasSubstr("recorded no further"));
  std::map<int, std::set<std::pair<std::int32_t, OpId>>> ops;
  for (const Span& span : OpsIn(sink)) {
    if (!IsLaunch(span)) ops[span.rank].insert({span.step, span.op});
  }
  EXPECT_EQ(ops[1].size(), ops[0].size());
}

// The window closes with the last step of the process's own rank; it does not know when other ranks
// finish.
TEST_F(DevicesOfProcesses, ShutTheWindowByThemselves) {
  const RecordingSink& sink = RunBoth({.first_step = 1, .end_step = 2, .ranks = {}}, 40);
  EXPECT_EQ(TheCaptureDevice<0>().stops, 1);
  EXPECT_EQ(TheCaptureDevice<1>().stops, 1);
  std::map<int, std::int64_t> spans;
  for (const Span& span : sink.timeline.spans) {
    EXPECT_EQ(span.step, 1);
    ++spans[span.rank];
  }
  // Some ops of the 38 later steps may be recorded before the window closes, but fewer than half.
  for (const int rank : {0, 1}) EXPECT_LT(sink.captures.at(rank).outside, 19 * spans[rank]);
}

TEST(ProcessRecords, OfACaptureComeAsTheyWere) {
  CaptureReport report;
  report.records = true;
  report.problem = "the device's work is recorded no further";
  report.counts.records = 7;
  report.counts.wait_ns = 8;
  report.dropped = 1;
  report.late = 2;
  report.outside = 3;
  report.clock_error_ns = 40;
  report.clocks = {{.host_ns = 10, .device_ns = 900, .width_ns = 4}};
  report.kernels.rows = {{"gemm", {.grid = {4, 1, 1}, .block = {64, 1, 1}}, 3, 300},
                         {"norm", {}, 4, 40}};
  report.kernels.ops = {{8, {0, 1}}};
  const std::string packed = PackCapture(5, report, {.host_ns = 1'000, .error_ns = 25}, {});
  RecordingSink sink;
  EXPECT_TRUE(Deliver(kCapture, packed, {.rank = 5, .world = 6}, sink));
  const CaptureReport& came = sink.captures.at(5);
  EXPECT_TRUE(came.records);
  EXPECT_EQ(came.problem, report.problem);
  EXPECT_EQ(came.counts.records, 7);
  EXPECT_EQ(came.counts.wait_ns, 8);
  EXPECT_EQ(came.dropped + 10 * came.late + 100 * came.outside, 321);
  ASSERT_EQ(came.clocks.size(), 1U);
  // Converted to rank 0's clock, with the conversion's error added on both sides.
  EXPECT_EQ(came.clocks[0].host_ns, 1'010);
  EXPECT_EQ(came.clocks[0].device_ns, 900);
  EXPECT_EQ(came.clocks[0].width_ns, 54);
  EXPECT_EQ(came.clock_error_ns, 65);
  EXPECT_EQ(came.kernels, report.kernels);
  // A truncated message is refused.
  for (std::size_t bytes = 0; bytes < packed.size(); ++bytes) {
    RecordingSink nothing;
    EXPECT_FALSE(Deliver(kCapture, packed.substr(0, bytes), {.rank = 5, .world = 6}, nothing));
    EXPECT_TRUE(nothing.captures.empty()) << bytes;
  }
}

TEST(ProcessRecords, WithoutADevicesClockAreThoseOfTheProcess) {
  const std::vector<ClockSample> exchanges = {{.host_ns = 1, .device_ns = 2, .width_ns = 3}};
  RecordingSink sink;
  EXPECT_TRUE(Deliver(kCapture, PackCapture(1, {}, {.error_ns = 9}, exchanges),
                      {.rank = 1, .world = 2}, sink));
  ASSERT_EQ(sink.captures.at(1).clocks.size(), 1U);
  EXPECT_EQ(sink.captures.at(1).clocks[0].device_ns, 2);
  EXPECT_EQ(sink.captures.at(1).clock_error_ns, 9);
}

TEST(ProcessRecords, ReadingsComeAsTheyWere) {
  const std::vector<Counter> counters = {{"gpu_power_w", 3, -1, 50, 699.5},
                                         {"gpu_sm_clock_hz", 3, -1, 51, 1.41e9}};
  const std::string packed = PackCounters(counters, ClockFit{.host_ns = 1'000});
  RecordingSink sink;
  const RecordLimits limits{.rank = 3, .world = 4};
  EXPECT_TRUE(Deliver(kCounters, packed, limits, sink));
  ASSERT_EQ(sink.counters.size(), 2U);
  EXPECT_EQ(sink.counters[0], (Counter{"gpu_power_w", 3, -1, 1'050, 699.5}));
  EXPECT_EQ(sink.counters[1], (Counter{"gpu_sm_clock_hz", 3, -1, 1'051, 1.41e9}));
  EXPECT_FALSE(Deliver(kCounters, packed.substr(0, packed.size() - 1), limits, sink));
  EXPECT_EQ(sink.counters.size(), 2U);
}

// Readings made before rank 0's clock is known are kept.
TEST(ProcessRecords, ReadingsOfBeforeTheClocksMeetAreKept) {
  const int port = FreePort();
  std::unique_ptr<ProcessGroup> first, second;
  std::thread other([&] {
    auto joined = ProcessGroup::Join({1, 2, 1, "127.0.0.1", port}, 30 * kSecond);
    ASSERT_TRUE(joined.has_value()) << joined.error().message;
    second = *std::move(joined);
  });
  auto joined = ProcessGroup::Join({0, 2, 0, "127.0.0.1", port}, 30 * kSecond);
  ASSERT_TRUE(joined.has_value()) << joined.error().message;
  first = *std::move(joined);
  other.join();
  ASSERT_NE(second, nullptr);
  RecordingSink sink;
  first->Collect(&sink);
  const RealClock clock;
  RunControl control, second_control;
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const RealClock later;  // for the second process, which starts later
  const std::int64_t before_ns = clock.Now();
  const Counter reading{"gpu_power_w", 1, -1, later.Now(), 300};
  const std::int64_t after_ns = clock.Now();
  second->Sender().OnCounters(std::span(&reading, 1));
  ASSERT_TRUE(first->Enter(clock, control).has_value());
  ASSERT_TRUE(second->Enter(later, second_control).has_value());
  second->Sender().OnCapture(1, {});
  std::thread end([&] { EXPECT_TRUE(second->Finish({}).has_value()); });
  EXPECT_TRUE(first->Finish({}).has_value());
  end.join();
  first->Collect(nullptr);
  ASSERT_EQ(sink.counters.size(), 1U);
  const std::int64_t error_ns = sink.captures.at(1).clock_error_ns;
  EXPECT_GE(sink.counters[0].time_ns, before_ns - error_ns);
  EXPECT_LE(sink.counters[0].time_ns, after_ns + error_ns);
  EXPECT_EQ(sink.captures.size(), 1U);
  first->Leave();
  second->Leave();
}

// A clock that is 70 s ahead and runs `rate` times as fast.
std::int64_t Elsewhere(std::int64_t own_ns, double rate) {
  return 70 * kSecond + static_cast<std::int64_t>(static_cast<double>(own_ns) * rate);
}

TEST(PeerClock, FollowsADriftThatOneReadingDoesNotShow) {
  // 40 in a million: 2.4 ms a minute, while one reading is accurate to half of 50 us. Every third
  // exchange is delayed by 300 us, mostly on the way back.
  constexpr double kRate = 1.00004;
  PeerClock clock;
  std::int64_t now_ns = 0, worst_ns = 0;
  int exchanges = 0;
  for (std::int64_t tick = 0; tick < 600; ++tick) {  // of 100 ms
    now_ns = tick * 100'000'000;
    bool asks = clock.Asks(now_ns);
    while (asks) {
      const std::int64_t late_ns = ++exchanges % 3 == 0 ? 300'000 : 0;  // delay of the answer
      const std::int64_t answered_ns = now_ns + 25'000 + late_ns / 4;
      now_ns += 50'000 + late_ns;
      asks = clock.Answered(Elsewhere(answered_ns, kRate), now_ns);
    }
    ASSERT_TRUE(clock.IsKnown());
    const std::int64_t off_ns = std::abs(clock.fit().ToHost(now_ns) - Elsewhere(now_ns, kRate));
    if (now_ns > 4 * kSecond) worst_ns = std::max(worst_ns, off_ns);
  }
  // A reading ends about 0.2 ms after a tick, so the next starts 1.1 s later.
  EXPECT_EQ(clock.samples().size(), 55U);
  EXPECT_EQ(exchanges, 275);
  EXPECT_LT(worst_ns, 5'000);
  EXPECT_LE(clock.fit().error_ns, 30'000);
  EXPECT_NEAR(clock.fit().rate, kRate, 1e-8);
}

TEST(PeerClock, AsksOnceASecond) {
  PeerClock clock;
  EXPECT_TRUE(clock.Asks(0));
  EXPECT_FALSE(clock.Asks(10));  // one is in progress
  for (int i = 1; i < 5; ++i) EXPECT_TRUE(clock.Answered(1'000 + i, 10 * i));
  EXPECT_FALSE(clock.Answered(1'005, 50));
  EXPECT_FALSE(clock.Answered(1'006, 60));  // no question was asked
  EXPECT_FALSE(clock.Asks(kSecond));
  EXPECT_TRUE(clock.Asks(kSecond + 50));
}

}  // namespace
}  // namespace foretrain
