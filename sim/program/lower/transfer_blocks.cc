#include "sim/program/lower/transfer_blocks.h"

#include "sim/program/blocks/block_builder.h"

namespace foretrain {
namespace {

std::int16_t Other(BlockBuilder& b, std::string name, std::int64_t elements, Category category,
                   int index) {
  return b.Slot(std::move(name), elements, category, SlotRole::kOther, index);
}

}  // namespace

Block LoadBatchBlock(std::int64_t rows, bool ids, bool targets) {
  BlockBuilder b("load");
  const std::int16_t ids_slot = b.Slot("ids", ids ? rows : 0, Category::kStaging, SlotRole::kIds);
  const std::int16_t targets_slot =
      b.Slot("targets", targets ? rows : 0, Category::kStaging, SlotRole::kTargets);
  Op& op = b.Add(OpKind::kLoadBatch, OpClass::kCopy, "load", {Out(ids_slot), Out(targets_slot)});
  op.queue = Queue::kH2d;
  op.shape = {.rows = rows, .elements = rows * ((ids ? 1 : 0) + (targets ? 1 : 0))};
  return b.Take();
}

Block SendBlock(std::int64_t elements, bool to_next) {
  BlockBuilder b(to_next ? "send.next" : "send.previous");
  const std::int16_t tensor = Other(b, "tensor", elements, Category::kActivations, 0);
  Op& op = b.Add(OpKind::kSend, OpClass::kPpComm, "send", {In(tensor)});
  op.queue = to_next ? Queue::kSendNext : Queue::kSendPrev;
  op.group = to_next ? GroupKind::kNext : GroupKind::kPrev;
  op.shape = {.elements = elements};
  return b.Take();
}

Block RecvBlock(std::int64_t elements, bool from_previous, Category category) {
  BlockBuilder b(from_previous ? "recv.previous" : "recv.next");
  const std::int16_t tensor = Other(b, "tensor", elements, category, 0);
  Op& op = b.Add(OpKind::kRecv, OpClass::kPpComm, "recv", {Out(tensor)});
  op.queue = from_previous ? Queue::kRecvPrev : Queue::kRecvNext;
  op.group = from_previous ? GroupKind::kPrev : GroupKind::kNext;
  op.shape = {.elements = elements};
  return b.Take();
}

Block CollectiveBlock(const CollectiveSpec& spec) {
  BlockBuilder b(spec.name);
  const std::int64_t shard = spec.elements / spec.shards;
  const bool scatters = spec.kind == OpKind::kReduceScatter;
  const bool gathers = spec.kind == OpKind::kAllGather;
  const std::int16_t in =
      Other(b, "in", gathers ? shard : spec.elements, Category::kCommunication, 0);
  const std::int16_t out =
      spec.kind == OpKind::kAllReduce && spec.in_place
          ? in
          : Other(b, "out", scatters ? shard : spec.elements, Category::kCommunication, 1);
  const Operand to = spec.accumulate || in == out ? InOut(out) : Out(out);
  Op& op = b.Add(spec.kind, OpClass::kDpComm, spec.name, {In(in), to});
  op.queue = spec.queue;
  op.group = spec.group;
  op.accumulate = spec.accumulate;
  op.shape = {.elements = spec.elements};
  return b.Take();
}

Queue QueueOfCopy(Space from, Space to) {
  if (from == Space::kNvme || to == Space::kNvme) return Queue::kNvme;
  if (to == Space::kDevice) return Queue::kH2d;
  return from == Space::kDevice ? Queue::kD2h : Queue::kCpu;
}

Block CopyBlock(const CopySpec& spec) {
  BlockBuilder b(spec.name);
  int index = 0;
  for (const std::int64_t elements : spec.elements) {
    const std::string number = std::to_string(index / 2);
    const std::int16_t from = Other(b, "from" + number, elements, Category::kStaging, index);
    const std::int16_t to = Other(b, "to" + number, elements, Category::kStaging, index + 1);
    Op& op = b.Add(OpKind::kCopy, OpClass::kCopy, spec.name + number, {In(from), Out(to)});
    op.queue = QueueOfCopy(spec.from, spec.to);
    op.from = spec.from;
    op.to = spec.to;
    op.state = spec.state;
    op.shape = {.elements = elements};
    index += 2;
  }
  return b.Take();
}

Block SquaredNormBlock(const std::vector<std::int64_t>& range_elements) {
  BlockBuilder b("norm");
  std::vector<std::int16_t> ranges;
  for (std::size_t i = 0; i < range_elements.size(); ++i) {
    ranges.push_back(Other(b, "range" + std::to_string(i), range_elements[i], Category::kGradients,
                           static_cast<int>(i)));
  }
  const std::int16_t out =
      Other(b, "squared_norm", 1, Category::kWorkspace, static_cast<int>(range_elements.size()));
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    Op& op = b.Add(OpKind::kSquaredNorm, OpClass::kMemoryBound, "norm.range" + std::to_string(i),
                   {In(ranges[i]), i > 0 ? InOut(out) : Out(out)});
    op.accumulate = i > 0;
    op.shape = {.elements = range_elements[i]};
  }
  return b.Take();
}

Block OptimizerBlock(std::int64_t elements, std::int64_t decayed, double clip_norm, Queue queue,
                     bool delayed) {
  BlockBuilder b("optimizer");
  const std::int16_t param = Other(b, "param", elements, Category::kParameters, 0);
  const std::int16_t grad = Other(b, "grad", elements, Category::kGradients, 1);
  const std::int16_t moment1 = Other(b, "moment1", elements, Category::kOptimizerState, 2);
  const std::int16_t moment2 = Other(b, "moment2", elements, Category::kOptimizerState, 3);
  const std::int16_t norm =
      Other(b, "squared_norm", clip_norm > 0 ? 1 : 0, Category::kWorkspace, 4);
  const bool host = queue == Queue::kCpu;
  Op& op = b.Add(OpKind::kAdamW, host ? OpClass::kHost : OpClass::kMemoryBound, "adamw",
                 {InOut(param), In(grad), InOut(moment1), InOut(moment2), In(norm)});
  op.queue = queue;
  op.delayed = delayed;
  op.parameter = static_cast<float>(clip_norm);
  op.shape = {.elements = elements, .decayed = decayed};
  return b.Take();
}

Block HostReadBlock(bool norm) {
  BlockBuilder b("host_read");
  const std::int16_t loss = Other(b, "loss", 1, Category::kWorkspace, 0);
  const std::int16_t norm_slot = Other(b, "squared_norm", norm ? 1 : 0, Category::kWorkspace, 1);
  Op& op = b.Add(OpKind::kHostRead, OpClass::kHost, "host_read", {In(loss), In(norm_slot)});
  op.queue = Queue::kHost;
  return b.Take();
}

}  // namespace foretrain
