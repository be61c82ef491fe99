// Calibrates small plans on this machine's CPU. Slow, because every op is timed by running it.
#include "runtime/calibrate/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "kernels/cpu/cpu_device.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/profile/profile_json.h"
#include "sim/program/ir/program.h"
#include "tests/runtime/training.h"

#if FORETRAIN_HAVE_CUDA_SHIM
#include "tests/plugins/shim/shim_device.h"
#endif

namespace foretrain {
namespace {

Plan Split(int dp, int tp, int pp) {
  Plan plan = TinyPlan();
  plan.dp = dp;
  plan.tp = tp;
  plan.pp = pp;
  plan.clip_norm = 1.0;
  return plan;
}

CalibrateOptions Options(const std::vector<Plan>& plans) {
  CalibrateOptions options;
  for (const Plan& plan : plans) options.targets.push_back({TinyGpt(), plan});
  options.cluster = *LocalCluster(2, std::int64_t{1} << 32, 2);
  options.seconds = 0.3;
  options.grid = false;
  options.machine = "test";
  options.date = "2026-11-20T00:00:00Z";
  return options;
}

// Every op of the program has its own point, at the concurrency of its plan and, unless it
// communicates, alone.
void ExpectCovered(const Program& program, const DeviceProfile& profile) {
  for (const RankProgram& rank : program.ranks) {
    for (const OpRef ref : OpRefs(program, rank)) {
      const Op& op = OpAt(program, rank, ref);
      if (op.kind == OpKind::kHostRead) continue;  // a rate
      int group = 1;
      if (IsCommunication(op.kind)) {
        const std::int32_t number = rank.groups[static_cast<std::size_t>(op.group)];
        group = static_cast<int>(program.groups[static_cast<std::size_t>(number)].size());
      }
      for (const int concurrency : {1, program.plan.World()}) {
        if (concurrency == 1 && IsCommunication(op.kind)) continue;
        const ProfilePoint key = PointOf(op, group, 1, concurrency);
        const auto found =
            std::find_if(profile.points.begin(), profile.points.end(),
                         [&](const ProfilePoint& point) { return SameKey(point, key); });
        ASSERT_TRUE(found != profile.points.end())
            << Describe(program.plan) << ": " << op.name << " at " << concurrency;
        EXPECT_GT(found->seconds, 0);
        EXPECT_GE(found->samples, 1);
        EXPECT_LE(found->p10_s, found->p90_s);
      }
    }
  }
}

TEST(Calibrate, TimesEveryOpOfThePlansAloneAndTogether) {
  Plan sharded = Split(2, 1, 1);
  sharded.zero_stage = 3;
  Plan recomputed = Split(1, 1, 2);
  recomputed.recompute = RecomputeKind::kFull;
  recomputed.schedule = ScheduleKind::kZbH1;
  const std::vector<Plan> plans{Split(1, 1, 1), Split(2, 1, 1), Split(1, 2, 1),
                                Split(1, 1, 2), sharded,        recomputed};
  RealClock clock;
  const auto profile = Calibrate(Options(plans), CpuDeviceApi(), clock);
  ASSERT_TRUE(profile.has_value()) << profile.error().message;
  for (const Plan& plan : plans) {
    const auto program = Compile(TinyGpt(), plan);
    ASSERT_TRUE(program.has_value());
    ExpectCovered(*program, *profile);
  }
  EXPECT_TRUE(ValidateProfile(*profile).has_value());
  EXPECT_EQ(profile->date, "2026-11-20T00:00:00Z");
  EXPECT_GT(profile->reference.seconds, 0);
  for (const OverheadKind kind : {OverheadKind::kLaunch, OverheadKind::kGap, OverheadKind::kWake}) {
    for (const int concurrency : {1, 2}) {
      EXPECT_TRUE(std::any_of(profile->overheads.begin(), profile->overheads.end(),
                              [&](const OverheadPoint& point) {
                                return point.kind == kind && point.concurrency == concurrency;
                              }))
          << Name(kind) << " at " << concurrency;
    }
  }
  EXPECT_EQ(profile->rates.gemm_flop_per_s.provenance, Provenance::kMeasured);
}

// Four ranks on two parallel axes: two groups of two on each axis.
TEST(Calibrate, TimesPlansOfTwoAxes) {
  CalibrateOptions options = Options({Split(2, 2, 1), Split(1, 2, 2), Split(2, 1, 2)});
  options.cluster = *LocalCluster(2, std::int64_t{1} << 32, 4);
  RealClock clock;
  const auto profile = Calibrate(options, CpuDeviceApi(), clock);
  ASSERT_TRUE(profile.has_value()) << profile.error().message;
  for (const CalibrationTarget& target : options.targets) {
    const auto program = Compile(target.model, target.plan);
    ASSERT_TRUE(program.has_value());
    ExpectCovered(*program, *profile);
  }
}

const ProfilePoint* FindCopy(const DeviceProfile& profile, Space from, Space to) {
  for (const ProfilePoint& point : profile.points) {
    if (point.kind == OpKind::kCopy && point.from == from && point.to == to) return &point;
  }
  return nullptr;
}

// A cap bounds a copy's time from below, however busy the machine is: 4 MB/s, and 2 MB/s for the
// disk.
TEST(Calibrate, TimesTheCopiesOfOffloadedPlansUnderTheirCaps) {
  Plan host = Split(2, 1, 1);
  host.zero_stage = 2;
  host.offload_activations = host.offload_gradients = host.offload_optimizer = OffloadTarget::kHost;
  Plan disk = Split(2, 1, 1);
  disk.zero_stage = 3;
  disk.offload_optimizer = disk.offload_parameters = OffloadTarget::kNvme;
  CalibrateOptions options = Options({host, disk});
  options.copy_caps = {4e6, 4e6, 2e6};
  RealClock clock;
  const auto profile = Calibrate(options, CpuDeviceApi(), clock);
  ASSERT_TRUE(profile.has_value()) << profile.error().message;
  for (const Plan& plan : {host, disk}) ExpectCovered(*Compile(TinyGpt(), plan), *profile);
  for (const auto& [from, to] :
       {std::pair{Space::kDevice, Space::kPinned}, std::pair{Space::kPinned, Space::kDevice},
        std::pair{Space::kPinned, Space::kNvme}, std::pair{Space::kNvme, Space::kPinned}}) {
    EXPECT_NE(FindCopy(*profile, from, to), nullptr) << Name(from) << " to " << Name(to);
  }
  for (const ProfilePoint& point : profile->points) {
    if (point.kind != OpKind::kCopy) continue;
    const bool disks = point.from == Space::kNvme || point.to == Space::kNvme;
    const double min_s = static_cast<double>(point.shape.elements) * 4 / (disks ? 2e6 : 4e6);
    EXPECT_GE(point.seconds, 0.999 * min_s) << point.shape.elements;
  }
  EXPECT_LE(profile->rates.copy_bytes_per_s.value, 1.01 * 4e6);
  EXPECT_EQ(profile->rates.nvme_read_bytes_per_s.provenance, Provenance::kMeasured);
}

// A folder without a disk does not keep the rest from being measured.
TEST(Calibrate, LeavesOutADiskThatIsNotThere) {
  CalibrateOptions options = Options({Split(1, 1, 1)});
  options.grid = true;
  options.nvme.folder = "/no/such/folder";
  RealClock clock;
  const auto profile = Calibrate(options, CpuDeviceApi(), clock);
  ASSERT_TRUE(profile.has_value()) << profile.error().message;
  EXPECT_NE(FindCopy(*profile, Space::kDevice, Space::kPinned), nullptr);
  EXPECT_NE(FindCopy(*profile, Space::kPinned, Space::kDevice), nullptr);
  EXPECT_EQ(FindCopy(*profile, Space::kPinned, Space::kNvme), nullptr);
  EXPECT_EQ(profile->rates.nvme_read_bytes_per_s.provenance, Provenance::kDefault);
}

TEST(Calibrate, WritesAProfileThatReadsBackEqual) {
  RealClock clock;
  const auto profile = Calibrate(Options({Split(1, 2, 1)}), CpuDeviceApi(), clock);
  ASSERT_TRUE(profile.has_value()) << profile.error().message;
  const auto read = ProfileFromJson(ProfileToJson(*profile), "profile.json");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, *profile);
}

TEST(Calibrate, TakesAboutTheTimeGiven) {
  CalibrateOptions options = Options({TinyPlan()});
  options.seconds = 1;
  const auto start = std::chrono::steady_clock::now();
  RealClock clock;
  ASSERT_TRUE(Calibrate(options, CpuDeviceApi(), clock).has_value());
  // The limit is generous: runs that have begun are finished, and the machine may be busy.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(Calibrate, SaysWhatItTimesAndStopsWhenTold) {
  CalibrateOptions options = Options({TinyPlan()});
  std::vector<std::string> told;
  options.progress = [&](const CalibrationProgress& progress) {
    EXPECT_GE(progress.done, 0);
    EXPECT_LE(progress.done, 1);
    told.push_back(progress.what);
  };
  options.stop = [&] { return told.size() >= 4; };
  RealClock clock;
  const auto profile = Calibrate(options, CpuDeviceApi(), clock);
  ASSERT_FALSE(profile.has_value());
  EXPECT_EQ(profile.error().code, ErrorCode::kAborted);
  EXPECT_EQ(told.size(), 4U);
  EXPECT_THAT(told.front(), testing::HasSubstr("dp1 tp1 pp1"));
}

TEST(Calibrate, RefusesOptionsThatMeasureNothing) {
  RealClock clock;
  const CalibrateOptions none = Options({});
  EXPECT_EQ(Calibrate(none, CpuDeviceApi(), clock).error().code, ErrorCode::kInvalidArgument);
  CalibrateOptions hasty = Options({TinyPlan()});
  hasty.seconds = 0;
  EXPECT_EQ(Calibrate(hasty, CpuDeviceApi(), clock).error().code, ErrorCode::kInvalidArgument);
}

FtStatus LittleMemory(std::int32_t /*device*/, FtMemory* out, char* /*why*/, std::size_t /*n*/) {
  *out = {std::int64_t{64} << 20, std::int64_t{64} << 20};
  return FT_OK;
}

// One batch has logits of 512 MiB and does not fit; the other plan does.
TEST(Calibrate, MeasuresWhatFitsWhereItMayLeaveOutTheRest) {
  FtDeviceApi small = CpuDeviceApi();
  small.memory = &LittleMemory;
  Plan large = Split(1, 1, 1);
  const std::int64_t logits_bytes = TinyGpt().vocab * large.sequence * 4;
  large.micro_batch = (std::int64_t{512} << 20) / logits_bytes;
  large.global_batch = large.micro_batch;
  CalibrateOptions options = Options({large, Split(1, 1, 1)});
  RealClock clock;
  const auto refused = Calibrate(options, small, clock);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted) << refused.error().message;
  options.skip_what_does_not_fit = true;
  const auto profile = Calibrate(options, small, clock);
  ASSERT_TRUE(profile.has_value()) << profile.error().message;
  const auto program = Compile(TinyGpt(), Split(1, 1, 1));
  ASSERT_TRUE(program.has_value());
  ExpectCovered(*program, *profile);
}

#if FORETRAIN_HAVE_CUDA_SHIM
// Runs the CUDA device's own kernels on the host: all ops of a step in both formats.
TEST(Calibrate, TimesTheKernelsOfTheCudaDevice) {
  Plan half = Split(1, 1, 1);
  half.precision = Precision::kBf16;
  CalibrateOptions options = Options({Split(1, 1, 1), half});
  options.seconds = 0.1;
  RealClock clock;
  const auto profile = Calibrate(options, ShimDeviceApi(), clock);
  ASSERT_TRUE(profile.has_value()) << profile.error().message;
  for (const CalibrationTarget& target : options.targets) {
    const auto program = Compile(target.model, target.plan);
    ASSERT_TRUE(program.has_value());
    ExpectCovered(*program, *profile);
  }
}
#endif

}  // namespace
}  // namespace foretrain
