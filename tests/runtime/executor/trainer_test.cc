#include "runtime/run/trainer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "kernels/cpu/cpu_device.h"
#include "runtime/data/token_data.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

struct ReportSink : RunSink {
  void OnStep(const StepReport& report) override { reports.push_back(report); }
  std::vector<StepReport> reports;
};

TEST(Train, CountsNoSetUpIntoTheFirstStep) {
  const ModelSpec model = TinyGpt();
  const Plan plan = TinyPlan();
  auto program = Compile(model, plan);
  ASSERT_TRUE(program.has_value());
  auto data = TokenData::FromText(TrainingText(), "text", model.vocab, plan);
  ASSERT_TRUE(data.has_value());
  TrainJob job;
  job.program = std::make_shared<const Program>(*std::move(program));
  job.steps = 3;
  // Weights that take half a second to load.
  bool first = true;
  job.weights = [&first, source = InitialWeights(model, 1)](const ParameterPlace& place,
                                                            std::int64_t row, std::int64_t col,
                                                            std::span<float> out) {
    if (first) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    first = false;
    return source(place, row, col, out);
  };
  RealClock clock;
  ReportSink sink;
  const auto summary = Train(job, CpuDeviceApi(), clock, **data, sink);
  ASSERT_TRUE(summary.has_value()) << summary.error().message;
  ASSERT_EQ(sink.reports.size(), 3U);
  double sum = 0;
  for (const StepReport& report : sink.reports) sum += report.seconds;
  // The steps lie within the run, which starts once the weights are loaded. Half of the sleep is
  // the margin for a thread that is suspended between two clock readings.
  EXPECT_LT(sum, summary->seconds + 0.25);
}

}  // namespace
}  // namespace foretrain
