#include "tests/runtime/checkpoint/saved_run.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <mutex>

#include "kernels/cpu/cpu_device.h"
#include "runtime/checkpoint/checkpoint_folder.h"
#include "runtime/data/token_data.h"
#include "runtime/run/trainer.h"
#include "tests/runtime/executor/recording_sink.h"
#include "tests/runtime/training.h"

namespace foretrain {

Result<RunResult> TrainSaved(const ModelSpec& model, const Plan& plan, const SavedRun& run) {
  RunResult result;
  PosixFileSystem files;
  FT_ASSIGN(Program program, Compile(model, plan));
  FT_ASSIGN(const auto data,
            TokenData::FromText(TrainingText(), "text", model.vocab, plan, kDocumentEnd));
  TrainJob job;
  job.program = std::make_shared<const Program>(std::move(program));
  job.steps = run.steps;
  job.seed = run.seed;
  job.learning_rate.peak = run.learning_rate;
  job.executor.timeout_ns = 60'000'000'000;
  job.executor.poison = run.api == nullptr;
  job.executor.faults = run.faults;
  job.skips_spikes = run.skips_spikes;
  job.executor.record_spans = job.executor.record_memory = false;
  if (!run.from.empty()) {
    FT_ASSIGN(NewestCheckpoint newest, OpenNewest(files, run.from));
    FT_TRY(newest.checkpoint.CheckFits(*job.program));
    result.damaged = newest.damaged;
    job.executor.first_step =
        run.first_step >= 0 ? run.first_step : newest.checkpoint.manifest().step;
    job.steps -= job.executor.first_step;
    job.resume = std::make_shared<const Checkpoint>(std::move(newest.checkpoint));
  }
  job.save.saver.folder = run.folder;
  job.save.saver.keep = run.keep;
  job.save.saver.manifest.model = model;
  job.save.saver.manifest.plan = plan;
  job.save.every_steps = run.every_steps;
  std::mutex mutex;
  job.save.on_saved = [&](const SaveReport& report) {
    const std::lock_guard<std::mutex> lock(mutex);
    result.saves.push_back(report);
  };
  RealClock clock;
  RecordingSink sink;
  FT_TRY(Train(job, run.api != nullptr ? *run.api : CpuDeviceApi(), clock, *data, sink));
  std::map<std::int64_t, float> losses;
  for (const StepScalars& scalars : sink.scalars) {
    if (scalars.loss) losses[scalars.step] = *scalars.loss;
  }
  for (const auto& [step, loss] : losses) result.losses.push_back(loss);
  for (const StepReport& report : sink.reports) {
    if (report.usual_loss) result.spikes.push_back(report.step);
    if (report.skipped) result.skipped.push_back(report.step);
  }
  return result;
}

void ExpectGoesOnToTheBit(const ModelSpec& model, const Plan& plan) {
  const std::string folder = FreshFolder();
  const auto whole = TrainSaved(model, plan, {.folder = folder + "/a"});
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  const auto rest =
      TrainSaved(model, plan, {.folder = folder + "/b", .from = folder + "/a/step-00000002"});
  ASSERT_TRUE(rest.has_value()) << rest.error().message;
  ASSERT_EQ(rest->losses.size(), 2U);
  ASSERT_EQ(whole->losses.size(), 4U);
  EXPECT_EQ(rest->losses[0], whole->losses[2]);
  EXPECT_EQ(rest->losses[1], whole->losses[3]);
  EXPECT_TRUE(TensorBytes(folder + "/a/step-00000004") == TensorBytes(folder + "/b/step-00000004"));
  if (!testing::Test::HasFailure()) std::filesystem::remove_all(folder);
}

std::string FreshFolder() {
  const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string(test->test_suite_name()) + "." + test->name();
  for (char& c : name) c = c == '/' ? '_' : c;
  const std::string folder = testing::TempDir() + "foretrain-" + name + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  return folder;
}

std::vector<std::string> CheckpointsIn(const std::string& folder) {
  PosixFileSystem files;
  std::vector<std::string> names;
  const auto all = ListCheckpoints(files, folder);
  EXPECT_TRUE(all.has_value());
  if (!all.has_value()) return names;
  for (const CheckpointPath& one : *all) names.push_back(one.path.substr(folder.size() + 1));
  return names;
}

std::string TensorBytes(const std::string& checkpoint) {
  PosixFileSystem files;
  std::string bytes;
  const auto opened = Checkpoint::Open(files, checkpoint);
  EXPECT_TRUE(opened.has_value()) << opened.error().message;
  if (!opened.has_value()) return bytes;
  for (int rank = 0; rank < static_cast<int>(opened->manifest().indexes.size()); ++rank) {
    bytes += ReadFile(files, checkpoint + "/" + TensorsName(rank), std::int64_t{1} << 30).value();
  }
  return bytes;
}

}  // namespace foretrain
