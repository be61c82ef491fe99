// Training on a device with its own profiler: the spans it yields, and that the run continues
// whatever fails in the capture.
#include "profiler/capture_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "kernels/cpu/cpu_device.h"
#include "runtime/data/token_data.h"
#include "runtime/run/trainer.h"
#include "tests/capture_device.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

struct Captured : RunSink {
  void OnSpans(std::span<const Span> more) override {
    spans.insert(spans.end(), more.begin(), more.end());
  }
  void OnStep(const StepReport& step) override { losses.push_back(step.loss); }
  void OnCapture(int rank, const CaptureReport& of) override {
    EXPECT_EQ(rank, 0);
    report = of;
  }

  std::vector<Span> spans;
  std::vector<double> losses;
  CaptureReport report;
  std::set<std::tuple<int, int, OpId>> Ops() const {  // without launches
    std::set<std::tuple<int, int, OpId>> ops;
    for (const Span& span : spans) {
      if (span.op_class != OpClass::kHost) ops.insert({span.rank, span.step, span.op});
    }
    return ops;
  }
};

// Two ranks with data parallelism, six steps.
Captured TrainCaptured(bool device_records, CaptureLevel level = CaptureLevel::kFull,
                       const CaptureWindow& window = {}) {
  Captured captured;
  Plan plan = TinyPlan();
  plan.dp = 2;
  const ModelSpec model = TinyGpt();
  auto program = Compile(model, plan);
  EXPECT_TRUE(program.has_value());
  auto data = TokenData::FromText(TrainingText(), "text", model.vocab, plan);
  EXPECT_TRUE(data.has_value());
  TrainJob job;
  job.program = std::make_shared<const Program>(*std::move(program));
  job.steps = 6;
  job.executor.window = window;
  RealClock clock;
  CaptureOptions options;
  options.level = level;
  options.window = window;
  options.ranks = {0, 1};
  options.now = [&clock] { return clock.Now(); };
  options.name_of = [](int rank, OpId op) { return std::to_string(rank) + " " + Describe(op); };
  options.interval_ns = 1'000'000;
  const FtDeviceApi api = device_records ? WithCapture(CpuDeviceApi()) : CpuDeviceApi();
  const std::shared_ptr<CaptureSession> session = CaptureSession::Open(api, options);
  EXPECT_EQ(session != nullptr, device_records && level != CaptureLevel::kOff);
  job.capture = session;
  const auto summary = Train(job, api, clock, **data, captured);
  EXPECT_TRUE(summary.has_value()) << summary.error().message;
  return captured;
}

struct CaptureSessionTest : testing::Test {
  void SetUp() override { TheCaptureDevice().Reset(); }
  CaptureDevice& device = TheCaptureDevice();
};

TEST_F(CaptureSessionTest, GivesEveryOpTheDevicesTimes) {
  const Captured plain = TrainCaptured(false);
  const Captured captured = TrainCaptured(true);
  EXPECT_EQ(captured.losses, plain.losses);
  EXPECT_EQ(captured.Ops(), plain.Ops());
  EXPECT_EQ(captured.report.problem, "");
  EXPECT_TRUE(captured.report.records);
  EXPECT_EQ(captured.report.counts.Coverage(), 1.0);
  EXPECT_EQ(captured.report.counts.invalid, 0);
  EXPECT_EQ(captured.report.late, 0);
  ASSERT_EQ(captured.report.kernels.rows.size(), 1U);
  EXPECT_EQ(captured.report.kernels.rows[0].name, "mock_kernel");
  EXPECT_EQ(captured.report.kernels.rows[0].calls, captured.report.counts.records);
  EXPECT_EQ(device.starts, 1);
  EXPECT_EQ(device.stops, 1);
  // Each op has one span of work and one of its launch, on the host's clock and inside the run.
  std::int64_t launches = 0, max_ns = 0;
  for (const Span& span : captured.spans) {
    if (span.queue == Queue::kHost && span.op_class == OpClass::kHost) ++launches;
    EXPECT_GE(span.start_ns, 0);
    EXPECT_GE(span.end_ns, span.start_ns);
    max_ns = std::max(max_ns, span.end_ns);
  }
  EXPECT_GT(launches, 0);
  EXPECT_LT(max_ns, capture_device::kAhead);
  EXPECT_GE(captured.report.clocks.size(), 2U);
}

TEST_F(CaptureSessionTest, OpensAndShutsWithTheWindow) {
  CaptureWindow window{.first_step = 2, .end_step = 4, .ranks = {1}};
  const Captured captured = TrainCaptured(true, CaptureLevel::kFull, window);
  EXPECT_EQ(device.starts, 1);
  EXPECT_EQ(device.stops, 1);
  ASSERT_FALSE(captured.spans.empty());
  for (const Span& span : captured.spans) {
    EXPECT_EQ(span.rank, 1);
    EXPECT_TRUE(span.step == 2 || span.step == 3) << span.step;
  }
  // Rank 0's ops are recorded too, since both ranks launch on one device, and are dropped.
  EXPECT_GT(captured.report.outside, 0);
}

TEST_F(CaptureSessionTest, NeverOpensAWindowThatTheRunDoesNotReach) {
  CaptureWindow window{.first_step = 50, .end_step = 60, .ranks = {}};
  const Captured captured = TrainCaptured(true, CaptureLevel::kFull, window);
  EXPECT_EQ(device.starts, 0);
  EXPECT_EQ(device.stops, 0);
  EXPECT_TRUE(captured.spans.empty());
}

TEST_F(CaptureSessionTest, UnderAnotherToolKeepsRangesAndTheHostsSpans) {
  device.unsupported = device.wants_names = true;
  const Captured captured = TrainCaptured(true);
  EXPECT_EQ(captured.Ops(), TrainCaptured(false).Ops());
  EXPECT_FALSE(captured.report.records);
  EXPECT_THAT(captured.report.problem, HasSubstr("another tool records it"));
  EXPECT_EQ(device.starts, 1);  // of the window, which the tool shows
  ASSERT_FALSE(device.names.empty());
  EXPECT_THAT(device.names, testing::Contains(HasSubstr("0 forward block 1")));
}

TEST_F(CaptureSessionTest, MakesNoNamesWhereNobodyShowsThem) {
  TrainCaptured(true);
  EXPECT_TRUE(device.names.empty());
}

TEST_F(CaptureSessionTest, CountsWhatTheDeviceLost) {
  device.dropped = 17;
  EXPECT_EQ(TrainCaptured(true).report.dropped, 17);
}

TEST_F(CaptureSessionTest, OfACaptureThatIsOffIsNone) {
  TrainCaptured(true, CaptureLevel::kOff);
  EXPECT_EQ(device.calls, 0);
}

// Whichever call fails, the run ends as usual, and each op has a span.
TEST_F(CaptureSessionTest, GoesOnWhicheverCallFails) {
  const Captured plain = TrainCaptured(false);
  TrainCaptured(true);
  const std::int64_t calls = device.calls;
  ASSERT_GT(calls, 100);
  std::vector<std::int64_t> tried;
  for (std::int64_t n = 0; n < 8; ++n) tried.push_back(n);
  for (std::int64_t part = 1; part <= 3; ++part) tried.push_back(calls * part / 4);
  for (const std::int64_t n : tried) {
    device.Reset();
    device.fail_at = n;
    const Captured captured = TrainCaptured(true);
    EXPECT_EQ(captured.losses, plain.losses) << n;
    EXPECT_EQ(captured.Ops(), plain.Ops()) << n;
    EXPECT_THAT(captured.report.problem, HasSubstr("the device's work is ")) << n;
    EXPECT_THAT(captured.report.problem, testing::Not(HasSubstr("\n"))) << n;
  }
}

}  // namespace
}  // namespace foretrain
