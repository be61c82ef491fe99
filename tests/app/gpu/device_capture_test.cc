// Contents of the store after a run on a device that records its own activities.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "app/cli/flags/plan_flags.h"
#include "app/forecast/forecasting.h"
#include "app/training/run_capture.h"
#include "app/training/training.h"
#include "kernels/cpu/cpu_device.h"
#include "tests/app/commands/small_run.h"
#include "tests/capture_device.h"
#include "traces/metrics/data_wait.h"

namespace foretrain {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

// Trains four steps on two ranks and loads the run.
StoredRun RunOn(const TemporaryFolder& folder, const FtDeviceApi& device) {
  ModelFlags model;
  model.model = "gpt-10m";
  model.layers = 1;
  model.hidden = 64;
  model.heads = 4;
  ClusterFlags cluster;
  cluster.ranks = 2;
  PlanFlags flags;
  flags.Text("dp") = "2";
  flags.Text("sequence") = "16";
  flags.Text("global_batch") = "4";
  const auto context = MakeContext(model, cluster);
  EXPECT_TRUE(context.has_value()) << context.error().message;
  const auto plan = PlanOf(flags, context->model, 2);
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  TrainingOptions options;
  options.job.steps = 4;
  options.text = std::string(5000, 'a');
  options.data_name = "text";
  options.progress = false;
  options.device = &device;
  const std::string path = folder.path() + "/foretrain.db";
  RunId run = 0;
  {
    const auto store = Store::Open(path);
    EXPECT_TRUE(store.has_value());
    const auto result = RunTraining(**store, *context, *plan, options);
    EXPECT_TRUE(result.has_value()) << result.error().message;
    run = result->run;
    EXPECT_TRUE((*store)->Close().has_value());
  }
  const auto reader = StoreReader::Open(path);
  EXPECT_TRUE(reader.has_value());
  auto stored = reader->LoadRun(run);
  EXPECT_TRUE(stored.has_value());
  return *std::move(stored);
}

double Figure(const StoredRun& run, std::string_view name) {
  for (const MetricValue& value : run.metrics) {
    if (value.name == name && value.rank == -1 && value.step == -1) return value.value;
  }
  ADD_FAILURE() << "no figure " << name;
  return 0;
}

struct DeviceCaptureTest : testing::Test {
  void SetUp() override { TheCaptureDevice().Reset(); }
  const TemporaryFolder folder;
};

TEST_F(DeviceCaptureTest, StoresCountsClocksAndKernels) {
  TheCaptureDevice().dropped = 3;
  const FtDeviceApi api = WithCapture(CpuDeviceApi());
  const StoredRun run = RunOn(folder, api);
  EXPECT_EQ(run.info.totals.dropped, 3);
  EXPECT_EQ(run.info.totals.invalid, 0);
  EXPECT_GT(run.info.totals.clock_error_ns, 0);
  EXPECT_FALSE(run.clocks.empty());
  EXPECT_EQ(Figure(run, "launches"), Figure(run, "device_records"));
  EXPECT_EQ(Figure(run, "device_records_without_op"), 0);
  EXPECT_EQ(Figure(run, "coverage"), 1.0);
  EXPECT_THAT(run.notes, SizeIs(0));
  const auto reader = StoreReader::Open(folder.path() + "/foretrain.db");
  ASSERT_TRUE(reader.has_value());
  const auto kernels = reader->Attachment(run.info.id, "kernels");
  ASSERT_TRUE(kernels.has_value());
  const auto table = nlohmann::json::parse(*kernels).at("kernels");
  ASSERT_EQ(table.size(), 1U);
  EXPECT_EQ(table[0].at("name"), "mock_kernel");
  EXPECT_EQ(table[0].at("calls").get<double>(), Figure(run, "device_records"));
}

TEST_F(DeviceCaptureTest, NotesWhereTheDevicesRecordingEnds) {
  const FtDeviceApi api = WithCapture(CpuDeviceApi());
  const StoredRun whole = RunOn(folder, api);
  TheCaptureDevice().Reset();
  TheCaptureDevice().fail_at = 60;
  const StoredRun run = RunOn(folder, api);
  EXPECT_EQ(run.info.status, RunStatus::kFinished);
  ASSERT_THAT(run.notes, SizeIs(1));
  EXPECT_THAT(run.notes[0].text, HasSubstr("recorded no further"));
  // Every op of every step has a span, even if only some launches were reported. Whether a step
  // waits for data is chance.
  const auto ops = [](const StoredRun& of) {
    std::set<std::tuple<int, int, OpId>> found;
    for (const Span& span : of.timeline.spans) {
      const bool counts = span.queue != Queue::kHost && !IsDataWait(span.op);
      if (counts) found.insert({span.rank, span.step, span.op});
    }
    return found;
  };
  EXPECT_EQ(ops(run), ops(whole));
}

// Merges the reports of four processes: sums over all, the clock of each, and the errors by
// process.
TEST_F(DeviceCaptureTest, OfSeveralProcessesIsStoredTogether) {
  CaptureReports reports;
  for (int rank = 0; rank < 4; ++rank) {
    CaptureReport& report = reports[rank];
    report.records = true;
    report.counts.records = 10 + rank;
    report.counts.launches = 2;
    report.dropped = rank;
    report.clock_error_ns = 100 - rank;
    report.clocks = {{.host_ns = rank, .device_ns = 50, .width_ns = 4}};
    report.kernels.rows = {{"gemm", {.grid = {1 + rank / 2, 1, 1}, .block = {64, 1, 1}}, 5, 500}};
    report.kernels.Own(8, 0);
  }
  reports[1].problem = reports[3].problem = "recorded no further";
  reports[2].problem = "out of buffers";
  const std::string path = folder.path() + "/foretrain.db";
  RunId id = 0;
  {
    const auto store = Store::Open(path);
    ASSERT_TRUE(store.has_value());
    const auto run = (*store)->BeginRun({.world = 4});
    ASSERT_TRUE(run.has_value());
    id = (*run)->id();
    ASSERT_TRUE(StoreCapture(**run, reports, /*capability=*/80).has_value());
    ASSERT_TRUE((*run)->Finish(RunStatus::kFinished).has_value());
  }
  const auto reader = StoreReader::Open(path);
  ASSERT_TRUE(reader.has_value());
  const auto run = reader->LoadRun(id);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  EXPECT_EQ(run->info.totals.dropped, 0 + 1 + 2 + 3);
  EXPECT_EQ(run->info.totals.clock_error_ns, 100);
  EXPECT_EQ(Figure(*run, "device_records"), 10 + 11 + 12 + 13);
  EXPECT_EQ(Figure(*run, "launches"), 8);
  ASSERT_EQ(run->clocks.size(), 4U);
  EXPECT_EQ(run->clocks[3], (ClockReading{3, 3, 50, 4}));
  ASSERT_THAT(run->notes, SizeIs(2));
  EXPECT_EQ(run->notes[0].text, "rank 2: out of buffers");
  EXPECT_EQ(run->notes[1].text, "ranks 1, 3: recorded no further");
  // Two launches, of two ranks each.
  EXPECT_EQ(run->kernels.capability, 80);
  ASSERT_EQ(run->kernels.rows.size(), 2U);
  EXPECT_EQ(run->kernels.rows[1].calls, 10);
  EXPECT_EQ(run->kernels.Of(8).size(), 2U);
  const auto kernels = reader->Attachment(id, "kernels");
  ASSERT_TRUE(kernels.has_value());
  const auto gemm = nlohmann::json::parse(*kernels).at("kernels").at(0);
  EXPECT_EQ(gemm.at("calls"), 20);
}

}  // namespace
}  // namespace foretrain
