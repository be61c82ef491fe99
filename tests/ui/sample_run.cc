#include "tests/ui/sample_run.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"

namespace foretrain {
namespace {

struct SampleOp {
  const char* name;
  std::int64_t forward_ns;
  OpClass op_class;
};

constexpr std::array<SampleOp, 8> kLayerOps{{
    {"norm", 38'000, OpClass::kMemoryBound},
    {"attn.qkv", 262'000, OpClass::kGemm},
    {"attn.core", 215'000, OpClass::kAttention},
    {"attn.out", 96'000, OpClass::kGemm},
    {"norm2", 38'000, OpClass::kMemoryBound},
    {"mlp.up", 348'000, OpClass::kGemm},
    {"mlp.act", 61'000, OpClass::kMemoryBound},
    {"mlp.down", 351'000, OpClass::kGemm},
}};
constexpr std::int64_t kSendNs = 140'000;
constexpr std::int64_t kSendBytes = 16 * kMiB;
constexpr std::int64_t kBucketNs = 900'000;
constexpr std::int64_t kBucketBytes = 96 * kMiB;
constexpr std::int64_t kLaunchNs = 4'000;
constexpr std::int64_t kWeightsBytes = 190 * kMiB;     // of a layer, in bf16
constexpr std::int64_t kActivationBytes = 310 * kMiB;  // of a layer and micro-batch

// A small generator of our own: the same numbers on every platform.
class Noise {
 public:
  explicit Noise(std::uint64_t seed) : state_(seed * 2 + 1) {}
  // Approximately normal, mean 0, standard deviation 1: twelve uniform numbers minus six.
  double Next() {
    double sum = -6.0;
    for (int i = 0; i < 12; ++i) {
      state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
      sum += static_cast<double>(state_ >> 40) / static_cast<double>(1 << 24);
    }
    return sum;
  }

 private:
  std::uint64_t state_;
};

struct SlotOf {
  bool forward = true;
  int micro_batch = 0;
};

// The order of one stage under 1F1B.
std::vector<SlotOf> OneForwardOneBackward(int stage, const SampleShape& shape) {
  const int warm = std::min(shape.micro_batches, shape.stages - 1 - stage);
  std::vector<SlotOf> slots;
  for (int m = 0; m < warm; ++m) slots.push_back({true, m});
  for (int m = 0; m + warm < shape.micro_batches; ++m) {
    slots.push_back({true, m + warm});
    slots.push_back({false, m});
  }
  for (int m = shape.micro_batches - warm; m < shape.micro_batches; ++m)
    slots.push_back({false, m});
  return slots;
}

class Builder {
 public:
  Builder(const SampleShape& shape, bool measured)
      : shape_(shape), measured_(measured), noise_(shape.seed) {
    timeline_.world = shape.stages * shape.replicas;
    free_.resize(static_cast<std::size_t>(timeline_.world));
    host_.resize(free_.size());
    live_.resize(free_.size());
    for (std::size_t op = 0; op < kLayerOps.size(); ++op) {
      for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
        for (int layer = 1; layer <= shape.layers; ++layer) {
          const OpId id = PackId({.pass = pass, .block = layer}, static_cast<int>(op));
          timeline_.op_names[NameKey(id)] =
              (pass == Pass::kBackward ? "d." : "") + std::string(kLayerOps[op].name);
        }
      }
    }
  }

  Timeline Build() {
    for (int rank = 0; rank < timeline_.world; ++rank) Resident(rank);
    const int steps = measured_ ? shape_.steps : 1;
    for (int step = 0; step < steps; ++step) Step(step);
    SortTimeline(timeline_);
    return std::move(timeline_);
  }

 private:
  int RankOf(int stage, int replica) const { return stage * shape_.replicas + replica; }
  int LayersOf() const { return shape_.layers / shape_.stages; }
  bool IsLast(int stage) const { return stage == shape_.stages - 1; }

  std::int64_t Timed(std::int64_t ns, double factor) {
    if (!measured_) return ns;
    const double spread = 1.0 + shape_.spread * noise_.Next();
    return std::max<std::int64_t>(
        1000, static_cast<std::int64_t>(static_cast<double>(ns) * factor * spread));
  }

  void Sample(int rank, Category category, std::int64_t time_ns, std::int64_t delta) {
    std::int64_t& live = live_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(category)];
    live += delta;
    timeline_.memory.push_back(
        {time_ns, live, static_cast<std::int16_t>(rank), category, Space::kDevice});
  }

  void Resident(int rank) {
    const std::int64_t weights = LayersOf() * kWeightsBytes;
    Sample(rank, Category::kParameters, 0, weights);
    Sample(rank, Category::kGradients, 0, 2 * weights);
    Sample(rank, Category::kMasterWeights, 0, 2 * weights / shape_.replicas);
    Sample(rank, Category::kOptimizerState, 0, 4 * weights / shape_.replicas);
    Sample(rank, Category::kWorkspace, 0, measured_ ? 290 * kMiB : 256 * kMiB);
  }

  Span& Add(int rank, Queue queue, OpClass op_class, OpId op, int step, std::int64_t ready_ns,
            std::int64_t start_ns, std::int64_t length_ns) {
    Span span{.start_ns = start_ns,
              .end_ns = start_ns + length_ns,
              .op = op,
              .ready_ns = ready_ns,
              .step = step,
              .rank = static_cast<std::int16_t>(rank),
              .queue = queue,
              .op_class = op_class};
    timeline_.spans.push_back(span);
    return timeline_.spans.back();
  }

  // Records a launch; launches run ahead of the device.
  void Launch(int rank, OpId op, int step, std::int64_t not_before_ns) {
    std::int64_t& host = host_[static_cast<std::size_t>(rank)];
    host = std::max(host, not_before_ns);
    Add(rank, Queue::kHost, OpClass::kHost, op, step, host, host, kLaunchNs);
    host += kLaunchNs;
  }

  // Adds one block; returns its end.
  std::int64_t Block(int stage, int rank, int layer, const SlotOf& slot, int step,
                     std::int64_t ready_ns) {
    std::int64_t& free = free_[static_cast<std::size_t>(rank)];
    const Pass pass = slot.forward ? Pass::kForward : Pass::kBackward;
    for (std::size_t i = 0; i < kLayerOps.size(); ++i) {
      const std::size_t at = slot.forward ? i : kLayerOps.size() - 1 - i;
      const SampleOp& op = kLayerOps[at];
      const bool slow = op.op_class == OpClass::kAttention && IsLast(stage);
      const OpId id = PackId({.pass = pass, .block = layer, .micro_batch = slot.micro_batch},
                             static_cast<int>(at));
      Launch(rank, id, step, step_start_);
      const std::int64_t start = std::max(free, ready_ns);
      const std::int64_t gap = measured_ ? 1500 : 1000;
      const std::int64_t length = Timed((slot.forward ? 1 : 2) * op.forward_ns, slow ? 1.3 : 1.004);
      Add(rank, Queue::kCompute, op.op_class, id, step, ready_ns, start, length);
      free = start + length + gap;
      ready_ns = free;
    }
    const auto bytes = slot.forward ? kActivationBytes : -kActivationBytes;
    Sample(rank, Category::kActivations, free, bytes);
    return free;
  }

  // Adds all blocks of a slot and the transfer to the neighbour.
  void Slot(int stage, int replica, const SlotOf& slot, int step) {
    const int rank = RankOf(stage, replica);
    const auto key = std::tuple(stage, replica, slot.forward, slot.micro_batch);
    std::int64_t ready = std::max(step_start_, arrived_[key]);
    for (int i = 0; i < LayersOf(); ++i) {
      const int place = slot.forward ? i : LayersOf() - 1 - i;
      ready = Block(stage, rank, 1 + stage * LayersOf() + place, slot, step, ready);
    }
    const int to = slot.forward ? stage + 1 : stage - 1;
    if (to < 0 || to >= shape_.stages) {
      if (slot.forward) arrived_[std::tuple(stage, replica, false, slot.micro_batch)] = ready;
      return;
    }
    Transfer(rank, RankOf(to, replica), slot, step, ready);
    arrived_[std::tuple(to, replica, slot.forward, slot.micro_batch)] = last_transfer_ns_;
  }

  void Transfer(int from, int to, const SlotOf& slot, int step, std::int64_t ready_ns) {
    const std::int64_t length = Timed(kSendNs, 1.6);
    const int block = slot.forward ? 1 : 2;
    const Pass pass = slot.forward ? Pass::kForward : Pass::kBackward;
    const auto id = [&](InstructionKind kind) {
      return PackId({.kind = kind, .pass = pass, .block = block, .micro_batch = slot.micro_batch});
    };
    const Queue out = slot.forward ? Queue::kSendNext : Queue::kSendPrev;
    const Queue in = slot.forward ? Queue::kRecvPrev : Queue::kRecvNext;
    Add(from, out, OpClass::kPpComm, id(InstructionKind::kSend), step, ready_ns, ready_ns, length)
        .bytes = kSendBytes;
    Add(to, in, OpClass::kPpComm, id(InstructionKind::kRecv), step, ready_ns, ready_ns, length)
        .bytes = kSendBytes;
    last_transfer_ns_ = ready_ns + length;
  }

  // Runs slots in the order in which they become ready, until all stages are done.
  void Pipeline(int replica, int step) {
    std::vector<std::vector<SlotOf>> lists;
    for (int stage = 0; stage < shape_.stages; ++stage) {
      lists.push_back(OneForwardOneBackward(stage, shape_));
    }
    std::vector<std::size_t> next(lists.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t stage = 0; stage < lists.size(); ++stage) {
        if (next[stage] == lists[stage].size()) continue;
        const SlotOf slot = lists[stage][next[stage]];
        const int s = static_cast<int>(stage);
        const bool first = slot.forward && s == 0;
        if (!first && !arrived_.contains(std::tuple(s, replica, slot.forward, slot.micro_batch))) {
          continue;
        }
        Slot(s, replica, slot, step);
        ++next[stage];
        moved = true;
      }
    }
  }

  // Adds the reduction of gradient buckets over the replicas, then the update; returns the end.
  std::int64_t Finish(int stage, int step) {
    std::int64_t ready = 0;
    for (int r = 0; r < shape_.replicas; ++r) {
      ready = std::max(ready, free_[static_cast<std::size_t>(RankOf(stage, r))]);
    }
    std::int64_t end = ready;
    constexpr int kBuckets = 3;
    std::array<std::int64_t, kBuckets> lengths{};
    for (std::int64_t& length : lengths) length = Timed(kBucketNs, 1.12);
    for (int r = 0; r < shape_.replicas; ++r) {
      const int rank = RankOf(stage, r);
      std::int64_t at = ready;
      for (int bucket = 0; shape_.replicas > 1 && bucket < kBuckets; ++bucket) {
        const OpId id = PackId({.kind = InstructionKind::kAllReduce, .part = bucket});
        const std::int64_t length = lengths[static_cast<std::size_t>(bucket)];
        Add(rank, Queue::kReduce, OpClass::kDpComm, id, step, free_[static_cast<std::size_t>(rank)],
            at, length)
            .bytes = kBucketBytes;
        at += length;
      }
      const OpId update = PackId({.kind = InstructionKind::kOptimizerStep, .pass = Pass::kUpdate});
      const std::int64_t length = Timed(1'400'000, 1.05);
      Add(rank, Queue::kCompute, OpClass::kMemoryBound, update, step, at, at, length);
      free_[static_cast<std::size_t>(rank)] = at + length + 1000;
      end = std::max(end, at + length);
    }
    return end;
  }

  void Step(int step) {
    arrived_.clear();
    for (int replica = 0; replica < shape_.replicas; ++replica) Pipeline(replica, step);
    std::int64_t end = 0;
    for (int stage = 0; stage < shape_.stages; ++stage) end = std::max(end, Finish(stage, step));
    for (int rank = 0; rank < timeline_.world; ++rank) {
      timeline_.steps.push_back({step_start_, end, step, static_cast<std::int16_t>(rank)});
      free_[static_cast<std::size_t>(rank)] = end;
    }
    step_start_ = end;
  }

  SampleShape shape_;
  bool measured_;
  Noise noise_;
  Timeline timeline_;
  std::int64_t step_start_ = 0;
  std::int64_t last_transfer_ns_ = 0;
  std::vector<std::int64_t> free_;  // by rank: when its compute queue is free
  std::vector<std::int64_t> host_;
  std::vector<std::array<std::int64_t, kCategoryCount>> live_;
  std::map<std::tuple<int, int, bool, int>, std::int64_t> arrived_;
};

RunView RunOf(const SampleShape& shape, bool measured) {
  RunView run;
  run.timeline = Builder(shape, measured).Build();
  run.layers = shape.layers;
  run.metrics.pipelines = PipelinesOf(run.timeline.world, shape.stages);
  run.metrics.tokens_per_step = 4096.0 * shape.micro_batches * shape.replicas;
  run.metrics.model_flops_per_step = 1.2e13 * shape.layers * shape.micro_batches / 8;
  run.metrics.peak_flop_per_s = 312e12 * run.timeline.world;
  run.program_hash = "sample";
  run.device_bytes = 40 * kGiB;
  return run;
}

// Readings every 4 ms: activity falls from 90 % by 5 points a reading and starts again, NVLink
// follows at up to 300 GB/s, PCIe stays at 0.
std::vector<GpuCounter> CountersOf(const Timeline& timeline) {
  std::int64_t end_ns = 0;
  for (const StepWindow& window : timeline.steps) end_ns = std::max(end_ns, window.end_ns);
  std::vector<Counter> counters;
  for (int rank = 0; rank < timeline.world; ++rank) {
    for (std::int64_t at_ns = 0; at_ns < end_ns; at_ns += 4'000'000) {
      const double share = 0.9 - 0.05 * static_cast<double>((at_ns / 4'000'000 + rank) % 12);
      const auto add = [&](const char* name, double value) {
        counters.push_back({name, rank, -1, at_ns, value});
      };
      add("gpu_sm_activity", share);
      add("gpu_tensor_activity", share / 2);
      add("gpu_nvlink_tx_bytes_per_s", 3e11 * share / 0.9);
      add("gpu_pcie_tx_bytes_per_s", 0.0);
      add("gpu_sm_clock_hz", 1.98e9);
    }
  }
  return GpuCountersOf(counters);
}

}  // namespace

CompareInput SampleInput(const SampleShape& shape) {
  CompareInput input;
  input.predicted = RunOf(shape, /*measured=*/false);
  input.measured = RunOf(shape, /*measured=*/true);
  input.predicted->label = "llama-1.3b dp2 pp2 1f1b";
  input.measured->label = "run 7";
  if (shape.counters) {
    input.measured->gpu_counters =
        std::make_shared<const std::vector<GpuCounter>>(CountersOf(input.measured->timeline));
  }
  return input;
}

}  // namespace foretrain
