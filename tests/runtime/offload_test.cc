// What lies off the device is copied beside the compute: forced durations on a virtual clock, and
// the delayed update against its definition.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "kernels/cpu/cpu_device.h"
#include "runtime/data/token_data.h"
#include "runtime/device.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/derive_profile.h"
#include "sim/memory/copied_bytes.h"
#include "sim/simulate/simulate.h"
#include "training.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kMs = 1'000'000;

// Every compute op takes the same time, every op of the host's processors another; copies take what
// their caps say.
struct Durations : FaultInjector {
  Durations(const Program& made, std::int64_t compute, std::int64_t cpu) {
    for (const RankProgram& rank : made.ranks) {
      auto& of_rank = delays.emplace_back();
      for (const OpRef ref : OpRefs(made, rank)) {
        const Queue queue = OpAt(made, rank, ref).queue;
        of_rank.push_back(queue == Queue::kCompute ? compute : queue == Queue::kCpu ? cpu : 0);
      }
    }
  }
  Fault At(int rank, std::int64_t /*step*/, std::int32_t op) override {
    Fault fault{Fault::Kind::kDelay};
    fault.delay_ns = delays[static_cast<std::size_t>(rank)][static_cast<std::size_t>(op)];
    if (fault.delay_ns == 0) fault.kind = Fault::Kind::kNone;
    return fault;
  }
  std::vector<std::vector<std::int64_t>> delays;
};

struct Forced {
  std::shared_ptr<const Program> program;
  Timeline timeline;
  std::int64_t step_ns = 0;     // the last one's window
  std::int64_t compute_ns = 0;  // of one step

  std::int64_t BusyIn(Queue queue, int step) const {
    std::int64_t sum = 0;
    for (const Span& span : timeline.spans) {
      if (span.queue == queue && span.step == step) sum += span.end_ns - span.start_ns;
    }
    return sum;
  }
};

Forced RunForced(const Plan& plan, std::int64_t compute, std::int64_t cpu, const CopyCaps& caps,
                 int steps) {
  Forced forced;
  auto compiled = Compile(TinyGpt(), plan);
  EXPECT_TRUE(compiled.has_value()) << compiled.error().message;
  forced.program = std::make_shared<const Program>(*std::move(compiled));
  auto data = TokenData::FromText(TrainingText(), "text", 256, plan);
  Durations durations(*forced.program, compute, cpu);
  VirtualClock clock;
  ExecutorOptions options;
  options.timeout_ns = 3600 * std::int64_t{1'000'000'000};
  options.faults = &durations;
  options.copy_caps = caps;
  auto executor = Executor::Make(forced.program, CpuDeviceApi(), clock, options);
  EXPECT_TRUE(executor.has_value()) << executor.error().message;
  RecordingSink sink;
  auto summary = (*executor)->Run(steps, **data, sink);
  EXPECT_TRUE(summary.has_value()) << summary.error().message;
  forced.timeline = std::move(sink.timeline);
  const StepWindow& last = forced.timeline.steps.back();
  forced.step_ns = last.end_ns - last.start_ns;
  forced.compute_ns = forced.BusyIn(Queue::kCompute, steps - 1);
  return forced;
}

// A layer keeps x, norm1, attention, residual, norm2 of [16, 32], qkv of [16, 96], up and activated
// of [16, 64], lse of [16, 4] and four of [16] for means and deviations:
// 5 * 2048 + 6144 + 2 * 4096 + 256 + 4 * 64 = 25,088 bytes. Its forward has 9 ops or more, its
// backward more than that. At 1 ms an op and 25,088 bytes in 9 ms no copy is waited for; at a tenth
// of that rate the step takes at least what the copies of one direction do.
TEST(ActivationOffload, HidesItsCopiesBehindTheNextLayers) {
  Plan plan = TinyPlan();
  plan.global_batch = 2;
  const Forced here = RunForced(plan, kMs, 0, {}, 1);
  plan.offload_activations = OffloadTarget::kHost;
  const double rate = 25'088 / 9e-3;
  const Forced away = RunForced(plan, kMs, 0, {rate, rate, 0}, 1);
  EXPECT_EQ(here.compute_ns, away.compute_ns);
  // Layers 1 to 3 of each micro-batch; the backward of layer 4 comes too soon.
  std::int64_t out_bytes = 0, in_bytes = 0;
  for (const Span& span : away.timeline.spans) {
    if (span.queue == Queue::kD2h) out_bytes += span.bytes;
    if (span.queue == Queue::kH2d && UnpackId(span.op).kind == InstructionKind::kCopyIn) {
      in_bytes += span.bytes;
    }
  }
  EXPECT_EQ(out_bytes, 2 * 3 * 25'088);
  EXPECT_EQ(in_bytes, out_bytes);
  EXPECT_EQ(away.step_ns, here.step_ns) << "all copies are hidden";
  const Forced slow = RunForced(plan, kMs, 0, {rate / 10, rate / 10, 0}, 1);
  EXPECT_GE(slow.step_ns, 2 * 3 * 90 * kMs);
  EXPECT_GT(slow.step_ns, here.step_ns);
}

std::int64_t PeakOf(const Plan& plan, Space space) {
  auto program = Compile(TinyGpt(), plan);
  EXPECT_TRUE(program.has_value());
  return program->ranks[0].arena_bytes[static_cast<std::size_t>(space)];
}

TEST(ActivationOffload, FreesTheDevice) {
  Plan plan = TinyPlan();
  plan.micro_batch = 4;
  const std::int64_t here = PeakOf(plan, Space::kDevice);
  plan.offload_activations = OffloadTarget::kHost;
  EXPECT_LT(PeakOf(plan, Space::kDevice), here);
  EXPECT_GT(PeakOf(plan, Space::kPinned), 0);
  const std::int64_t pinned = PeakOf(plan, Space::kPinned);
  plan.offload_activations = OffloadTarget::kNvme;
  EXPECT_LE(PeakOf(plan, Space::kPinned), pinned);
  EXPECT_GT(PeakOf(plan, Space::kNvme), 0);
}

// The host's updates take about as long as the compute of a step. Waiting for them, a step takes
// both; delayed, it takes the longer of the two.
TEST(DelayedUpdate, RunsBesideTheNextStep) {
  Plan plan = TinyPlan();
  plan.global_batch = 2;
  plan.clip_norm = 1.0;  // so that no update begins before the last gradient
  plan.offload_optimizer = OffloadTarget::kHost;
  const Forced probe = RunForced(plan, kMs, 0, {}, 1);
  std::int64_t updates = 0;
  for (const Span& span : probe.timeline.spans) updates += span.queue == Queue::kCpu ? 1 : 0;
  ASSERT_GT(updates, 4);
  const std::int64_t cpu = probe.compute_ns / updates;
  const Forced waits = RunForced(plan, kMs, cpu, {}, 4);
  EXPECT_GE(waits.step_ns, probe.compute_ns + (updates - 1) * cpu);
  plan.delayed_update = true;
  const Forced beside = RunForced(plan, kMs, cpu, {}, 4);
  EXPECT_EQ(beside.step_ns, std::max(beside.compute_ns, updates * cpu));
}

// One step of `plan` from given parameters, which it does not change: loss and gradients.
Trained OneStep(const ModelSpec& model, const Plan& plan, const TensorSource& weights, int step) {
  Trained trained;
  auto program = Compile(model, plan);
  auto data = TokenData::FromText(TrainingText(), "text", model.vocab, plan);
  RealClock clock;
  ExecutorOptions options;
  options.first_step = step;
  auto executor = Executor::Make(std::make_shared<const Program>(*std::move(program)),
                                 CpuDeviceApi(), clock, options);
  EXPECT_TRUE(FillParameters(**executor, weights).has_value());
  RecordingSink sink;
  EXPECT_TRUE((*executor)->Run(1, **data, sink).has_value());
  trained.losses = {sink.scalars.front().loss.value_or(0.0F)};
  trained.gradients = GatherTensors(**executor, StateKind::kGradients);
  trained.parameters = GatherTensors(**executor, StateKind::kParameters);
  return trained;
}

TensorSource SourceOf(const TensorMap& tensors) {
  return [&tensors](const ParameterPlace& place, std::int64_t row, std::int64_t col,
                    std::span<float> out) -> Result<void> {
    const Tensor& tensor = tensors.at(place.name);
    std::copy_n(tensor.values.begin() + row * tensor.cols + col, out.size(), out.begin());
    return {};
  };
}

struct Moments {
  std::vector<float> first;
  std::vector<float> second;
};

void Update(const ParameterPlace& place, const Tensor& gradient, std::int64_t step, float rate,
            Tensor& parameter, Moments& moments) {
  const OptimizerSettings settings;
  moments.first.resize(parameter.values.size());
  moments.second.resize(parameter.values.size());
  const auto elements = static_cast<std::int64_t>(parameter.values.size());
  FtAdamW call{};
  call.param = parameter.values.data();
  call.grad = gradient.values.data();
  call.moment1 = moments.first.data();
  call.moment2 = moments.second.data();
  call.elements = elements;
  call.decayed = place.decays ? elements : 0;
  call.step = step;
  call.lr = rate;
  call.beta1 = settings.beta1;
  call.beta2 = settings.beta2;
  call.epsilon = settings.epsilon;
  call.weight_decay = settings.weight_decay;
  call.dtype = FT_F32;
  auto queue = DeviceQueue::Make(CpuDeviceApi(), 0);
  ASSERT_TRUE(queue.has_value());
  ASSERT_EQ(CpuDeviceApi().adamw(queue->get(), &call), FT_OK);
}

Trained TrainDelayedByHand(const ModelSpec& model, Plan plan, const TrainingOptions& options) {
  plan.offload_optimizer = OffloadTarget::kNone;
  plan.delayed_update = false;
  const auto program = Compile(model, plan);
  std::map<std::string, Moments> moments;
  Trained all;
  TensorMap before;
  for (int step = 0; step < options.steps; ++step) {
    const Trained now =
        OneStep(model, plan,
                step == 0 ? InitialWeights(model, options.seed) : SourceOf(all.parameters), step);
    all.losses.push_back(now.losses.front());
    if (step == 0) all.parameters = now.parameters;  // the learning rate is 0
    for (const ParameterPlace& place : program->ranks[0].parameters) {
      if (step == 0) continue;
      Update(place, before.at(place.name), step, options.learning_rate,
             all.parameters.at(place.name), moments[place.name]);
    }
    before = now.gradients;
  }
  return all;
}

// Every read and write of a piece and every update takes time; the disk reads the next piece while
// the host updates, so that the end of a step is shorter than their sum and no shorter than the
// disk's part.
TEST(OptimizerOffload, ReadsBesideTheUpdate) {
  Plan plan = TinyPlan();
  plan.global_batch = 2;
  plan.clip_norm = 1.0;  // all updates follow the last gradient
  plan.offload_optimizer = OffloadTarget::kNvme;
  const Forced forced = RunForced(plan, kMs, 2 * kMs, {0, 0, 60'000 / 1e-3}, 1);
  const std::int64_t disk = forced.BusyIn(Queue::kNvme, 0);
  const std::int64_t updates = forced.BusyIn(Queue::kCpu, 0);
  const std::int64_t exposed = forced.step_ns - forced.compute_ns;
  EXPECT_GT(updates, 10 * kMs);
  EXPECT_LT(exposed, disk + updates - 5 * kMs);
  EXPECT_GE(exposed, std::max(disk, updates) - forced.compute_ns);
}

// Sequential definition: the parameters of step t + 1 are those of step t after an update with the
// gradient of step t - 1, numbered from 1; step 0 has none. Each gradient is that of one step of a
// run with lr 0 that begins at the parameters in question.
TEST(DelayedUpdate, EqualsItsSequentialDefinition) {
  Plan plan = TinyPlan();
  plan.dp = 2;
  plan.zero_stage = 1;
  plan.offload_optimizer = OffloadTarget::kHost;
  plan.delayed_update = true;
  constexpr int kSteps = 5;
  const ModelSpec model = TinyGpt(false);
  TrainingOptions options;
  options.steps = kSteps;
  const Trained delayed = TrainTiny(model, plan, options);
  const Trained reference = TrainDelayedByHand(model, plan, options);
  ASSERT_EQ(delayed.losses.size(), reference.losses.size());
  EXPECT_EQ(delayed.losses, reference.losses);
  plan.delayed_update = false;
  const Trained at_once = TrainTiny(model, plan, options);
  EXPECT_EQ(delayed.losses[0], at_once.losses[0]);
  EXPECT_NE(delayed.losses[2], at_once.losses[2]);
  for (const auto& [name, tensor] : delayed.parameters) {
    EXPECT_EQ(tensor.values, reference.parameters.at(name).values) << name;
  }
}

// Bytes of a queue's copies in one step.
std::map<Queue, std::int64_t> CopiedIn(const Timeline& timeline, int step) {
  std::map<Queue, std::int64_t> bytes;
  for (const Span& span : timeline.spans) {
    if (span.op_class == OpClass::kCopy && span.step == step) bytes[span.queue] += span.bytes;
  }
  return bytes;
}

TEST(OptimizerOffload, MovesThePredictedBytes) {
  for (const bool stream : {false, true}) {
    Plan plan = TinyPlan();
    plan.dp = 2;
    plan.zero_stage = 1;
    plan.offload_optimizer = OffloadTarget::kNvme;
    plan.offload_activations = OffloadTarget::kHost;
    plan.stream_optimizer = stream;
    auto program = Compile(TinyGpt(), plan);
    ASSERT_TRUE(program.has_value());
    auto cluster = LocalCluster(2, std::int64_t{8} << 30, 2);
    ASSERT_TRUE(cluster.has_value());
    auto model = CostModel::Make(*cluster, DeriveProfile(*cluster));
    ASSERT_TRUE(model.has_value());
    auto costs = model->CostsOf(*program);
    ASSERT_TRUE(costs.has_value());
    auto simulation = Simulate(*program, *costs);
    ASSERT_TRUE(simulation.has_value());
    const auto predicted = CopiedIn(simulation->timeline, 1);
    EXPECT_EQ(CopiedIn(TrainTiny(TinyGpt(), plan).timeline, 1), predicted);
    // Every parameter of the model once, on either of two ranks: 4 bytes of gradient and parameter,
    // or 8 of moments each way; on the disk two moments and, where the host updates, the master.
    std::int64_t parameters = 0;
    for (const Bucket& bucket : program->ranks[0].buckets) parameters += bucket.used;
    EXPECT_EQ(predicted.at(Queue::kNvme), parameters * (stream ? 16 : 24));
    CopiedBytes moved;
    for (const RankProgram& rank : program->ranks) {
      const CopiedBytes of_rank = CopiedBytesOf(*program, rank);
      moved.from_device += of_rank.from_device;
      moved.read += of_rank.read;
      moved.written += of_rank.written;
    }
    EXPECT_EQ(moved.read, parameters * (stream ? 8 : 12));
    EXPECT_EQ(moved.written, moved.read);
    EXPECT_EQ(moved.from_device, predicted.at(Queue::kD2h));
    // 8 micro-batches, 4 on each rank, of layers 1 to 3.
    EXPECT_EQ(moved.from_device, parameters * (stream ? 8 : 4) + 8 * 3 * 25'088);
  }
}

TEST(OptimizerOffload, SaysThatTheDiskIsMissing) {
  Plan plan = TinyPlan();
  plan.offload_optimizer = OffloadTarget::kNvme;
  auto program = Compile(TinyGpt(), plan);
  ASSERT_TRUE(program.has_value());
  RealClock clock;
  ExecutorOptions options;
  options.nvme.folder = "/no/such/folder";
  auto executor = Executor::Make(std::make_shared<const Program>(*std::move(program)),
                                 CpuDeviceApi(), clock, options);
  ASSERT_FALSE(executor.has_value());
  EXPECT_EQ(executor.error().code, ErrorCode::kIo);
  EXPECT_THAT(executor.error().message,
              HasSubstr("rank 0: nvme: no file can be made in /no/such/folder"));
}

}  // namespace
}  // namespace foretrain
