// Blocks of all transfers: sends and receives, copies between memories, gathers and reductions. One
// function each, in the order in which a step uses them.
#include "sim/program/lower/transfers/transfer_blocks.h"

#include <initializer_list>
#include <utility>

#include "base/checked.h"
#include "sim/program/blocks/block_builder.h"
#include "sim/program/ir/precision.h"

namespace foretrain {
namespace {

// A slot without a role of the model: its instruction binds it by position.
std::int16_t Other(BlockBuilder& b, std::string name, std::int64_t elements, Category category,
                   int index, NumberFormat format = NumberFormat::kFp32) {
  return b.SlotIn(format, std::move(name), elements, category, SlotRole::kOther, index);
}

// Copies run on copy engines, so the route alone decides the queue.
Op& AddCopy(BlockBuilder& b, const std::string& name, std::int16_t from, std::int16_t to,
            std::pair<Space, Space> route, std::int64_t elements, bool state) {
  Op& op = b.Add(OpKind::kCopy, OpClass::kCopy, name, {In(from), Out(to)});
  op.queue = QueueOfCopy(route.first, route.second);
  op.from = route.first;
  op.to = route.second;
  op.state = state;
  op.shape = {.elements = elements};
  return op;
}

// An op that moves `elements` between the ranks of a group.
Op& AddTransfer(BlockBuilder& b, OpKind kind, OpClass op_class, const std::string& name,
                std::initializer_list<Operand> operands, Queue queue, GroupKind group,
                std::int64_t elements) {
  Op& op = b.Add(kind, op_class, name, operands);
  op.queue = queue;
  op.group = group;
  op.shape = {.elements = elements};
  return op;
}

// One op per range, each adding to the same number. `offloaded`: the host's processors compute, and
// the result is copied to the device.
Block RangesBlock(const char* name, const char* result, OpKind kind,
                  const std::vector<std::int64_t>& range_elements, NumberFormat format,
                  bool offloaded) {
  BlockBuilder b(name);
  std::vector<std::int16_t> ranges;
  for (std::size_t i = 0; i < range_elements.size(); ++i) {
    ranges.push_back(Other(b, "range" + std::to_string(i), range_elements[i], Category::kGradients,
                           static_cast<int>(i), format));
  }
  const int index = static_cast<int>(range_elements.size());
  const std::int16_t out = Other(b, result, 1, Category::kWorkspace, index);
  // Without ranges the number must be reset in each step, because it may have been reduced in
  // place.
  if (ranges.empty() && !offloaded) {
    b.Add(OpKind::kFill, std::string(name) + ".nothing", {Out(out)}).shape = {.elements = 1};
  }
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    Op& op = b.Add(kind, offloaded ? OpClass::kHost : OpClass::kMemoryBound,
                   name + (".range" + std::to_string(i)),
                   {In(ranges[i]), i > 0 ? InOut(out) : Out(out)});
    op.accumulate = i > 0;
    op.shape = {.elements = range_elements[i]};
    if (offloaded) op.queue = Queue::kCpu;
  }
  if (offloaded) {
    const std::int16_t here =
        Other(b, std::string(result) + ".here", 1, Category::kWorkspace, index + 1);
    AddCopy(b, name + std::string(".in"), out, here, {Space::kPinned, Space::kDevice}, 1, true);
  }
  return b.Take();
}

}  // namespace

NumberFormat MomentFormatOf(const Plan& plan) {
  switch (plan.moments) {
    case MomentFormat::kBf16:
      return NumberFormat::kBf16;
    case MomentFormat::kInt8:
      return NumberFormat::kInt8;
    case MomentFormat::kFp32:
      break;
  }
  return NumberFormat::kFp32;
}

// The table is in the order of GatherFormat.
NumberFormat GatherFormatOf(const Plan& plan) {
  constexpr NumberFormat formats[] = {NumberFormat::kFp32, NumberFormat::kBf16, NumberFormat::kFp8,
                                      NumberFormat::kInt8};
  return formats[static_cast<std::size_t>(plan.gather_format)];
}

std::string SuffixOf(NumberFormat format) {
  return format == NumberFormat::kFp32 ? "" : "." + std::string(Name(format));
}

// One op fills all tensors, since the loader delivers them together. Absent ids or targets have an
// empty slot.
Block LoadBatchBlock(std::int64_t rows, bool ids, bool targets, bool document_starts) {
  BlockBuilder b("load");
  const std::int16_t ids_slot = b.Slot("ids", ids ? rows : 0, Category::kStaging, SlotRole::kIds);
  const std::int16_t targets_slot =
      b.Slot("targets", targets ? rows : 0, Category::kStaging, SlotRole::kTargets);
  const int tensors = (ids ? 1 : 0) + (targets ? 1 : 0) + (document_starts ? 1 : 0);
  Op* op = nullptr;
  if (document_starts) {
    const std::int16_t starts_slot =
        b.Slot("document_starts", rows, Category::kStaging, SlotRole::kDocumentStarts);
    op = &b.Add(OpKind::kLoadBatch, OpClass::kCopy, "load",
                {Out(ids_slot), Out(targets_slot), Out(starts_slot)});
  } else {
    op = &b.Add(OpKind::kLoadBatch, OpClass::kCopy, "load", {Out(ids_slot), Out(targets_slot)});
  }
  op->queue = Queue::kH2d;
  op->shape = {.rows = rows, .elements = rows * tensors};
  return b.Take();
}

// Each direction has its own queue, so traffic of forward and backward cannot block each other.
Block SendBlock(std::int64_t elements, bool to_next, NumberFormat format) {
  BlockBuilder b(to_next ? "send.next" : "send.previous");
  const std::int16_t tensor = Other(b, "tensor", elements, Category::kActivations, 0, format);
  AddTransfer(b, OpKind::kSend, OpClass::kPpComm, "send", {In(tensor)},
              to_next ? Queue::kSendNext : Queue::kSendPrev,
              to_next ? GroupKind::kNext : GroupKind::kPrev, elements);
  return b.Take();
}

Block RecvBlock(std::int64_t elements, bool from_previous, Category category, NumberFormat format) {
  BlockBuilder b(from_previous ? "recv.previous" : "recv.next");
  const std::int16_t tensor = Other(b, "tensor", elements, category, 0, format);
  AddTransfer(b, OpKind::kRecv, OpClass::kPpComm, "recv", {Out(tensor)},
              from_previous ? Queue::kRecvPrev : Queue::kRecvNext,
              from_previous ? GroupKind::kPrev : GroupKind::kNext, elements);
  return b.Take();
}

// One op. An all-reduce in place has a single slot, which the op reads and writes.
Block CollectiveBlock(const CollectiveSpec& spec) {
  BlockBuilder b(spec.name);
  const std::int64_t shard = spec.elements / spec.shards;
  const bool scatters = spec.kind == OpKind::kReduceScatter;
  const bool gathers = spec.kind == OpKind::kAllGather;
  const std::int16_t in =
      Other(b, "in", gathers ? shard : spec.elements, Category::kCommunication, 0, spec.format);
  const std::int16_t out = spec.kind == OpKind::kAllReduce && spec.in_place
                               ? in
                               : Other(b, "out", scatters ? shard : spec.elements,
                                       Category::kCommunication, 1, spec.format);
  const Operand to = spec.accumulate || in == out ? InOut(out) : Out(out);
  Op& op = AddTransfer(b, spec.kind, spec.op_class, spec.name, {In(in), to}, spec.queue, spec.group,
                       spec.elements);
  op.accumulate = spec.accumulate;
  op.shape.tensors = spec.tensors;
  return b.Take();
}

// One queue per engine: routes of one engine cannot overlap each other.
Queue QueueOfCopy(Space from, Space to) {
  if (from == Space::kNvme || to == Space::kNvme) return Queue::kNvme;
  if (to == Space::kDevice) return Queue::kH2d;
  return from == Space::kDevice ? Queue::kD2h : Queue::kCpu;
}

// Slots come in pairs, so a description lists each move as from, to.
Block CopyBlock(const CopySpec& spec) {
  BlockBuilder b(spec.name);
  int index = 0;
  for (const std::int64_t elements : spec.elements) {
    const std::string number = std::to_string(index / 2);
    const auto i = static_cast<std::size_t>(index / 2);
    const NumberFormat format = i < spec.formats.size() ? spec.formats[i] : NumberFormat::kFp32;
    const std::int16_t from =
        Other(b, "from" + number, elements, Category::kStaging, index, format);
    const std::int16_t to =
        Other(b, "to" + number, elements, Category::kStaging, index + 1, format);
    AddCopy(b, spec.name + number, from, to, {spec.from, spec.to}, elements, spec.state);
    index += 2;
  }
  return b.Take();
}

// Three ops in a chain: the device copy exists only while the block runs.
Block SumOffloadedBlock(const CollectiveSpec& spec) {
  FT_CHECK(spec.kind == OpKind::kAllReduce && !spec.accumulate);
  BlockBuilder b(spec.name);
  const std::int16_t offloaded =
      Other(b, "away", spec.elements, Category::kGradients, 0, spec.format);
  const std::int16_t here =
      Other(b, "here", spec.elements, Category::kCommunication, 1, spec.format);
  const std::pair in{Space::kPinned, Space::kDevice}, out{Space::kDevice, Space::kPinned};
  AddCopy(b, spec.name + ".in", offloaded, here, in, spec.elements, /*state=*/true);
  AddTransfer(b, spec.kind, spec.op_class, spec.name, {In(here), InOut(here)}, spec.queue,
              spec.group, spec.elements);
  AddCopy(b, spec.name + ".out", here, offloaded, out, spec.elements, /*state=*/true);
  return b.Take();
}

// One op per range, in a fixed order on all ranks: collectives of a group must match in order.
Block HeadSumBlock(const std::vector<std::int64_t>& range_elements, NumberFormat format,
                   bool offloaded) {
  BlockBuilder b("reduce.heads");
  int index = 0;
  for (const std::int64_t elements : range_elements) {
    const std::string name = "reduce.heads." + std::to_string(offloaded ? index / 2 : index);
    const std::int16_t range =
        Other(b, name + ".range", elements, Category::kGradients, index++, format);
    std::int16_t here = range;
    if (offloaded) {
      here = Other(b, name + ".here", elements, Category::kCommunication, index++, format);
      AddCopy(b, name + ".in", range, here, {Space::kPinned, Space::kDevice}, elements, true);
    }
    AddTransfer(b, OpKind::kAllReduce, OpClass::kTpComm, name, {In(here), InOut(here)}, Queue::kTp,
                GroupKind::kKvCopies, elements);
    if (offloaded) {
      AddCopy(b, name + ".out", here, range, {Space::kDevice, Space::kPinned}, elements, true);
    }
  }
  return b.Take();
}

// A copy within the device runs as a kernel on the compute queue, not on a copy engine.
Block KeepBlock(std::int64_t elements, NumberFormat format) {
  Block block = CopyBlock({.name = "keep", .elements = {elements}, .formats = {format}});
  block.ops[0].name = "keep";
  block.ops[0].queue = Queue::kCompute;
  block.ops[0].op_class = OpClass::kMemoryBound;
  return block;
}

// Runs on the host's processors, so the device is free while micro-batches are added up.
Block HostAddBlock(std::int64_t elements, NumberFormat format) {
  BlockBuilder b("gradients.add");
  const std::int16_t sum = Other(b, "sum", elements, Category::kGradients, 0, format);
  const std::int16_t arrived = Other(b, "arrived", elements, Category::kGradients, 1, format);
  Op& op = b.Add(OpKind::kAdd, OpClass::kHost, "gradients.add",
                 {In(sum), In(arrived), In(kNoSlot), InOut(sum)});
  op.queue = Queue::kCpu;
  op.shape = {.rows = 1, .cols = elements, .elements = elements};
  return b.Take();
}

Block SquaredNormBlock(const std::vector<std::int64_t>& range_elements, NumberFormat format,
                       bool offloaded) {
  return RangesBlock("norm", "squared_norm", OpKind::kSquaredNorm, range_elements, format,
                     offloaded);
}

Block CountNotFiniteBlock(const std::vector<std::int64_t>& range_elements, NumberFormat format,
                          bool offloaded) {
  return RangesBlock("count_not_finite", "not_finite", OpKind::kCountNotFinite, range_elements,
                     format, offloaded);
}

Block CountSkippedBlock() {
  BlockBuilder b("count_skipped");
  const std::int16_t not_finite = Other(b, "not_finite", 1, Category::kWorkspace, 0);
  const std::int16_t skipped = Other(b, "skipped", 1, Category::kWorkspace, 1);
  b.Add(OpKind::kCountSkipped, "count_skipped", {In(not_finite), InOut(skipped)});
  return b.Take();
}

// Growth and backoff run on the device, so no host round trip delays the next step.
Block ScaleLossBlock(const Plan& plan) {
  BlockBuilder b("scale_loss");
  const std::int16_t not_finite = Other(b, "not_finite", 1, Category::kWorkspace, 0);
  const std::int16_t scale = Other(b, "loss_scale", 1, Category::kWorkspace, 1);
  const std::int16_t since = Other(b, "since", 1, Category::kWorkspace, 2);
  Op& op = b.Add(OpKind::kScaleLoss, "scale_loss", {In(not_finite), InOut(scale), InOut(since)});
  op.Set(Attribute::kInitialScale, plan.loss_scale);
  op.Set(Attribute::kGrowthInterval, static_cast<double>(plan.loss_scale_window));
  return b.Take();
}

// Each rank quantizes its shard, gathers the codes and dequantizes all shards, as in ZeRO++ (Wang
// et al. 2023). All three run on the gather queue.
Block QuantizedGatherBlock(const QuantizedGatherSpec& spec) {
  BlockBuilder b("gather.quantized");
  const std::int64_t shard = spec.elements / spec.shards;
  const std::int64_t words = spec.shards * BytesIn(spec.format, shard) / kFloatBytes;
  const std::int16_t in = Other(b, "shard", shard, Category::kParameters, 0, spec.shard);
  const std::int16_t own = Other(b, "own", words / spec.shards, Category::kCommunication, 1);
  const std::int16_t sent = Other(b, "quantized", words, Category::kCommunication, 2);
  const std::int16_t whole =
      Other(b, "whole", spec.elements, Category::kCommunication, 3, spec.whole);
  const auto convert = [&](OpKind kind, const char* name, std::int16_t from, std::int16_t to,
                           std::int64_t count, std::int64_t pieces) {
    Op& op = b.Add(kind, OpClass::kMemoryBound, name, {In(from), Out(to)});
    op.queue = Queue::kGather;
    op.format = spec.format;
    op.shape = {.rows = pieces, .elements = count};
  };
  convert(OpKind::kQuantize, "quantize", in, own, shard, 1);
  AddTransfer(b, OpKind::kAllGather, OpClass::kDpComm, "gather", {In(own), Out(sent)},
              Queue::kGather, spec.group, words)
      .format = spec.format;
  convert(OpKind::kDequantize, "dequantize", sent, whole, spec.elements, spec.shards);
  return b.Take();
}

// Casts the shard before the gather, which saves bytes on the wire.
Block CastGatherBlock(GroupKind group, std::int64_t elements, int shards, NumberFormat format) {
  BlockBuilder b("gather.cast");
  const std::int64_t shard = elements / shards;
  const std::int16_t in = Other(b, "shard", shard, Category::kParameters, 0);
  const std::int16_t own = Other(b, "own", shard, Category::kCommunication, 1, format);
  const std::int16_t whole = Other(b, "whole", elements, Category::kCommunication, 2, format);
  Op& cast = b.Add(OpKind::kQuantize, "cast", {In(in), Out(own)});
  cast.queue = Queue::kGather;
  cast.format = format;
  cast.shape = {.rows = 1, .elements = shard};
  AddTransfer(b, OpKind::kAllGather, OpClass::kDpComm, "gather", {In(own), Out(whole)},
              Queue::kGather, group, elements);
  return b.Take();
}

// Optional operands have empty slots, so that the order of slots is the same for all plans.
Block OptimizerBlock(const Plan& plan, std::int64_t elements, std::int64_t decayed, Queue queue,
                     bool delayed) {
  BlockBuilder b("optimizer");
  int index = 0;
  const auto slot = [&](const char* name, std::int64_t bytes, Category category) {
    return b.SlotOfBytes(name, bytes, category, SlotRole::kOther, index++);
  };
  const bool corrects = plan.CorrectsBias();
  const NumberFormat format = MomentFormatOf(plan);
  const int moments = MomentsOf(plan.optimizer);
  const std::int64_t scales =
      moments > 0 && format == NumberFormat::kInt8 ? 4 * CeilDiv(elements, kScaleBlock) : 0;
  const std::int64_t moment = BytesIn(format, elements) - scales;
  const std::int64_t clips = plan.clip_norm > 0 ? kFloatBytes : 0;
  const std::int64_t skips = plan.loss_scale > 0 ? kFloatBytes : 0;
  const bool masters = HasMasters(plan);
  const std::int16_t param =
      Other(b, "param", elements, masters ? Category::kMasterWeights : Category::kParameters,
            index++, masters ? NumberFormat::kFp32 : WeightFormat(plan));
  const std::int16_t grad =
      Other(b, "grad", elements, Category::kGradients, index++, SumFormat(plan));
  const std::int16_t moment1 = slot("moment1", moments > 0 ? moment : 0, Category::kOptimizerState);
  const std::int16_t moment2 = slot("moment2", moments > 1 ? moment : 0, Category::kOptimizerState);
  const std::int16_t norm = slot("squared_norm", clips, Category::kWorkspace);
  const std::int16_t not_finite = slot("not_finite", skips, Category::kWorkspace);
  const std::int16_t skipped = slot("skipped", corrects ? skips : 0, Category::kWorkspace);
  const std::int16_t scale =
      slot("loss_scale", plan.HasDynamicScale() ? kFloatBytes : 0, Category::kWorkspace);
  const std::int16_t absmax1 = slot("absmax1", scales, Category::kOptimizerState);
  const std::int16_t absmax2 = slot("absmax2", scales, Category::kOptimizerState);
  const std::int16_t weights = Other(b, "weights", masters ? elements : 0, Category::kParameters,
                                     index++, WeightFormat(plan));
  const std::int16_t average = slot("average", plan.average_decay > 0 ? elements * kFloatBytes : 0,
                                    Category::kOptimizerState);
  const OpClass op_class = queue == Queue::kCpu ? OpClass::kHost : OpClass::kMemoryBound;
  const auto add = [&]() -> Op& {
    switch (plan.optimizer) {
      case OptimizerKind::kAdamW:
      case OptimizerKind::kMuon:
      case OptimizerKind::kAdafactor:
        break;
      case OptimizerKind::kSgd:
        return b.Add(OpKind::kSgd, op_class, "sgd",
                     {InOut(param), In(grad), In(norm), In(not_finite), Out(weights), In(scale)});
      case OptimizerKind::kMomentum:
      case OptimizerKind::kLion:
        const bool lion = plan.optimizer == OptimizerKind::kLion;
        return b.Add(lion ? OpKind::kLion : OpKind::kMomentum, op_class, lion ? "lion" : "momentum",
                     {InOut(param), In(grad), InOut(moment1), In(norm), In(not_finite),
                      Out(weights), In(scale)});
    }
    return b.Add(OpKind::kAdamW, op_class, "adamw",
                 {InOut(param), In(grad), InOut(moment1), InOut(moment2), In(norm), In(not_finite),
                  In(skipped), InOut(absmax1), InOut(absmax2), Out(weights), In(scale)});
  };
  Op& op = add();
  op.queue = queue;
  op.delayed = delayed;
  if (moments > 0) op.format = format;
  if (plan.UpdatesEachMicroBatch()) op.updates = static_cast<std::int32_t>(plan.MicroBatches());
  if (plan.loss_scale > 0) op.Set(Attribute::kLossScale, plan.loss_scale);
  op.Set(Attribute::kClipNorm, plan.clip_norm);
  op.shape = {.elements = elements, .decayed = decayed};
  if (plan.average_decay > 0) {
    Op& follows = b.Add(OpKind::kAverage, op_class, "average", {In(param), InOut(average)});
    follows.queue = queue;
    follows.Set(Attribute::kAverageRate, 1 - plan.average_decay);
    follows.shape = {.elements = elements};
  }
  return b.Take();
}

// All tensors are fp32 here, so bytes follow from elements alone.
Block AmendBlock(const Plan& plan, std::int64_t elements, std::int64_t decayed) {
  BlockBuilder b("amend");
  int index = 0;
  const auto slot = [&](const char* name, std::int64_t bytes, Category category) {
    return b.SlotOfBytes(name, bytes, category, SlotRole::kOther, index++);
  };
  const bool adam = plan.optimizer == OptimizerKind::kAdamW;
  const std::int64_t whole = elements * kFloatBytes, moment = adam ? whole : 0;
  const std::int64_t clips = plan.clip_norm > 0 ? kFloatBytes : 0;
  const std::int64_t skips = plan.loss_scale > 0 ? kFloatBytes : 0;
  const std::int16_t param = slot("param", whole, Category::kParameters);
  const std::int16_t grad = slot("grad", whole, Category::kGradients);
  const std::int16_t moment1 = slot("moment1", moment, Category::kOptimizerState);
  const std::int16_t moment2 = slot("moment2", moment, Category::kOptimizerState);
  const std::int16_t norm = slot("squared_norm", clips, Category::kWorkspace);
  const std::int16_t not_finite = slot("not_finite", skips, Category::kWorkspace);
  const std::int16_t skipped = slot("skipped", adam ? skips : 0, Category::kWorkspace);
  const std::int16_t norm_then = slot("squared_norm.then", clips, Category::kWorkspace);
  const std::int16_t not_finite_then = slot("not_finite.then", skips, Category::kWorkspace);
  Op& op = adam ? b.Add(OpKind::kAdamWAmend, "amend",
                        {InOut(param), In(grad), InOut(moment1), InOut(moment2), In(norm),
                         In(not_finite), In(skipped), In(norm_then), In(not_finite_then)})
                : b.Add(OpKind::kSgdAmend, "amend",
                        {InOut(param), In(grad), In(norm), In(not_finite), In(norm_then),
                         In(not_finite_then)});
  if (plan.loss_scale > 0) op.Set(Attribute::kLossScale, plan.loss_scale);
  op.Set(Attribute::kClipNorm, plan.clip_norm);
  op.shape = {.elements = elements, .decayed = decayed};
  return b.Take();
}

Block BalanceBiasBlock(std::int64_t experts, double rate) {
  BlockBuilder b("balance.bias");
  const std::int16_t loads = Other(b, "loads", experts, Category::kWorkspace, 0);
  const std::int16_t bias = Other(b, "bias", experts, Category::kParameters, 1);
  Op& op = b.Add(OpKind::kBalanceBias, "balance.bias", {InOut(loads), InOut(bias)});
  op.Set(Attribute::kBiasRate, rate);
  op.shape = {.experts = static_cast<std::int32_t>(experts)};
  return b.Take();
}

// Runs on the host's queue: the device goes on while the host waits.
Block HostReadBlock(const Plan& plan) {
  BlockBuilder b("host_read");
  const bool norm = plan.clip_norm > 0, scales = plan.HasDynamicScale();
  const std::int16_t loss = Other(b, "loss", 1, Category::kWorkspace, 0);
  const std::int16_t norm_slot = Other(b, "squared_norm", norm ? 1 : 0, Category::kWorkspace, 1);
  const std::int16_t scale = Other(b, "loss_scale", scales ? 1 : 0, Category::kWorkspace, 2);
  Op& op =
      b.Add(OpKind::kHostRead, OpClass::kHost, "host_read", {In(loss), In(norm_slot), In(scale)});
  op.queue = Queue::kHost;
  if ((norm || scales) && plan.loss_scale > 0) op.Set(Attribute::kLossScale, plan.loss_scale);
  return b.Take();
}

}  // namespace foretrain
