#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "sim/memory/caching_allocator_model.h"
#include "sim/memory/peak_memory.h"
#include "sim/program/ir/precision.h"
#include "sim/program/ir/program.h"
#include "sim/program/lower/rank/emit.h"
#include "sim/program/lower/rank/lowerings.h"

namespace foretrain {
namespace {

// A rank's step without addresses and edges, which the allocator does not need.
struct Emitted {
  RankProgram rank;
  std::vector<Block> blocks;
};

Emitted EmitAlone(const ModelSpec& model, const Plan& plan, const RankCoordinates& at) {
  const Stage stage = StageOf(model, plan, at.pp);
  const BucketLayout layout = LayOutBuckets(model, plan, stage, at);
  const LowerContext context{model, plan, stage, layout, at};
  Emitted out;
  out.rank.pp = at.pp;
  out.rank.dp = at.dp;
  out.rank.cp = at.cp;
  out.rank.tp = at.tp;
  BlockRegistry registry;
  EmitRank(context, LowerStep(context), registry, out.rank);
  out.blocks = registry.Take();
  return out;
}

// Tensors that begin to live at one op, and those that end after it.
struct Moment {
  std::vector<int> begin, end;  // tensors
};

// Serves the requests of two steps, because the second one starts from the fragmented cache that
// the first one left. Tensors are the buffers of the program, followed by those that the system
// holds in addition.
class Replay {
 public:
  Replay(const Plan& plan, const SystemOptions& system, const Emitted& emitted)
      : plan_(plan), system_(system), emitted_(emitted) {
    for (const Buffer& buffer : emitted_.rank.buffers) tensors_.push_back({buffer.bytes, -1, -1});
    Visit();
    Schedule();
  }

  ReservedMemory Run(std::int64_t capacity) {
    CachingAllocatorModel allocator(capacity);
    HoldState(allocator);
    for (int step = 0; step < 2; ++step) Step(allocator);
    return {allocator.peak_allocated_bytes(), allocator.peak_reserved_bytes()};
  }

 private:
  struct Tensor {
    std::int64_t bytes = 0;
    int first = -1, last = -1;  // first and last op that touches it
    int with = -1;              // number of a tensor whose end is its end too; -1: none
    bool moved = false;         // another queue than compute sends or receives it
    bool shared = false;        // lies in the one buffer of all gathers
    bool sharded = false;       // gathered from shards, or reduced into them
  };
  static std::size_t Index(int i) { return static_cast<std::size_t>(i); }

  // Finds the lives of buffers and adds the tensors that the system holds besides them.
  void Visit() {
    int number = 0;
    std::map<int, int> ends;  // last op of the backward, by micro-batch
    for (const Instruction& instruction : emitted_.rank.step) {
      const Block& block = emitted_.blocks[Index(instruction.block)];
      for (const Op& op : block.ops) {
        Touch(instruction, block, op, number);
        AddEager(instruction, block, op, number);
        if (op.kind == OpKind::kAllGather && op.queue == Queue::kGather) gathers_.push_back(number);
        ++number;
      }
      const Pass pass = instruction.key.pass;
      if (pass == Pass::kBackward || pass == Pass::kBackwardWeight) {
        ends[instruction.key.micro_batch] = number - 1;
      }
    }
    ops_ = number;
    for (const auto& [tensor, micro_batch] : held_gradients_) {
      tensors_[Index(tensor)].last = ends.at(micro_batch);
    }
    for (const auto& [tensor, micro_batch] : metrics_) {
      tensors_[Index(tensor)].first = tensors_[Index(tensor)].last = ends.at(micro_batch);
    }
  }

  const Binding& BindingOf(const Instruction& instruction, std::int16_t slot) const {
    return emitted_.rank.bindings[Index(instruction.first_binding + slot)];
  }

  void Touch(const Instruction& instruction, const Block& block, const Op& op, int number) {
    for (const Operand& operand : OperandsOf(block, op)) {
      if (operand.slot == kNoSlot) continue;
      const Binding& binding = BindingOf(instruction, operand.slot);
      if (binding.buffer < 0) continue;
      Tensor& tensor = tensors_[Index(binding.buffer)];
      const TensorSlot& slot = block.slots[Index(operand.slot)];
      Shorten(slot, tensor);
      if (slot.role == SlotRole::kGradient) {
        largest_gradient_ = std::max(largest_gradient_, ElementsIn(slot.format, slot.bytes));
      }
      if (IsSharedGather(op, operand)) {
        tensor.shared = true;
        gathered_bytes_ = std::max(gathered_bytes_, tensor.bytes);
      }
      if (tensor.first < 0) tensor.first = number;
      tensor.last = number;
      tensor.moved = tensor.moved || (IsCommunication(op.kind) && op.queue != Queue::kCompute);
      tensor.sharded = tensor.sharded || op.queue == Queue::kGather || op.queue == Queue::kReduce;
      HoldGradient(instruction, slot, operand, number);
    }
  }

  // A system's logits and their gradient may take fewer bytes than the program's.
  void Shorten(const TensorSlot& slot, Tensor& tensor) const {
    constexpr std::int64_t kShort = 2;  // bytes of 16 bits
    if (system_.logit_bytes == 0 || slot.category != Category::kLogits) return;
    const bool is_fp32 = slot.format == NumberFormat::kFp32;
    const std::int64_t each =
        is_fp32 ? kShort : std::max<std::int64_t>(0, system_.logit_bytes - kShort);
    tensor.bytes = std::min(tensor.bytes, each * ElementsIn(slot.format, slot.bytes));
  }

  bool IsSharedGather(const Op& op, const Operand& operand) const {
    return system_.shared_gathers && op.kind == OpKind::kAllGather && op.queue == Queue::kTp &&
           operand.access != Access::kRead;
  }

  // The gradient of a product, which an eager system holds until it is added to the accumulated
  // one.
  void HoldGradient(const Instruction& instruction, const TensorSlot& slot, const Operand& operand,
                    int number) {
    const bool made = slot.role == SlotRole::kGradient && operand.access != Access::kRead;
    if (!system_.holds_gradients || !made) return;
    const std::int64_t elements = ElementsIn(slot.format, slot.bytes);
    held_gradients_.emplace_back(static_cast<int>(tensors_.size()), instruction.key.micro_batch);
    tensors_.push_back({BytesIn(ActivationFormat(plan_), elements), number, number});
  }

  // Adds `bytes` that live as long as operand `i` of the op.
  void AddBeside(const Instruction& instruction, const Block& block, const Op& op, std::size_t i,
                 std::int64_t bytes, int number) {
    const std::int16_t slot = OperandsOf(block, op)[i].slot;
    if (slot == kNoSlot || bytes == 0) return;
    tensors_.push_back({bytes, number, number, BindingOf(instruction, slot).buffer});
  }

  void AddEager(const Instruction& instruction, const Block& block, const Op& op, int number) {
    const std::int64_t all = op.shape.rows * op.shape.cols;
    switch (op.kind) {
      // The activated gate, which the backward of the product reads again.
      case OpKind::kSwigluForward:
        if (!system_.fused_elementwise) {
          AddBeside(instruction, block, op, 1, BytesIn(op.formats[1], all), number);
        }
        break;
      // An fp32 copy of the input replaces the one of 16 bits; the normalized values before the
      // weights are kept too: 4 - 2 + 2 bytes per element.
      case OpKind::kNormForward:
        if (!system_.fused_norm && op.rms) AddBeside(instruction, block, op, 5, 4 * all, number);
        break;
      // The head's logits and their exponentials, besides the fp32 copy.
      case OpKind::kCrossEntropyForward:
      case OpKind::kCrossEntropy:
      case OpKind::kVocabSums:
        if (!system_.fused_loss) AddEagerLoss(instruction, block, op, number);
        break;
      default:
        break;
    }
  }

  void AddEagerLoss(const Instruction& instruction, const Block& block, const Op& op, int number) {
    const std::int64_t logits = op.shape.rows * op.shape.vocab;
    const std::int64_t made = BytesIn(ActivationFormat(plan_), logits);
    if (!system_.late_metrics) {
      AddBeside(instruction, block, op, 0, made + 4 * logits, number);
      return;
    }
    // The head's logits, an fp32 copy and their log-softmax.
    metrics_.emplace_back(static_cast<int>(tensors_.size()), instruction.key.micro_batch);
    tensors_.push_back({made + 8 * logits, number, number});
  }

  // Tensors numbered after the buffers belong to the system, not to the program.
  bool IsBuffer(int tensor) const { return Index(tensor) < emitted_.rank.buffers.size(); }
  bool IsState(int tensor) const {
    return IsBuffer(tensor) && emitted_.rank.buffers[Index(tensor)].persistent;
  }
  bool IsElsewhere(int tensor) const {
    return IsBuffer(tensor) && emitted_.rank.buffers[Index(tensor)].space != Space::kDevice;
  }

  // Sorts lives by op. State and shared gathers are allocated once in HoldState instead.
  void Schedule() {
    places_.resize(tensors_.size(), -1);
    moments_.resize(Index(ops_));
    for (int t = 0; t < static_cast<int>(tensors_.size()); ++t) {
      Tensor& tensor = tensors_[Index(t)];
      if (tensor.with >= 0) tensor.last = std::max(tensor.last, tensors_[Index(tensor.with)].last);
      if (tensor.first < 0 || tensor.bytes == 0 || IsState(t) || IsElsewhere(t)) continue;
      if (tensor.shared) continue;
      moments_[Index(tensor.first)].begin.push_back(t);
      moments_[static_cast<std::size_t>(FreedAt(tensor))].end.push_back(t);
    }
  }

  // The op after which the tensor's memory is free. Systems with late_free_ops free tensors of
  // other queues later. With late_gathers, shards stay until that many further gathers were issued.
  std::int64_t FreedAt(const Tensor& tensor) const {
    const std::int64_t late = tensor.moved ? system_.late_free_ops : 0;
    std::int64_t end = tensor.last + late;
    if (tensor.sharded && system_.late_gathers > 0) {
      const auto next = std::upper_bound(gathers_.begin(), gathers_.end(), tensor.last);
      const std::int64_t left = gathers_.end() - next;
      end = left < system_.late_gathers
                ? ops_ - 1
                : std::max<std::int64_t>(end, next[system_.late_gathers - 1]);
    }
    return std::min<std::int64_t>(ops_ - 1, end);
  }

  std::int64_t Parameters() const {
    std::int64_t elements = 0;
    for (const Bucket& bucket : emitted_.rank.buckets) elements += bucket.elements;
    return elements;
  }

  // Memory that is taken before the first step and never freed: state, flat buckets of DDP, and
  // communication buffers of the system.
  void HoldState(CachingAllocatorModel& allocator) const {
    const std::vector<Buffer>& buffers = emitted_.rank.buffers;
    for (const Buffer& buffer : buffers) {
      const bool here = buffer.persistent && buffer.space == Space::kDevice && buffer.bytes > 0;
      if (here) allocator.Allocate(buffer.bytes);
    }
    const bool copies = system_.ddp_buckets && plan_.zero_stage == 0 && plan_.DataParallel() > 1;
    if (copies) allocator.Allocate(BytesIn(ActivationFormat(plan_), Parameters()));
    if (system_.keeps_gradients) {
      allocator.Allocate(BytesIn(ActivationFormat(plan_), Parameters()));
    }
    if (gathered_bytes_ > 0) allocator.Allocate(gathered_bytes_);
    if (system_.reduce_bucket_bytes > 0) allocator.Allocate(system_.reduce_bucket_bytes);
  }

  // At each op, new tensors are allocated before old ones are freed: an op needs all its operands.
  void Step(CachingAllocatorModel& allocator) {
    for (const Moment& moment : moments_) {
      for (const int t : moment.begin) {
        places_[Index(t)] = allocator.Allocate(tensors_[Index(t)].bytes);
      }
      for (const int t : moment.end) allocator.Free(places_[Index(t)]);
    }
    CopyForSums(allocator);
    CopyForUpdate(allocator);
    Gather(allocator);
  }

  static void TakeOnce(CachingAllocatorModel& allocator, std::int64_t bytes) {
    allocator.Free(allocator.Allocate(std::max<std::int64_t>(1, bytes)));
  }

  // The largest flat copy in which gradients are reduced. A copy is closed by the gradient that
  // passes the limit, so it exceeds the limit by at most the largest one.
  void CopyForSums(CachingAllocatorModel& allocator) const {
    if (system_.flat_reduce_elements == 0 || plan_.DataParallel() == 1) return;
    const std::int64_t elements =
        std::min(Parameters(), system_.flat_reduce_elements + largest_gradient_);
    TakeOnce(allocator, BytesIn(SumFormat(plan_), elements));
  }

  // Gradients of the part that the rank updates, flattened into one tensor, and an fp32 copy of it.
  void CopyForUpdate(CachingAllocatorModel& allocator) const {
    if (!system_.flat_update || SumFormat(plan_) == NumberFormat::kFp32) return;
    const int shards = plan_.zero_stage > 0 ? plan_.Shards() : 1;
    const std::int64_t own = std::max<std::int64_t>(1, Parameters() / shards);
    constexpr std::int64_t kWide = 8;  // bytes of 64 bits
    if (system_.wide_norm) TakeOnce(allocator, kWide * std::min(own, largest_gradient_));
    const int flat = allocator.Allocate(BytesIn(SumFormat(plan_), own));
    const int wide = allocator.Allocate(BytesIn(NumberFormat::kFp32, own));
    allocator.Free(flat);
    allocator.Free(wide);
  }

  // Updated parameters are gathered as a list of parts, which the library copies into one tensor.
  void Gather(CachingAllocatorModel& allocator) const {
    const bool gathers = plan_.zero_stage == 1 || plan_.zero_stage == 2;
    if (!system_.flat_gather || !gathers || plan_.Shards() == 1) return;
    const std::int64_t all = BytesIn(ActivationFormat(plan_), Parameters());
    std::vector<int> parts;
    for (int shard = 0; shard < plan_.Shards(); ++shard) {
      parts.push_back(allocator.Allocate(std::max<std::int64_t>(1, all / plan_.Shards())));
    }
    parts.push_back(allocator.Allocate(std::max<std::int64_t>(1, all)));
    for (const int part : parts) allocator.Free(part);
  }

  const Plan& plan_;
  const SystemOptions& system_;
  const Emitted& emitted_;
  std::vector<int> places_;  // block of the allocator, by tensor
  std::vector<Tensor> tensors_;
  std::vector<std::pair<int, int>> held_gradients_;  // tensor, micro-batch
  std::vector<std::pair<int, int>> metrics_;         // tensor, micro-batch
  std::vector<Moment> moments_;
  std::int64_t gathered_bytes_ = 0;    // size of the shared buffer: its largest gather
  std::int64_t largest_gradient_ = 0;  // in elements
  std::vector<int> gathers_;           // ops that gather parameters, ascending
  int ops_ = 0;
};

}  // namespace

// Few micro-batches are enough: after 2 pp per chunk the pipeline repeats itself, and so do
// requests.
ReservedMemory ReservedPeak(const ModelSpec& model, const Plan& plan, const RankCoordinates& at,
                            const SystemOptions& system, std::int64_t capacity) {
  Plan played = plan;
  const std::int64_t enough = std::int64_t{2} * plan.pp * plan.Chunks();
  if (plan.MicroBatches() > enough) played.global_batch = enough * plan.micro_batch * plan.dp;
  const Emitted emitted = EmitAlone(model, played, at);
  return Replay(played, system, emitted).Run(capacity);
}

}  // namespace foretrain
