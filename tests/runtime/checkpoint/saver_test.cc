// Saving when the file system fails or loses power: the checkpoint before stays, a later save
// works.
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <set>

#include "kernels/cpu/cpu_device.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/saver.h"
#include "runtime/parameters/tensors.h"
#include "tests/base/fault_file_system.h"
#include "tests/runtime/checkpoint/saved_run.h"
#include "tests/runtime/equality/equality_cases.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

constexpr const char* kFolder = "/checkpoints";

// An executor whose state never changes, and a saver over a file system in memory.
class Saver : public testing::Test {
 protected:
  void SetUp() override {
    Open(With([](Plan& p) { p.dp = 2, p.zero_stage = 1; }));
  }

  void Open(const Plan& plan) {
    auto program = Compile(TinyGpt(), plan);
    ASSERT_TRUE(program.has_value());
    auto executor = Executor::Make(std::make_shared<const Program>(*std::move(program)),
                                   CpuDeviceApi(), clock_, {});
    ASSERT_TRUE(executor.has_value());
    executor_ = *std::move(executor);
    ASSERT_TRUE(FillParameters(*executor_, InitialWeights(TinyGpt(), 5)).has_value());
  }

  std::unique_ptr<CheckpointSaver> NewSaver(FileSystem& files, int keep = 2) {
    SaverOptions options;
    options.folder = kFolder;
    options.keep = keep;
    options.manifest.model = TinyGpt();
    options.manifest.plan = executor_->program().plan;
    auto saver = CheckpointSaver::Make(options, files, *executor_, clock_,
                                       [this](const SaveReport& report) { last_ = report; });
    EXPECT_TRUE(saver.has_value()) << saver.error().message;
    return saver.has_value() ? *std::move(saver) : nullptr;
  }

  // Saves and waits. The result is the error that was reported.
  std::optional<Error> Save(CheckpointSaver& saver, std::int64_t step) {
    EXPECT_TRUE(saver.Save(step).has_value());
    saver.Wait();
    EXPECT_EQ(last_.step, step);
    return last_.error;
  }

  static std::int64_t NewestStep(FileSystem& files) {
    const auto newest = OpenNewest(files, kFolder);
    EXPECT_TRUE(newest.has_value()) << newest.error().message;
    return newest.has_value() ? newest->checkpoint.manifest().step : -1;
  }

  RealClock clock_;
  std::unique_ptr<Executor> executor_;
  SaveReport last_;
};

TEST_F(Saver, KeepsTheNewest) {
  FaultFileSystem files;
  const auto saver = NewSaver(files, /*keep=*/2);
  for (const std::int64_t step : {10, 20, 30}) EXPECT_FALSE(Save(*saver, step).has_value());
  EXPECT_EQ(last_.path, "/checkpoints/step-00000030");
  const auto all = ListCheckpoints(files, kFolder);
  ASSERT_EQ(all->size(), 2U);
  EXPECT_EQ((*all)[1].step, 20);
  EXPECT_FALSE(files.Exists("/checkpoints/step-00000010/rank-00000.safetensors"));
}

TEST_F(Saver, KeepsAnEarlierCheckpointOfTheSameStep) {
  FaultFileSystem files;
  EXPECT_FALSE(Save(*NewSaver(files), 10).has_value());
  EXPECT_FALSE(Save(*NewSaver(files), 10).has_value());
  EXPECT_EQ(last_.path, "/checkpoints/step-00000010-2");
  EXPECT_EQ(ListCheckpoints(files, kFolder)->front().path, last_.path);
}

// State that was loaded from a checkpoint is saved again byte for byte.
TEST_F(Saver, SavesWhatWasLoaded) {
  const std::string folder = FreshFolder();
  const Plan plan = With([](Plan& p) {
    p.pp = 2, p.schedule = ScheduleKind::kZbH1, p.clip_norm = 0.05, p.post_validation = true;
  });
  const auto run = TrainSaved(TinyGpt(), plan, {.folder = folder, .steps = 2});
  ASSERT_TRUE(run.has_value()) << run.error().message;
  Open(plan);
  PosixFileSystem real;
  const std::string saved = folder + "/step-00000002";
  auto checkpoint = Checkpoint::Open(real, saved);
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message;
  ASSERT_TRUE(checkpoint->Load(real, *executor_).has_value());
  FaultFileSystem files;
  EXPECT_FALSE(Save(*NewSaver(files), 2).has_value());
  for (const int rank : {0, 1}) {
    const std::string name = "/" + TensorsName(rank);
    EXPECT_TRUE(files.Get(last_.path + name) ==
                ReadFile(real, saved + name, std::int64_t{1} << 30).value());
  }
  std::filesystem::remove_all(folder);
}

// The saver writes nothing of a state that a later run could not go on with.
TEST_F(Saver, RefusesAStateThatIsNotFiniteAndKeepsTheCheckpointBefore) {
  FaultFileSystem files;
  const auto saver = NewSaver(files);
  EXPECT_FALSE(Save(*saver, 1).has_value());
  const TensorSource healthy = InitialWeights(TinyGpt(), 5);
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    const TensorSource spoiled = [&](const ParameterPlace& place, std::int64_t row,
                                     std::int64_t col, std::span<float> out) -> Result<void> {
      FT_TRY(healthy(place, row, col, out));
      if (place.name == "layers.1.mlp.down.weight" && row == 3) out.back() = value;
      return {};
    };
    ASSERT_TRUE(FillParameters(*executor_, spoiled).has_value());
    const auto error = Save(*saver, 2);
    ASSERT_TRUE(error.has_value()) << value;
    EXPECT_NE(error->message.find("the weight of layers.1.mlp.down.weight holds a value that is "
                                  "infinite or NaN"),
              std::string::npos)
        << error->message;
    EXPECT_EQ(last_.path, "");
    EXPECT_EQ(NewestStep(files), 1);
    EXPECT_FALSE(files.Exists("/checkpoints/step-00000002/rank-00000.safetensors"));
  }
  ASSERT_TRUE(FillParameters(*executor_, healthy).has_value());
  EXPECT_FALSE(Save(*saver, 3).has_value());
  EXPECT_EQ(NewestStep(files), 3);
}

// One save fails at each of its calls in turn. The next one succeeds and leaves nothing of it.
TEST_F(Saver, AFailedCallKeepsTheCheckpointBefore) {
  std::int64_t failed = 0;
  for (std::int64_t call = 0;; ++call) {
    FaultFileSystem files;
    const auto saver = NewSaver(files, /*keep=*/2);
    ASSERT_FALSE(Save(*saver, 10).has_value());
    files.FailAt(call, /*sticky=*/false, ErrorCode::kResourceExhausted);
    const auto error = Save(*saver, 20);
    if (!files.fired()) break;
    files.FailNever();
    if (error.has_value()) {
      ++failed;
      EXPECT_FALSE(error->message.empty());
    }
    EXPECT_EQ(NewestStep(files), last_.path.empty() ? 10 : 20) << "call " << call;
    EXPECT_FALSE(Save(*saver, 30).has_value());
    EXPECT_EQ(NewestStep(files), 30);
    const auto names = files.List(kFolder);
    EXPECT_EQ(names->size(), 2U) << "call " << call << ": something of the failed save is left";
  }
  EXPECT_GT(failed, 30);
}

// The error names exactly the ranks whose files could not be written.
TEST_F(Saver, AnErrorNamesTheRanksThatFailed) {
  Open(With([](Plan& p) { p.dp = 4, p.zero_stage = 1; }));
  for (const FileOp op : {FileOp::kCreate, FileOp::kWrite, FileOp::kSync, FileOp::kClose}) {
    for (int rank = 0; rank < 4; ++rank) {
      FaultFileSystem files;
      const auto saver = NewSaver(files);
      ASSERT_FALSE(Save(*saver, 10).has_value());
      files.FailAt(0, /*sticky=*/false, ErrorCode::kIo, [&](const FileCall& call) {
        return call.op == op && call.path.find(TensorsName(rank)) != std::string::npos;
      });
      const auto error = Save(*saver, 20);
      ASSERT_TRUE(error.has_value());
      for (int other = 0; other < 4; ++other) {
        EXPECT_EQ(error->message.find("rank " + std::to_string(other) + ":") != std::string::npos,
                  other == rank)
            << error->message;
      }
      EXPECT_EQ(NewestStep(files), 10);
      EXPECT_FALSE(Save(*saver, 30).has_value());
    }
  }
}

// Power is lost at each call of a save, and unsynced bytes and names are lost, kept or noise.
TEST_F(Saver, ALossOfPowerKeepsAWholeCheckpoint) {
  std::set<std::int64_t> seen;
  for (std::int64_t call = 0;; ++call) {
    bool fired = false;
    for (const PowerLoss loss : {PowerLoss::kDropAll, PowerLoss::kKeepSome, PowerLoss::kGarbage}) {
      FaultFileSystem files;
      {
        const auto saver = NewSaver(files);
        ASSERT_FALSE(Save(*saver, 10).has_value());
        files.FailAt(call, /*sticky=*/true);
        const bool saved = !Save(*saver, 20).has_value();
        fired = files.fired();
        files.FailNever();
        files.LosePower(loss, static_cast<std::uint64_t>(call));
        if (saved) {
          EXPECT_EQ(NewestStep(files), 20) << "call " << call;
        }
      }
      seen.insert(NewestStep(files));
      const auto next = NewSaver(files);
      EXPECT_FALSE(Save(*next, 30).has_value()) << last_.error->message;
      EXPECT_EQ(NewestStep(files), 30);
    }
    if (!fired) break;
  }
  EXPECT_EQ(seen, (std::set<std::int64_t>{10, 20}));
}

}  // namespace
}  // namespace foretrain
