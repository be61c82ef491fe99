// Traces of PyTorch's profiler. Times in the tests are microseconds, in spans nanoseconds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/traces/import/trace_text.h"
#include "traces/metrics/metrics.h"
#include "traces/unknown_coordinates.h"

namespace foretrain {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Two steps: each launches a product and an all-reduce, and copies its batch in; the backward pass
// runs under autograd. The second step's kernel ends after its range.
std::string TwoSteps() {
  std::string events;
  for (int step = 0; step < 2; ++step) {
    const double t = 100.0 + 1000.0 * step;
    const auto c = [&](int i) { return "\"correlation\":" + std::to_string(10 * step + i); };
    events +=
        (step > 0 ? "," : "") +
        Complete("user_annotation", "ProfilerStep#" + std::to_string(step + 3), "1", t, 900) + "," +
        Complete("cpu_op", "aten::mm", "1", t + 10, 40) + "," +
        Complete("cuda_runtime", "cudaLaunchKernel", "1", t + 20, 5, c(1)) + "," +
        Complete("kernel", "ampere_sgemm_128x64_tn", "d7", t + 30, 400,
                 c(1) + R"(,"stream":7,"device":0)") +
        "," + Complete("cuda_runtime", "cudaMemcpyAsync", "1", t + 60, 5, c(2)) + "," +
        Complete("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", "d9", t + 70, 30,
                 c(2) + R"(,"bytes":4096)") +
        "," +
        Complete("cpu_op", "autograd::engine::evaluate_function: MmBackward0", "2", t + 100, 100) +
        "," + Complete("cuda_runtime", "cudaLaunchKernel", "2", t + 110, 5, c(3)) + "," +
        Complete("kernel", "ampere_sgemm_64x64_nt", "d7", t + 430, 300, c(3)) + "," +
        Complete("cuda_runtime", "cudaLaunchKernel", "2", t + 120, 5, c(4)) + "," +
        Complete("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "d20", t + 600, 350,
                 c(4) + R"(,"In msg nelems":1000,"dtype":"BFloat16")");
  }
  return events;
}

TEST(Kineto, PlacesKernelsByWhatTheyAre) {
  const TraceRun run = ReadGood({KinetoTrace(TwoSteps())});
  const auto products = SpansNamed(run, "ampere_sgemm_128x64_tn");
  ASSERT_EQ(products.size(), 2U);
  // The first event of the trace, at 100 us, is at 0.
  EXPECT_EQ(products[0].start_ns, 30'000);
  EXPECT_EQ(products[0].end_ns, 430'000);
  EXPECT_EQ(products[0].queue, Queue::kCompute);
  EXPECT_EQ(products[0].op_class, OpClass::kGemm);
  const auto reduces = SpansNamed(run, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL");
  ASSERT_EQ(reduces.size(), 2U);
  EXPECT_EQ(reduces[0].queue, Queue::kReduce);
  EXPECT_EQ(reduces[0].op_class, OpClass::kDpComm);
  EXPECT_EQ(reduces[0].bytes, 2000);
  EXPECT_EQ(UnpackId(reduces[0].op).kind, InstructionKind::kAllReduce);
  const auto copies = SpansNamed(run, "Memcpy HtoD (Pinned -> Device)");
  ASSERT_EQ(copies.size(), 2U);
  EXPECT_EQ(copies[0].queue, Queue::kH2d);
  EXPECT_EQ(copies[0].op_class, OpClass::kCopy);
  EXPECT_EQ(copies[0].bytes, 4096);
}

TEST(Kineto, KeepsHowKernelsWereLaunched) {
  const auto kernel = [](double start_us, const std::string& grid) {
    return Complete("kernel", "gemm", "d7", start_us, 10,
                    R"("grid":)" + grid + R"(,"block":[128, 2, 1],"Input Dims":[[8,4],[]],)" +
                        R"("registers per thread":255,"shared memory":4096)");
  };
  const std::string gpu =
      R"("deviceProperties":[{"id":0,"name":"NVIDIA H100","computeMajor":9,"computeMinor":0}],)";
  const std::string text = R"({)" + gpu + R"("traceEvents":[)" + kernel(10, "[64, 2, 1]") + "," +
                           kernel(30, "[64, 2, 1]") + "," + kernel(50, "[8, 1, 1]") + "," +
                           kernel(70, "[-1, 1, 1]") + "," +
                           Complete("kernel", "other", "d7", 90, 10, R"("grid":"64")") + "]}";
  const TraceRun run = ReadGood({text});
  EXPECT_EQ(run.kernels.capability, 90);
  ASSERT_EQ(run.kernels.rows.size(), 4U);
  const KernelLaunch launch{
      .grid = {64, 2, 1}, .block = {128, 2, 1}, .registers = 255, .dynamic_shared_bytes = 4096};
  EXPECT_EQ(run.kernels.rows[0], (KernelRow{"gemm", launch, 2, 20'000}));
  EXPECT_EQ(run.kernels.rows[1].launch.grid[0], 8);
  EXPECT_FALSE(run.kernels.rows[2].launch.IsKnown());  // an impossible grid
  EXPECT_EQ(run.kernels.rows[3], (KernelRow{"other", {}, 1, 10'000}));
  const auto spans = SpansNamed(run, "gemm");
  ASSERT_EQ(spans.size(), 4U);
  EXPECT_EQ(run.kernels.Of(spans[0].op).front()->launch, launch);
}

// A linear op adds 100 x 30 products of 20 in two kernels, of which the second takes three times as
// long; within it, a copy launches nothing. The add has no product. What the transposed op moves is
// not known, because one of its types is not.
TEST(Kineto, SharesTheWorkOfAnOpAmongItsKernels) {
  const auto op = [](const std::string& name, double start_us, double length_us,
                     const std::string& arguments) {
    return Complete("cpu_op", name, "1", start_us, length_us, arguments) + ",";
  };
  const auto launch = [](int number, double start_us, double kernel_us, const std::string& name,
                         double length_us) {
    const std::string c = "\"correlation\":" + std::to_string(number);
    return Complete("cuda_runtime", "cudaLaunchKernel", "1", start_us, 1, c) + "," +
           Complete("kernel", name, "d7", kernel_us, length_us, c) + ",";
  };
  const std::string text =
      "[" +
      op("aten::linear", 0, 50,
         R"("Input Dims":[[100,20],[30,20],[30]],"Input type":["x","x","x"])") +
      op("aten::addmm", 10, 30,
         R"("Input Dims":[[30],[100,20],[20,30],[],[]],)"
         R"("Input type":["c10::BFloat16","c10::BFloat16","c10::BFloat16","Scalar","Scalar"])") +
      op("aten::copy_", 12, 2, R"("Input Dims":[[30],[30]],"Input type":["float","float"])") +
      launch(1, 20, 100, "gemm", 10) + launch(2, 22, 120, "reduce", 30) +
      op("aten::add", 60, 10,
         R"("Input Dims":[[50,2],[50,2],[]],"Input type":["float","float","Scalar"])") +
      launch(3, 62, 200, "plus", 5) +
      op("aten::t", 80, 10, R"("Input Dims":[[50,2]],"Input type":["Quaternion"])") +
      launch(4, 82, 300, "turn", 5) + Complete("cpu_op", "end", "1", 400, 1) + "]";
  const TraceRun run = ReadGood({text});
  ASSERT_EQ(run.kernels.rows.size(), 4U);
  const double flops = 2.0 * 100 * 30 * 20, bytes = 2.0 * (30 + 100 * 20 + 20 * 30 + 100 * 30);
  const KernelWork& gemm = run.kernels.rows[0].work;
  EXPECT_DOUBLE_EQ(gemm.flops, flops / 4);
  EXPECT_DOUBLE_EQ(gemm.bytes, bytes / 4);
  EXPECT_EQ(gemm.time_ns, 10'000);
  EXPECT_EQ(gemm.format, "bf16");
  EXPECT_DOUBLE_EQ(gemm.FlopPerSecond(), flops / 4 / 10e-6);
  EXPECT_DOUBLE_EQ(run.kernels.rows[1].work.flops, flops * 3 / 4);
  const KernelWork plus{.flops = 0, .bytes = 800, .time_ns = 5'000, .format = "fp32"};
  EXPECT_EQ(run.kernels.rows[2].work, plus);
  EXPECT_FALSE(run.kernels.rows[3].work.IsKnown());
}

// Two heads of 8 queries and 16 keys of 4: two products, half of them where it is causal.
TEST(Kineto, CountsAttentionIfItIsKnownWhetherItIsCausal) {
  const auto flops = [](const std::string& causal) {
    const std::string text =
        "[" +
        Complete(
            "cpu_op", "aten::_scaled_dot_product_flash_attention", "1", 0, 50,
            R"("Input Dims":[[1,2,8,4],[1,2,16,4],[1,2,16,4],[],[],[],[]],)"
            R"("Input type":["c10::Half","c10::Half","c10::Half","Scalar","Scalar","Scalar",""],)"
            R"("Concrete Inputs":["","","","0.",)" +
                causal + R"(,"False",""])") +
        "," + Complete("cuda_runtime", "cudaLaunchKernel", "1", 5, 1, R"("correlation":1)") + "," +
        Complete("kernel", "flash", "d7", 100, 10, R"("correlation":1)") + "]";
    const TraceRun run = ReadGood({text});
    return run.kernels.rows.at(0).work.flops;
  };
  const double all = 2.0 * 2 * (2 * 8 * 4) * 16;
  EXPECT_DOUBLE_EQ(flops("\"False\""), all);
  EXPECT_DOUBLE_EQ(flops("\"True\""), all / 2);
  EXPECT_DOUBLE_EQ(flops("\"\""), 0);
}

TEST(Kineto, TakesProfilerStepsAndWhatTheyLaunched) {
  const TraceRun run = ReadGood({KinetoTrace(TwoSteps())});
  ASSERT_EQ(run.timeline.steps.size(), 2U);
  EXPECT_EQ(run.timeline.steps[0].step, 3);
  EXPECT_EQ(run.timeline.steps[0].start_ns, 0);
  EXPECT_EQ(run.timeline.steps[0].end_ns, 1'000'000);  // start of the next step
  EXPECT_EQ(run.timeline.steps[1].step, 4);
  EXPECT_EQ(run.timeline.steps[1].end_ns, 1'950'000);  // its all-reduce's; its range's is 1,900
  const auto reduces = SpansNamed(run, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL");
  EXPECT_EQ(reduces[0].step, 3);
  EXPECT_EQ(reduces[1].step, 4);
}

TEST(Kineto, KnowsTheBackwardPassByAutograd) {
  const TraceRun run = ReadGood({KinetoTrace(TwoSteps())});
  EXPECT_EQ(UnpackId(SpansNamed(run, "ampere_sgemm_64x64_nt")[0].op).pass, Pass::kBackward);
  // Nothing tells that the first product belongs to the forward pass.
  EXPECT_EQ(UnpackId(SpansNamed(run, "ampere_sgemm_128x64_tn")[0].op).pass, Pass::kNone);
  const std::string flows =
      R"(,{"ph":"s","cat":"fwdbwd","id":1,"name":"fwdbwd","pid":1,"tid":1,"ts":115},)"
      R"({"ph":"f","cat":"fwdbwd","id":1,"name":"fwdbwd","pid":1,"tid":2,"ts":205})";
  const TraceRun told = ReadGood({KinetoTrace(TwoSteps() + flows)});
  EXPECT_EQ(UnpackId(SpansNamed(told, "ampere_sgemm_128x64_tn")[0].op).pass, Pass::kForward);
}

TEST(Kineto, GivesALaunchTheIdOfItsKernel) {
  const TraceRun run = ReadGood({KinetoTrace(TwoSteps())});
  const OpId kernel = SpansNamed(run, "ampere_sgemm_128x64_tn")[0].op;
  const auto launch = std::find_if(
      run.timeline.spans.begin(), run.timeline.spans.end(),
      [&](const Span& span) { return span.queue == Queue::kHost && span.op == kernel; });
  ASSERT_NE(launch, run.timeline.spans.end());
  EXPECT_EQ(launch->start_ns, 20'000);
  EXPECT_EQ(launch->op_class, OpClass::kHost);
  // The kernel starts 10 us after its launch began: the gap before it is the host's.
  const Metrics metrics = ComputeMetrics(run.timeline);
  EXPECT_GT(metrics.overall->classes.host_wait_s, 0.0);
}

TEST(Kineto, GivesEachCallAnIdOfItsOwnAndEachNameOneName) {
  std::string events = Complete("kernel", "relu", "d7", 0, 10);
  for (int i = 1; i < 5; ++i) events += "," + Complete("kernel", "relu", "d7", 20.0 * i, 10);
  const TraceRun run = ReadGood({KinetoTrace(events)});
  ASSERT_EQ(run.timeline.spans.size(), 5U);
  std::set<OpId> ids;
  for (const Span& span : run.timeline.spans) {
    ids.insert(span.op);
    EXPECT_FALSE(IsMicroBatchKnown(UnpackId(span.op)));
    EXPECT_FALSE(IsBlockKnown(UnpackId(span.op)));
  }
  EXPECT_EQ(ids.size(), 5U);
  EXPECT_EQ(run.timeline.op_names.size(), 1U);
  EXPECT_EQ(Describe(run.timeline.spans[3].op), "call 3");
}

TEST(Kineto, GivesTheSameNameTheSameIdInEveryTrace) {
  const TraceRun a = ReadGood({KinetoTrace(Complete("kernel", "relu", "d7", 0, 10))});
  const TraceRun b = ReadGood({KinetoTrace(Complete("kernel", "gelu", "d7", 0, 10) + "," +
                                           Complete("kernel", "relu", "d7", 50, 10))});
  EXPECT_EQ(a.timeline.spans[0].op, SpansNamed(b, "relu")[0].op);
}

TEST(Kineto, ReadsLayerAndMicroBatchFromAnnotations) {
  const TraceRun run = ReadGood(
      {KinetoTrace(Complete("user_annotation", "forward micro_batch 3", "1", 0, 100) + "," +
                   Complete("user_annotation", "layers.5", "1", 10, 50) + "," +
                   Complete("cuda_runtime", "cudaLaunchKernel", "1", 20, 5, R"("correlation":1)") +
                   "," + Complete("kernel", "gemm", "d7", 30, 10, R"("correlation":1)"))});
  const auto spans = SpansNamed(run, "gemm");
  ASSERT_FALSE(spans.empty());
  const InstructionKey key = UnpackId(spans.back().op);
  EXPECT_EQ(key.pass, Pass::kForward);
  EXPECT_EQ(key.block, 6);  // blocks count from the embedding
  EXPECT_EQ(key.micro_batch, 3);
}

TEST(Kineto, ShowsTheHostsOpsAsComputeWhereThereIsNoDevice) {
  const TraceRun run = ReadGood({KinetoTrace(Complete("cpu_op", "aten::linear", "1", 0, 100) + "," +
                                             Complete("cpu_op", "aten::addmm", "1", 20, 60) + "," +
                                             Complete("cpu_op", "aten::relu", "1", 120, 30))});
  // Each op gets the time in which nothing inside it ran: 0 to 20 and 80 to 100 for the linear.
  const auto linear = SpansNamed(run, "aten::linear");
  ASSERT_EQ(linear.size(), 2U);
  EXPECT_EQ(linear[0].end_ns - linear[0].start_ns, 20'000);
  EXPECT_EQ(linear[1].start_ns, 80'000);
  EXPECT_EQ(linear[0].op, linear[1].op);
  EXPECT_EQ(linear[0].queue, Queue::kCompute);
  EXPECT_EQ(SpansNamed(run, "aten::addmm")[0].op_class, OpClass::kGemm);
  EXPECT_EQ(SpansNamed(run, "aten::relu")[0].op_class, OpClass::kMemoryBound);
  EXPECT_THAT(run.notes, testing::Contains(HasSubstr("no device in the trace")));
  // From 100 to 120 us the thread was idle: the program's own delay.
  EXPECT_NEAR(ComputeMetrics(run.timeline).overall->classes.host_wait_s, 20e-6, 1e-12);
}

TEST(Kineto, TakesTheGroupOfACollectiveFromItsProcessGroup) {
  const std::string name = "ncclDevKernel_AllGather_RING_LL";
  const TraceRun run = ReadGood({KinetoTrace(
      Complete("kernel", name, "d1", 0, 10,
               R"("Process Group Description":"TENSOR_MODEL_PARALLEL_GROUP")") +
      "," + Complete("kernel", name, "d1", 20, 10, R"("Process Group Description":"tp")") + "," +
      Complete("kernel", name, "d1", 40, 10, R"("Process Group Description":"http")"))});
  const auto spans = SpansNamed(run, name);
  ASSERT_EQ(spans.size(), 3U);
  std::vector<OpClass> classes;
  for (const Span& span : spans) classes.push_back(span.op_class);
  EXPECT_THAT(classes,
              testing::UnorderedElementsAre(OpClass::kTpComm, OpClass::kTpComm, OpClass::kDpComm));
  EXPECT_THAT(run.notes, testing::Contains(HasSubstr("data parallelism")));
}

TEST(Kineto, JoinsALaunchToItsKernelByTheirFlow) {
  const TraceRun run = ReadGood(
      {KinetoTrace(Complete("cpu_op", "autograd::engine::evaluate_function: X", "1", 0, 50) + "," +
                   Complete("cuda_runtime", "cudaLaunchKernel", "1", 20, 5) + "," +
                   Complete("kernel", "gemm", "d7", 30, 10) +
                   R"(,{"ph":"s","cat":"ac2g","id":9,"pid":1,"tid":1,"ts":20.000000},)"
                   R"({"ph":"f","cat":"ac2g","id":9,"pid":0,"tid":7,"ts":30.000000,"bp":"e"})")});
  EXPECT_EQ(UnpackId(SpansNamed(run, "gemm").back().op).pass, Pass::kBackward);
}

TEST(Kineto, PutsBeginningsAndEndsTogether) {
  const auto event = [](const std::string& phase, const std::string& name, int time) {
    return R"({"ph":")" + phase + R"(","name":")" + name + R"(","pid":1,"tid":1,"ts":)" +
           std::to_string(time) + "}";
  };
  const TraceRun run = ReadGood({"[" + event("E", "before", 0) + "," + event("B", "outer", 10) +
                                 "," + event("B", "inner", 20) + "," + event("E", "inner", 50) +
                                 "," + event("E", "outer", 60) + "," + event("B", "open", 70) +
                                 "," + event("B", "last", 90) + "]"});
  EXPECT_EQ(SpansNamed(run, "inner")[0].end_ns - SpansNamed(run, "inner")[0].start_ns, 30'000);
  EXPECT_EQ(SpansNamed(run, "outer").size(), 2U);
  // ends with the trace; 10 us after its start
  EXPECT_EQ(SpansNamed(run, "open")[0].end_ns, 80'000);
  EXPECT_THAT(run.notes, testing::Contains(HasSubstr("2 events were begun and never ended")));
}

TEST(Kineto, LetsAStreamRunOneThingAtATime) {
  const TraceRun run = ReadGood({KinetoTrace(Complete("kernel", "relu", "d7", 0, 10.001) + "," +
                                             Complete("kernel", "gelu", "d7", 10, 5) + "," +
                                             Complete("kernel", "silu", "d8", 12, 5))});
  EXPECT_EQ(SpansNamed(run, "gelu")[0].start_ns, 10'001);
  EXPECT_EQ(SpansNamed(run, "gelu")[0].end_ns, 15'000);
  EXPECT_EQ(SpansNamed(run, "silu")[0].start_ns, 12'000);  // on another stream
}

// A kernel launched long before, that starts long after its predecessor ended, waited for something
// else. One launched late waited for the host.
TEST(Kineto, TellsWaitingForInputsFromWaitingForTheHost) {
  const auto call = [](double time, int correlation) {
    return Complete("cuda_runtime", "cudaLaunchKernel", "1", time, 2,
                    "\"correlation\":" + std::to_string(correlation)) +
           ",";
  };
  const auto kernel = [](double time, int correlation) {
    return Complete("kernel", "relu", "d7", time, 10,
                    "\"correlation\":" + std::to_string(correlation));
  };
  const std::string trace = call(0, 1) + call(3, 2) + call(95, 3) + kernel(5, 1) + "," +
                            kernel(55, 2) + "," + kernel(100, 3);
  const Metrics metrics = ComputeMetrics(ReadGood({KinetoTrace(trace)}).timeline);
  EXPECT_NEAR(metrics.overall->classes.dependency_wait_s, 40e-6, 1e-12);  // 15 to 55 us
  EXPECT_NEAR(metrics.overall->classes.host_wait_s, 40e-6, 1e-12);        // 0 to 5 and 65 to 100 us
}

TEST(Kineto, ReadsTheAllocatorsBytes) {
  const auto event = [](int time, int change, int all, int device) {
    return R"({"ph":"i","s":"t","name":"[memory]","pid":1,"tid":1,"ts":)" + std::to_string(time) +
           R"(,"args":{"Device Type":)" + std::to_string(device) + R"(,"Bytes":)" +
           std::to_string(change) + R"(,"Total Allocated":)" + std::to_string(all) + "}}";
  };
  const TraceRun run =
      ReadGood({KinetoTrace(Complete("kernel", "relu", "d1", 0, 1) + "," + event(0, 512, 4096, 1) +
                            "," + event(5, 100, 0, 0) + "," + event(6, -40, 0, 0))});
  ASSERT_EQ(run.timeline.memory.size(), 3U);
  EXPECT_EQ(run.timeline.memory[0].bytes, 4096);
  EXPECT_EQ(run.timeline.memory[0].space, Space::kDevice);
  EXPECT_EQ(run.timeline.memory[2].bytes, 60);
  EXPECT_EQ(run.timeline.memory[2].space, Space::kHost);
}

TEST(Kineto, CountsStepsByTheGivenName) {
  const std::string events = Complete("user_annotation", "batch 8", "1", 0, 10) + "," +
                             Complete("user_annotation", "batch 9", "1", 20, 10) + "," +
                             Complete("kernel", "relu", "d1", 22, 5);
  EXPECT_EQ(ReadGood({KinetoTrace(events)}).timeline.steps.size(), 1U);
  const TraceRun run = ReadGood({KinetoTrace(events)}, {.step_name = "batch"});
  ASSERT_EQ(run.timeline.steps.size(), 2U);
  EXPECT_EQ(run.timeline.steps[1].step, 9);
  EXPECT_EQ(SpansNamed(run, "relu")[0].step, 9);
  EXPECT_THAT(run.notes, Not(Contains(HasSubstr("one step"))));
}

TEST(Kineto, SaysWhenNothingTellsSteps) {
  const std::string events = Complete("user_annotation", "batch 8", "1", 0, 10);
  EXPECT_THAT(ReadGood({KinetoTrace(events)}).notes,
              Contains("no range says where a step begins: all of it is one step"));
  EXPECT_THAT(ReadGood({KinetoTrace(events)}, {.step_name = "epoch"}).notes,
              Contains("no range begins with \"epoch\": all of it is one step"));
}

std::string RankTrace(int rank, double start_us) {
  return KinetoTrace(Complete("kernel", "relu", "d1", start_us, 5),
                     R"("distributedInfo":{"backend":"nccl","rank":)" + std::to_string(rank) +
                         R"(,"world_size":4},)");
}

TEST(ImportedRanks, AreThoseTheTracesSay) {
  const TraceRun run = ReadGood({RankTrace(3, 10), RankTrace(1, 4)});
  EXPECT_EQ(run.timeline.world, 4);
  ASSERT_EQ(run.timeline.spans.size(), 2U);
  EXPECT_EQ(run.timeline.spans[0].rank, 1);
  EXPECT_EQ(run.timeline.spans[0].start_ns, 0);
  EXPECT_EQ(run.timeline.spans[1].rank, 3);
  EXPECT_EQ(run.timeline.spans[1].start_ns, 6'000);  // on one clock
  EXPECT_THAT(run.notes, testing::Not(testing::Contains(HasSubstr("numbered"))));
}

TEST(ImportedRanks, AreNumberedInOrderWhereTwoSayTheSame) {
  const TraceRun run = ReadGood({RankTrace(1, 0), RankTrace(1, 0)});
  EXPECT_EQ(run.timeline.spans[0].rank, 0);
  EXPECT_EQ(run.timeline.spans[1].rank, 1);
  EXPECT_THAT(run.notes, testing::Contains(HasSubstr("rank 1 rank1.json")));
}

TEST(ImportedRanks, BeginTogetherWhereTheirClocksAreFarApart) {
  const TraceRun run = ReadGood({RankTrace(0, 0), RankTrace(1, 7.2e9)});
  EXPECT_EQ(run.timeline.spans[1].start_ns, 0);
  EXPECT_THAT(run.notes, testing::Contains(HasSubstr("more than an hour apart")));
}

}  // namespace
}  // namespace foretrain
