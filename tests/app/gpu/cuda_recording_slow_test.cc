// The recording of a GPU's work by the plugin, over the tests' CUDA libraries. Kernels are the
// plugin's own PTX and libcupti is the tests', so what a run stores can be compared with what the
// runtime did.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/units.h"
#include "tests/app/gpu/fake_cuda.h"
#include "traces/store.h"

namespace foretrain {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class CudaRecording : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasFakeCuda()) GTEST_SKIP() << kWithoutFakeCuda;
    if (!HasFakeCupti()) GTEST_SKIP() << kWithoutFakeCupti;
    train_ = SmallCudaTraining(folder_) + "--device cuda ";
  }

  // Trains; the run must succeed and leave nothing on the device. Returns what it stored;
  // `metrics_` has its metrics, the coverage that `analyze --json` gives among them.
  StoredRun Train(const std::string& settings, const std::string& options) {
    const CudaRun run = RunOnFakeCuda(folder_, settings, train_ + options);
    EXPECT_EQ(run.end.code, 0) << run.end.errors;
    for (const auto& [word, value] : run.report) EXPECT_EQ(value, 0) << word << run.end.errors;
    errors_ = run.end.errors;
    output_ = run.end.output;
    const auto reader = StoreReader::Open(folder_.path() + "/foretrain.db");
    EXPECT_TRUE(reader.has_value());
    if (!reader.has_value()) return {};
    const auto runs = reader->ListRuns();
    EXPECT_TRUE(runs.has_value() && !runs->empty());
    if (!runs.has_value() || runs->empty()) return {};
    const RunId id = runs->back().id;
    kernels_ = nlohmann::json::object();
    if (const auto text = reader->Attachment(id, "kernels"); text.has_value()) {
      const auto attached = nlohmann::json::parse(*text);
      for (const auto& kernel : attached["kernels"]) {
        kernels_[kernel["name"].get<std::string>()] = kernel["calls"];
      }
    }
    const ProgramEnd told =
        RunForetrain(folder_.path(), "analyze --json --run " + std::to_string(id));
    EXPECT_EQ(told.code, 0) << told.errors;
    metrics_.clear();
    analysis_ = nlohmann::json::parse(told.output);
    for (const auto& metric : analysis_["metrics"]) {
      if (metric["name"] == "coverage") metrics_["coverage"] = metric["value"];
    }
    auto loaded = reader->LoadRun(id);
    EXPECT_TRUE(loaded.has_value());
    if (!loaded.has_value()) return {};
    for (const MetricValue& metric : loaded->metrics) {
      if (metric.rank == -1 && metric.step == -1) metrics_[metric.name] = metric.value;
    }
    return *std::move(loaded);
  }

  // Each kernel has an op and no record is lost.
  void ExpectAllKernelsHaveOps(const StoredRun& run) {
    EXPECT_EQ(metrics_["coverage"], 1.0);
    EXPECT_GT(metrics_["device_records"], 0);
    EXPECT_EQ(metrics_["device_records_without_op"], 0);
    EXPECT_EQ(run.info.totals.dropped, 0);
    EXPECT_EQ(run.info.totals.invalid, 0);
    EXPECT_THAT(run.notes, IsEmpty());
    for (const Span& span : run.timeline.spans) EXPECT_NE(span.op, kNoOp);
  }

  // A queue is one stream, which does one piece of work after the other, later than the host gave
  // it. Only spans of queues that launch are checked.
  void ExpectTimesOfStreams(const StoredRun& run) {
    std::map<std::pair<int, Queue>, std::vector<Span>> queues;
    std::map<std::tuple<int, int, OpId>, std::int64_t> launched;
    for (const Span& span : run.timeline.spans) {
      if (span.queue == Queue::kHost) launched[{span.rank, span.step, span.op}] = span.start_ns;
    }
    for (const Span& span : run.timeline.spans) {
      const auto launch = launched.find({span.rank, span.step, span.op});
      if (span.queue == Queue::kHost || launch == launched.end()) continue;
      EXPECT_GE(span.start_ns, launch->second);
      queues[{span.rank, span.queue}].push_back(span);
    }
    EXPECT_FALSE(queues.empty());
    for (auto& [queue, spans] : queues) {
      std::sort(spans.begin(), spans.end(),
                [](const Span& a, const Span& b) { return a.start_ns < b.start_ns; });
      for (std::size_t i = 1; i < spans.size(); ++i) {
        EXPECT_LE(spans[i - 1].end_ns, spans[i].start_ns) << "span " << i;
      }
    }
  }

  TemporaryFolder folder_;
  std::string train_, output_, errors_;
  std::map<std::string, double> metrics_;  // of the run as a whole
  nlohmann::json analysis_;                // what `analyze --json` says
  nlohmann::json kernels_;                 // calls by name
};

TEST_F(CudaRecording, GivesEachKernelItsOp) {
  const StoredRun run = Train("late=7", "");
  ExpectAllKernelsHaveOps(run);
  ExpectTimesOfStreams(run);
  // cuBLASLt's products and own kernels, by their names in C++.
  EXPECT_GT(kernels_.value("fake_cublaslt_product", 0), 0);
  EXPECT_THAT(kernels_.dump(), HasSubstr("foretrain::"));
  EXPECT_GT(metrics_["launches"], 0);
}

TEST_F(CudaRecording, GivesKernelsOfSeveralGpusTheirRanks) {
  for (const char* plan : {"--dp 2", "--pp 2", "--tp 2"}) {
    SCOPED_TRACE(plan);
    const StoredRun run = Train("gpus=2", plan);
    ExpectAllKernelsHaveOps(run);
    ExpectTimesOfStreams(run);
    EXPECT_GT(kernels_.value("fake_nccl_kernel", 0), 0);
    std::set<int> ranks;
    for (const Span& span : run.timeline.spans) ranks.insert(span.rank);
    EXPECT_EQ(ranks, (std::set<int>{0, 1}));
  }
}

// As NCCL does since 2.23.4, where the launching thread has no external id of CUPTI.
TEST_F(CudaRecording, GivesKernelsThatNcclLaunchesInItsThreadsTheirOps) {
  for (const char* plan : {"--dp 2", "--dp 2 --zero 3", "--pp 2"}) {
    SCOPED_TRACE(plan);
    const StoredRun run = Train("gpus=2,nccl_threads=1,late=2", plan);
    ExpectAllKernelsHaveOps(run);
    ExpectTimesOfStreams(run);
    EXPECT_GT(kernels_.value("fake_nccl_kernel", 0), 0);
  }
}

TEST_F(CudaRecording, SeesTheOpsInGraphs) {
  const StoredRun without = Train("gpus=1", "");
  const auto kernels = kernels_;
  const StoredRun run = Train("gpus=1", "--cuda-graphs on");
  ExpectAllKernelsHaveOps(run);
  ExpectTimesOfStreams(run);
  EXPECT_EQ(kernels_, kernels);
  // Each op of the last step has a span, as it has without graphs.
  const auto ops = [](const StoredRun& of) {
    std::set<OpId> found;
    for (const Span& span : of.timeline.spans) {
      if (span.step == 2 && span.queue != Queue::kHost) found.insert(span.op);
    }
    return found;
  };
  EXPECT_EQ(ops(run), ops(without));
  // Several kernels a launch.
  EXPECT_LT(metrics_["launches"], metrics_["device_records"]);
}

TEST_F(CudaRecording, OfLaunchesHasNoKernels) {
  const StoredRun run = Train("gpus=1", "--capture launches");
  EXPECT_EQ(metrics_["device_records"], 0);
  EXPECT_GT(metrics_["launches"], 0);
  EXPECT_EQ(kernels_.size(), 0U);
  EXPECT_EQ(metrics_["coverage"], 1.0);
  EXPECT_EQ(run.info.totals.invalid, 0);
}

TEST_F(CudaRecording, HasTheStepsOfItsWindow) {
  const StoredRun run = Train("late=9", "--profile-step-start 1 --profile-step-end 2");
  ExpectAllKernelsHaveOps(run);
  for (const Span& span : run.timeline.spans) EXPECT_EQ(span.step, 1);
}

// With CUPTI and, if another tool has the kernels, without it.
TEST_F(CudaRecording, NamesOpsInRangesOfATool) {
  for (const char* other : {"", "NSYS_PROFILING_SESSION_ID=1 "}) {
    SCOPED_TRACE(other);
    const CudaRun run =
        RunOnFakeCuda(folder_, "gpus=1", train_ + "--profile-step-start 1 --profile-step-end 2",
                      std::string(other) + "FORETRAIN_FAKE_NVTX=ranges.txt NVTX_INJECTION64_PATH=" +
                          FakeCudaLibrary("libnvtx-tool.so"));
    EXPECT_EQ(run.end.code, 0) << run.end.errors;
    EXPECT_EQ(run.end.errors.find("another tool profiles this process") != std::string::npos,
              other[0] != '\0');
    std::istringstream lines(folder_.Read("ranges.txt"));
    std::string domain, line;
    std::getline(lines, domain);
    EXPECT_EQ(domain, "foretrain");
    std::map<std::string, int> ranges;
    while (std::getline(lines, line)) ++ranges[line];
    EXPECT_EQ(ranges.count("end"), 0U);
    // The host may have given ops of the next step before the window closed.
    EXPECT_GE(ranges["forward layer 1 mb 3, norm1"], 1) << folder_.Read("ranges.txt");
    EXPECT_LE(ranges["forward layer 1 mb 3, norm1"], 2);
  }
}

// The tests' runtime has an H100 (capability 9.0) and says 40 registers for each kernel.
TEST_F(CudaRecording, KeepsHowEachKernelWasLaunched) {
  const StoredRun run = Train("gpus=1", "");
  EXPECT_EQ(run.kernels.capability, 90);
  double total_s = 0;
  for (const KernelRow& row : run.kernels.rows) {
    EXPECT_TRUE(row.launch.IsKnown()) << row.name;
    const auto occupancy = TheoreticalOccupancy(row.launch, run.kernels.capability);
    ASSERT_TRUE(occupancy.has_value()) << row.name;
    EXPECT_GT(occupancy->blocks, 0) << row.name;
    total_s += SecondsFromNs(row.total_ns);
  }
  EXPECT_LE(total_s, metrics_["device_s"]);
  // Each op with work has its kernels, whatever the micro-batch.
  for (const Span& span : run.timeline.spans) {
    if (span.op_class != OpClass::kGemm || span.queue == Queue::kHost) continue;
    EXPECT_THAT(run.kernels.Of(span.op), Not(IsEmpty()));
  }
  // Layers repeat, so there are far fewer rows than ops.
  EXPECT_LT(run.kernels.rows.size() * 2, run.kernels.ops.size());
  ASSERT_EQ(analysis_["kernels"].size(), run.kernels.rows.size());
  EXPECT_EQ(analysis_["kernels"][0]["grid"].size(), 3U);
  EXPECT_GT(analysis_["kernels"][0]["occupancy"].get<double>(), 0.0);
}

TEST_F(CudaRecording, SamplesHardwareCountersOfEachGpu) {
  const StoredRun run = Train("gpus=2,late=7", "--dp 2 --sample-counters 1ms");
  ExpectAllKernelsHaveOps(run);
  std::map<std::pair<int, std::string>, std::vector<Counter>> series;
  for (const Counter& counter : run.counters) {
    series[{counter.rank, counter.name}].push_back(counter);
  }
  for (const int rank : {0, 1}) {
    for (const char* name : {"gpu_sm_active_share", "gpu_tensor_active_share", "gpu_sm_issue_share",
                             "gpu_dram_read_share", "gpu_dram_write_share",
                             "gpu_nvlink_received_bytes_per_s", "gpu_nvlink_sent_bytes_per_s",
                             "gpu_pcie_read_bytes_per_s", "gpu_pcie_write_bytes_per_s"}) {
      EXPECT_GT((series[{rank, name}].size()), 10U) << name << errors_;
    }
    const std::vector<Counter>& active = series[{rank, "gpu_sm_active_share"}];
    ASSERT_GT(active.size(), 10U);
    double busy_s = 0;
    for (std::size_t i = 0; i < active.size(); ++i) {
      EXPECT_GE(active[i].value, 0.0);
      EXPECT_LE(active[i].value, 1.0);
      busy_s += active[i].value * 1e-3;
      EXPECT_GT(active[i].time_ns, i == 0 ? INT64_MIN : active[i - 1].time_ns);
    }
    // Kernels of a stream follow each other, but streams overlap.
    EXPECT_GT(busy_s, 0.0);
    EXPECT_LE(busy_s, metrics_["device_s"] + 0.01);
    // Samples lie within the recorded steps.
    std::int64_t begin_ns = INT64_MAX, end_ns = 0;
    for (const Span& span : run.timeline.spans) {
      begin_ns = std::min(begin_ns, span.start_ns);
      end_ns = std::max(end_ns, span.end_ns);
    }
    EXPECT_GT(active.front().time_ns, begin_ns - 100'000'000);
    EXPECT_LT(active.back().time_ns, end_ns + 200'000'000);
  }
}

TEST_F(CudaRecording, TrainsOnWithoutCountersIfCuptiRefusesThem) {
  for (const char* call : {"cuptiPmSamplingGetCounterAvailability", "cuptiPmSamplingStart",
                           "cuptiPmSamplingDecodeData"}) {
    SCOPED_TRACE(call);
    const StoredRun run =
        Train(std::string("gpus=1,fail=") + call + ":1", "--sample-counters 500us");
    EXPECT_EQ(run.info.status, RunStatus::kFinished);
    EXPECT_EQ(metrics_["coverage"], 1.0);
    ASSERT_EQ(run.notes.size(), 1U) << errors_;
    EXPECT_THAT(run.notes[0].text, HasSubstr("hardware counters are "));
    EXPECT_THAT(errors_, HasSubstr("foretrain: hardware counters are "));
  }
}

// Failing calls of CUPTI end the recording and not the run.
TEST_F(CudaRecording, EndsWithASentenceIfACallOfCuptiFails) {
  for (const char* call :
       {"cuptiSubscribe", "cuptiActivityRegisterTimestampCallback", "cuptiActivitySetAttribute",
        "cuptiActivityRegisterCallbacks", "cuptiActivityEnable", "cuptiEnableCallback",
        "cuptiActivityFlushAll", "cuptiActivityGetNumDroppedRecords", "cuptiActivityGetNextRecord",
        "cuptiGetTimestamp", "cuptiActivityPushExternalCorrelationId",
        "cuptiActivityPopExternalCorrelationId"}) {
    SCOPED_TRACE(call);
    const StoredRun run = Train(std::string("gpus=1,fail=") + call + ":1", "");
    EXPECT_EQ(run.info.status, RunStatus::kFinished);
    ASSERT_EQ(run.notes.size(), 1U) << errors_;
    EXPECT_THAT(run.notes[0].text, HasSubstr("the device's work is "));
    EXPECT_FALSE(run.timeline.spans.empty());
  }
}

}  // namespace
}  // namespace foretrain
