#include "sim/program/lower/emit.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/result.h"
#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/lower/transfer_blocks.h"

namespace foretrain {
namespace {

constexpr std::int64_t kScalarBytes = 4;

// One rank being written down. Buffers that outlive an instruction are found again by what they
// are: (block, micro-batch) for activations and their gradients, bucket for parameters.
class Emitter {
 public:
  Emitter(const LowerContext& context, BlockRegistry& registry, RankProgram& rank)
      : context_(context),
        plan_(context.plan),
        stage_(context.stage),
        registry_(registry),
        rank_(rank),
        block_context_{context.model, context.plan, context.stage.shared_table},
        micro_batches_(static_cast<int>(context.plan.MicroBatches())),
        sharded_(context.plan.zero_stage == 3 && context.plan.dp > 1) {}

  void Run(const Skeleton& skeleton) {
    MakeState();
    for (const SkeletonStep& step : skeleton) {
      Emit(step.key);
      numbers_[PackId(step.key)] = static_cast<int>(rank_.step.size()) - 1;
      if (step.after) rank_.step.back().after = numbers_.at(PackId(*step.after));
    }
  }

 private:
  // ---- buffers ----
  int NewBuffer(std::int64_t bytes, Category category, bool persistent = false) {
    Buffer buffer;
    buffer.bytes = bytes;
    buffer.category = category;
    buffer.persistent = persistent;
    rank_.buffers.push_back(buffer);
    return static_cast<int>(rank_.buffers.size()) - 1;
  }
  Binding Whole(int buffer) const {
    return {buffer, 0, rank_.buffers[static_cast<std::size_t>(buffer)].bytes};
  }
  static Binding Part(int buffer, std::int64_t first_element, std::int64_t elements) {
    return {buffer, first_element * kFloatBytes, elements * kFloatBytes};
  }

  // Parameters, gradients, moments: what lives from step to step.
  void MakeState() {
    rank_.buckets = context_.layout.buckets;
    rank_.parameters = context_.layout.places;
    for (Bucket& bucket : rank_.buckets) {
      const std::int64_t whole = bucket.elements * kFloatBytes;
      const std::int64_t shard = whole / bucket.shards;
      bucket.parameters = NewBuffer(sharded_ ? shard : whole, Category::kParameters, true);
      bucket.gradients = NewBuffer(sharded_ ? shard : whole, Category::kGradients, true);
      bucket.moment1 = NewBuffer(shard, Category::kOptimizerState, true);
      bucket.moment2 = NewBuffer(shard, Category::kOptimizerState, true);
    }
    // Zero where a stage has no loss, so that every rank can join the sum.
    loss_local_ = NewBuffer(kScalarBytes, Category::kWorkspace, true);
    loss_ =
        plan_.dp * plan_.pp > 1 ? NewBuffer(kScalarBytes, Category::kWorkspace, true) : loss_local_;
    if (plan_.clip_norm > 0) {
      norm_local_ = NewBuffer(kScalarBytes, Category::kWorkspace, true);
      norm_ = NormReduced() ? NewBuffer(kScalarBytes, Category::kWorkspace, true) : norm_local_;
    }
    const auto boundaries = static_cast<std::size_t>((stage_.Blocks() + 2) * micro_batches_);
    activations_.assign(boundaries, -1);
    gradients_.assign(boundaries, -1);
    ids_.assign(static_cast<std::size_t>(micro_batches_), -1);
    targets_.assign(static_cast<std::size_t>(micro_batches_), -1);
    saved_.resize(static_cast<std::size_t>(stage_.Blocks() * micro_batches_));
    transient_gradients_.assign(rank_.buckets.size(), -1);
  }
  bool NormReduced() const {
    return plan_.tp * plan_.pp * (plan_.zero_stage > 0 ? plan_.dp : 1) > 1;
  }

  // Tensor that `block` makes: first_block - 1 and last_block + 1 are the neighbours'.
  std::size_t Boundary(int block, int mb) const {
    return static_cast<std::size_t>((block - stage_.first_block + 1) * micro_batches_ + mb);
  }
  std::vector<std::pair<int, int>>& Saved(int block, int mb) {
    return saved_[static_cast<std::size_t>((block - stage_.first_block) * micro_batches_ + mb)];
  }

  // ---- instructions ----
  void Add(const InstructionKey& key, int block, std::vector<Binding> bindings) {
    Instruction instruction;
    instruction.key = key;
    instruction.block = block;
    instruction.first_binding = static_cast<std::int32_t>(rank_.bindings.size());
    FT_CHECK(bindings.size() == registry_[block].slots.size());
    rank_.bindings.insert(rank_.bindings.end(), bindings.begin(), bindings.end());
    rank_.step.push_back(instruction);
  }

  void Emit(const InstructionKey& key) {
    switch (key.kind) {
      case InstructionKind::kBlock:
        return EmitBlock(key);
      case InstructionKind::kLoadBatch:
        return EmitLoad(key);
      case InstructionKind::kSend:
        return EmitSend(key);
      case InstructionKind::kRecv:
        return EmitRecv(key);
      case InstructionKind::kAllGather:
        return key.pass == Pass::kUpdate ? EmitUpdateGather(key) : EmitGather(key);
      case InstructionKind::kReduceScatter:
        return key.pass == Pass::kUpdate ? EmitGradientReduction(key) : EmitShardReduction(key);
      case InstructionKind::kAllReduce:
        return EmitGradientReduction(key);
      case InstructionKind::kScalarReduce:
        return EmitScalarReduce(key);
      case InstructionKind::kNorm:
        return EmitNorm(key);
      case InstructionKind::kOptimizerStep:
        return EmitOptimizerStep(key);
      case InstructionKind::kHostRead:
        return EmitHostRead(key);
      case InstructionKind::kCopyIn:
      case InstructionKind::kCopyOut:
        break;
    }
    FT_CHECK(false && "no pass emits this kind");
  }

  // -- model blocks --
  int ModelBlock(const InstructionKey& key) {
    const bool first = key.micro_batch == 0;
    // A ZeRO-3 gradient lives for one micro-batch and is overwritten by each.
    const bool accumulate = !first && !sharded_;
    const std::string variant = std::string(Name(key.pass)) + (accumulate ? "+" : "");
    const BlockContext& c = block_context_;
    const BlockKind kind = stage_.KindOf(key.block);
    const bool keep = plan_.recompute == RecomputeKind::kNone;
    if (kind == BlockKind::kEmbedding) {
      const std::string name = stage_.shared_table ? "embedding.shared." : "embedding.";
      return registry_.Find(name + variant, [&] {
        return key.pass == Pass::kForward ? EmbeddingForward(c)
                                          : EmbeddingBackward(c, key.pass, accumulate);
      });
    }
    if (kind == BlockKind::kHead) {
      return registry_.Find("head." + variant + (first ? "" : "."), [&] {
        return key.pass == Pass::kForward ? HeadForward(c, first)
                                          : HeadBackward(c, key.pass, accumulate);
      });
    }
    if (key.pass == Pass::kForward) {
      return registry_.Find("layer.forward", [&] { return LayerForward(c, keep); });
    }
    if (key.pass == Pass::kRecompute) {
      return registry_.Find("layer.recompute", [&] { return LayerRecompute(c); });
    }
    return registry_.Find("layer." + variant,
                          [&] { return LayerBackward(c, key.pass, accumulate); });
  }

  void EmitBlock(const InstructionKey& key) {
    const int block = ModelBlock(key);
    std::vector<Binding> bindings;
    for (const TensorSlot& slot : registry_[block].slots) bindings.push_back(Bind(slot, key));
    Add(key, block, std::move(bindings));
  }

  Binding Bind(const TensorSlot& slot, const InstructionKey& key) {
    const int mb = key.micro_batch;
    const auto mb_index = static_cast<std::size_t>(mb);
    switch (slot.role) {
      case SlotRole::kTemporary:
        return Whole(NewBuffer(slot.bytes, slot.category));
      case SlotRole::kInput:
        return Whole(Existing(activations_[Boundary(key.block - 1, mb)]));
      case SlotRole::kOutput:
        return Whole(Made(activations_[Boundary(key.block, mb)], slot));
      case SlotRole::kOutputGradient:
        return Whole(Existing(gradients_[Boundary(key.block + 1, mb)]));
      case SlotRole::kInputGradient:
        return Whole(Made(gradients_[Boundary(key.block, mb)], slot));
      case SlotRole::kSaved:
        return Whole(SavedBuffer(slot, key));
      case SlotRole::kParameter:
        return ParameterBinding(slot, key);
      case SlotRole::kGradient:
        return GradientBinding(slot, key);
      case SlotRole::kIds:
        return Whole(Existing(ids_[mb_index]));
      case SlotRole::kTargets:
        return Whole(Existing(targets_[mb_index]));
      case SlotRole::kLoss:
        return Whole(loss_local_);
      case SlotRole::kOther:
        break;
    }
    FT_CHECK(false && "a model block binds no other tensors");
    return {};
  }

  static int Existing(int buffer) {
    FT_CHECK(buffer >= 0);
    return buffer;
  }
  int Made(int& buffer, const TensorSlot& slot) {
    FT_CHECK(buffer < 0);
    buffer = NewBuffer(slot.bytes, slot.category);
    return buffer;
  }

  // Forward and recomputation make saved tensors; a backward finds them, and its input half makes
  // the ones that its weight half reads.
  int SavedBuffer(const TensorSlot& slot, const InstructionKey& key) {
    auto& list = Saved(key.block, key.micro_batch);
    const auto found = std::find_if(list.begin(), list.end(),
                                    [&](const auto& entry) { return entry.first == slot.index; });
    if (found != list.end()) return found->second;
    FT_CHECK(key.pass == Pass::kForward || key.pass == Pass::kRecompute ||
             slot.index >= kFirstHeld);
    const int buffer = NewBuffer(slot.bytes, slot.category);
    list.emplace_back(slot.index, buffer);
    return buffer;
  }

  const ParameterRange& Range(const InstructionKey& key, int parameter) const {
    const auto block = static_cast<std::size_t>(key.block - stage_.first_block);
    return context_.layout.ranges[block][static_cast<std::size_t>(parameter)];
  }

  Binding ParameterBinding(const TensorSlot& slot, const InstructionKey& key) {
    const ParameterRange& range = Range(key, slot.index);
    if (!sharded_) {
      return Part(BucketOf(range).parameters, range.offset, range.elements);
    }
    InstructionKey gather{InstructionKind::kAllGather, key.pass, key.block, key.micro_batch,
                          range.bucket};
    auto found = gathered_.find(PackId(gather));
    if (found == gathered_.end()) {
      gather.pass = Pass::kRecompute;
      found = gathered_.find(PackId(gather));
    }
    FT_CHECK(found != gathered_.end());
    return Part(found->second, range.offset, range.elements);
  }

  Binding GradientBinding(const TensorSlot& slot, const InstructionKey& key) {
    const ParameterRange& range = Range(key, slot.index);
    const Bucket& bucket = BucketOf(range);
    if (!sharded_) return Part(bucket.gradients, range.offset, range.elements);
    int& transient = transient_gradients_[static_cast<std::size_t>(range.bucket)];
    if (transient < 0) transient = NewBuffer(bucket.elements * kFloatBytes, Category::kGradients);
    return Part(transient, range.offset, range.elements);
  }

  const Bucket& BucketOf(const ParameterRange& range) const {
    return rank_.buckets[static_cast<std::size_t>(range.bucket)];
  }
  const Bucket& BucketOf(const InstructionKey& key) const {
    return rank_.buckets[static_cast<std::size_t>(key.part)];
  }

  // -- data and boundaries --
  void EmitLoad(const InstructionKey& key) {
    const std::int64_t rows = block_context_.Rows();
    const auto mb = static_cast<std::size_t>(key.micro_batch);
    const std::string name =
        std::string("load") + (stage_.First() ? ".ids" : "") + (stage_.Last() ? ".targets" : "");
    const int block =
        registry_.Find(name, [&] { return LoadBatchBlock(rows, stage_.First(), stage_.Last()); });
    std::vector<Binding> bindings;
    if (stage_.First())
      bindings.push_back(Whole(ids_[mb] = NewBuffer(rows * kFloatBytes, Category::kStaging)));
    if (stage_.Last())
      bindings.push_back(Whole(targets_[mb] = NewBuffer(rows * kFloatBytes, Category::kStaging)));
    Add(key, block, std::move(bindings));
  }

  void EmitSend(const InstructionKey& key) {
    const bool forward = key.pass == Pass::kForward;
    const int block = registry_.Find(forward ? "send.next" : "send.previous",
                                     [&] { return SendBlock(BoundaryElements(), forward); });
    const auto& tensors = forward ? activations_ : gradients_;
    Add(key, block, {Whole(Existing(tensors[Boundary(key.block, key.micro_batch)]))});
  }

  void EmitRecv(const InstructionKey& key) {
    const bool forward = key.pass == Pass::kForward;
    const Category category = forward ? Category::kActivations : Category::kWorkspace;
    const int block = registry_.Find(forward ? "recv.previous" : "recv.next", [&] {
      return RecvBlock(BoundaryElements(), forward, category);
    });
    auto& tensors = forward ? activations_ : gradients_;
    Add(key, block,
        {Whole(
            Made(tensors[Boundary(key.block, key.micro_batch)], registry_[block].slots.front()))});
  }

  std::int64_t BoundaryElements() const { return block_context_.Rows() * context_.model.hidden; }

  // -- parameters and gradients --
  int Collective(const CollectiveSpec& spec) {
    const std::string key =
        spec.name + "." + std::to_string(spec.elements) + (spec.accumulate ? "+" : "");
    return registry_.Find(key, [&] { return CollectiveBlock(spec); });
  }
  // This rank's part of a whole bucket that lies in one buffer.
  Binding OwnShard(const Bucket& bucket, int buffer) const {
    const std::int64_t shard = bucket.elements / bucket.shards;
    return Part(buffer, shard * bucket.shard, shard);
  }

  void EmitGather(const InstructionKey& key) {
    const Bucket& bucket = BucketOf(key);
    const int block = Collective({OpKind::kAllGather, "gather.parameters", Queue::kGather,
                                  GroupKind::kDp, bucket.elements, bucket.shards});
    const int whole = NewBuffer(bucket.elements * kFloatBytes, Category::kCommunication);
    gathered_[PackId(key)] = whole;
    Add(key, block, {Whole(bucket.parameters), Whole(whole)});
  }

  void EmitUpdateGather(const InstructionKey& key) {
    const Bucket& bucket = BucketOf(key);
    const int block = Collective({OpKind::kAllGather, "gather.updated", Queue::kGather,
                                  GroupKind::kDp, bucket.elements, bucket.shards});
    Add(key, block, {OwnShard(bucket, bucket.parameters), Whole(bucket.parameters)});
  }

  void EmitShardReduction(const InstructionKey& key) {
    const Bucket& bucket = BucketOf(key);
    const int block =
        Collective({OpKind::kReduceScatter, "reduce.to_shard", Queue::kReduce, GroupKind::kDp,
                    bucket.elements, bucket.shards, false, key.micro_batch > 0});
    int& transient = transient_gradients_[static_cast<std::size_t>(key.part)];
    Add(key, block, {Whole(Existing(transient)), Whole(bucket.gradients)});
    transient = -1;
  }

  void EmitGradientReduction(const InstructionKey& key) {
    const Bucket& bucket = BucketOf(key);
    if (key.kind == InstructionKind::kReduceScatter) {
      const int block = Collective({OpKind::kReduceScatter, "reduce.scatter", Queue::kReduce,
                                    GroupKind::kDp, bucket.elements, bucket.shards});
      Add(key, block, {Whole(bucket.gradients), OwnShard(bucket, bucket.gradients)});
      return;
    }
    const bool ends = key == TiedSumKey(stage_, key.part);
    const std::int64_t elements = sharded_ ? bucket.elements / bucket.shards : bucket.elements;
    const int block =
        Collective({OpKind::kAllReduce, ends ? "reduce.tied" : "reduce.gradients", Queue::kReduce,
                    ends ? GroupKind::kEnds : GroupKind::kDp, elements});
    Add(key, block, {Whole(bucket.gradients)});
  }

  // -- update --
  void EmitScalarReduce(const InstructionKey& key) {
    const bool loss = key.part == kLossScalar;
    CollectiveSpec spec{OpKind::kAllReduce,
                        loss ? "reduce.loss" : "reduce.norm",
                        Queue::kReduce,
                        GroupKind::kDpPp,
                        1,
                        1,
                        /*in_place=*/false};
    if (!loss) spec.group = plan_.zero_stage > 0 ? GroupKind::kWorld : GroupKind::kTpPp;
    Add(key, Collective(spec),
        loss ? std::vector<Binding>{Whole(loss_local_), Whole(loss_)}
             : std::vector<Binding>{Whole(norm_local_), Whole(norm_)});
  }

  // Where gradients of a range of the bucket lie.
  Binding GradientRange(const Bucket& bucket, std::int64_t begin, std::int64_t end) const {
    const std::int64_t first = sharded_ ? bucket.elements / bucket.shards * bucket.shard : 0;
    return Part(bucket.gradients, begin - first, end - begin);
  }

  // The gradients whose squares this rank adds: its shard of each bucket, less what another rank of
  // the group counts. Neighbouring ranges are one.
  std::vector<Binding> CountedRanges() const {
    std::vector<Binding> ranges;
    for (std::size_t i = 0; i < rank_.buckets.size(); ++i) {
      const ShardRange shard = ShardOf(rank_.buckets[i]);
      for (const ParameterPlace& place : rank_.parameters) {
        if (place.bucket != static_cast<int>(i) || !place.counted) continue;
        const std::int64_t size =
            (place.row_end - place.row_begin) * (place.col_end - place.col_begin);
        const std::int64_t begin = std::max(shard.begin, place.offset);
        const std::int64_t end = std::min(shard.end, place.offset + size);
        if (begin >= end) continue;
        const Binding range = GradientRange(rank_.buckets[i], begin, end);
        if (!ranges.empty() && ranges.back().buffer == range.buffer &&
            ranges.back().offset + ranges.back().bytes == range.offset) {
          ranges.back().bytes += range.bytes;
        } else {
          ranges.push_back(range);
        }
      }
    }
    return ranges;
  }

  void EmitNorm(const InstructionKey& key) {
    std::vector<Binding> bindings = CountedRanges();
    std::vector<std::int64_t> elements;
    std::string name = "norm";
    for (const Binding& range : bindings) {
      elements.push_back(range.bytes / kFloatBytes);
      name += "." + std::to_string(elements.back());
    }
    const int block = registry_.Find(name, [&] { return SquaredNormBlock(elements); });
    bindings.push_back(Whole(norm_local_));
    Add(key, block, std::move(bindings));
  }

  void EmitOptimizerStep(const InstructionKey& key) {
    const Bucket& bucket = BucketOf(key);
    const ShardRange shard = ShardOf(bucket);
    const std::int64_t elements = shard.end - shard.begin;
    const std::int64_t decayed =
        std::clamp<std::int64_t>(bucket.decayed - shard.begin, 0, elements);
    const std::string name =
        "optimizer." + std::to_string(elements) + "." + std::to_string(decayed);
    const int block =
        registry_.Find(name, [&] { return OptimizerBlock(elements, decayed, plan_.clip_norm); });
    Binding gradients = GradientRange(bucket, shard.begin, shard.end);
    Binding parameters = gradients;
    parameters.buffer = bucket.parameters;
    std::vector<Binding> bindings = {parameters, gradients, Part(bucket.moment1, 0, elements),
                                     Part(bucket.moment2, 0, elements)};
    if (plan_.clip_norm > 0) bindings.push_back(Whole(norm_));
    Add(key, block, std::move(bindings));
  }

  void EmitHostRead(const InstructionKey& key) {
    const bool norm = plan_.clip_norm > 0;
    const int block = registry_.Find("host_read", [&] { return HostReadBlock(norm); });
    std::vector<Binding> bindings = {Whole(loss_)};
    if (norm) bindings.push_back(Whole(norm_));
    Add(key, block, std::move(bindings));
  }

  const LowerContext& context_;
  const Plan& plan_;
  const Stage& stage_;
  BlockRegistry& registry_;
  RankProgram& rank_;
  BlockContext block_context_;
  int micro_batches_;
  bool sharded_;  // ZeRO-3: parameters and gradients lie in shards
  std::vector<int> activations_, gradients_, ids_, targets_, transient_gradients_;
  std::vector<std::vector<std::pair<int, int>>> saved_;  // (index of the saved tensor, buffer)
  std::unordered_map<OpId, int> gathered_;               // by the gather's id
  std::unordered_map<OpId, int> numbers_;                // instruction by id, for `after`
  int loss_local_ = -1, loss_ = -1, norm_local_ = -1, norm_ = -1;
};

}  // namespace

int BlockRegistry::Find(const std::string& key, const std::function<Block()>& make) {
  const auto [found, is_new] = numbers_.try_emplace(key, static_cast<int>(blocks_.size()));
  if (is_new) blocks_.push_back(make());
  return found->second;
}

void EmitRank(const LowerContext& context, const Skeleton& skeleton, BlockRegistry& registry,
              RankProgram& rank) {
  Emitter(context, registry, rank).Run(skeleton);
}

}  // namespace foretrain
