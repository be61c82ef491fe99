// Blocks of one or a few ops that move data or update state: loads, sends, collectives, norm,
// optimizer, host read. Instructions bind their tensors in the order of the slots.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/config/plan/plan.h"
#include "sim/program/ir/op.h"

namespace foretrain {

// Number formats that the plan names. GatherFormatOf is kFp32 if gathers have no wire format of
// their own.
NumberFormat MomentFormatOf(const Plan& plan);
NumberFormat GatherFormatOf(const Plan& plan);
// Suffix of block keys that tells formats apart: "" for fp32, else ".bf16" and so on.
std::string SuffixOf(NumberFormat format);

Block LoadBatchBlock(std::int64_t rows, bool ids, bool targets, bool document_starts);
// `to_next`: the transfer goes to the next rank, which receives it with `from_previous`.
Block SendBlock(std::int64_t elements, bool to_next, NumberFormat format = NumberFormat::kFp32);
Block RecvBlock(std::int64_t elements, bool from_previous, Category category,
                NumberFormat format = NumberFormat::kFp32);

// Slots of kAllReduce: in, out (one slot if in place); of kReduceScatter: whole, shard; of
// kAllGather: shard, whole. `elements` counts the whole; `shards` is the number of members.
struct CollectiveSpec {
  OpKind kind = OpKind::kAllReduce;
  std::string name;
  Queue queue = Queue::kReduce;
  GroupKind group = GroupKind::kDp;
  std::int64_t elements = 0;
  int shards = 1;
  bool in_place = true;
  bool accumulate = false;
  OpClass op_class = OpClass::kDpComm;
  NumberFormat format = NumberFormat::kFp32;
  std::int32_t tensors = 0;  // see OpShape
};
Block CollectiveBlock(const CollectiveSpec& spec);

// One copy per tensor, on the queue of the route. `state`: see Op.
struct CopySpec {
  std::string name;
  Space from = Space::kDevice;
  Space to = Space::kDevice;
  bool state = false;
  std::vector<std::int64_t> elements;  // of each tensor, > 0
  std::vector<NumberFormat> formats;   // of each tensor; shorter: fp32
};
// Slots: from and to of the first tensor, of the second, ...
Block CopyBlock(const CopySpec& spec);
// A copy of parameters within the device, on the compute queue. Slots: from, to.
Block KeepBlock(std::int64_t elements, NumberFormat format = NumberFormat::kFp32);
// Queue of a route: kNvme if a side is NVMe, else kH2d to the device, kD2h from it, kCpu within the
// host.
Queue QueueOfCopy(Space from, Space to);

// An all-reduce of a tensor in pinned memory: copy in, reduce, copy back. Slots: the tensor, its
// copy on the device.
Block SumOffloadedBlock(const CollectiveSpec& spec);

// All-reduces over kKvCopies, in place and one after the other, one per entry of `range_elements`.
// Slots: each tensor; with `offloaded`, each followed by its copy on the device.
Block HeadSumBlock(const std::vector<std::int64_t>& range_elements, NumberFormat format,
                   bool offloaded);

// The host's processors add one tensor to another. Slots: sum, arrived.
Block HostAddBlock(std::int64_t elements, NumberFormat format = NumberFormat::kFp32);

// Adds the squares of all ranges to one number. Slots: the ranges, then the number. `offloaded`:
// the ranges are in pinned memory, the host's processors compute, and one more slot is the copy on
// the device.
Block SquaredNormBlock(const std::vector<std::int64_t>& range_elements, NumberFormat format,
                       bool offloaded = false);

// Counts elements that are not finite in all ranges. Slots and `offloaded` as in SquaredNormBlock.
Block CountNotFiniteBlock(const std::vector<std::int64_t>& range_elements, NumberFormat format,
                          bool offloaded = false);
// Slots: not_finite, skipped.
Block CountSkippedBlock();
// Slots: not_finite, loss_scale, since.
Block ScaleLossBlock(const Plan& plan);

// A gather of `elements` in another format. Slots: shard, own, quantized whole, whole. `shard` and
// `whole` have formats of their own.
struct QuantizedGatherSpec {
  GroupKind group = GroupKind::kShard;
  std::int64_t elements = 0;
  int shards = 1;
  NumberFormat format = NumberFormat::kInt8;
  NumberFormat shard = NumberFormat::kFp32;
  NumberFormat whole = NumberFormat::kFp32;
};
Block QuantizedGatherBlock(const QuantizedGatherSpec& spec);
// The same if the whole keeps the format that is sent, which then has no scales. Slots: shard, own,
// whole.
Block CastGatherBlock(GroupKind group, std::int64_t elements, int shards, NumberFormat format);

// The update of one shard of a bucket. Slots in order:
//   param, grad, moment1, moment2, squared norm, count not finite, skipped steps, loss scale,
//   scales of moment1, scales of moment2, weights of which param is the master, moving average.
// Slots that the plan does not need are empty. `delayed`: see Op.
Block OptimizerBlock(const Plan& plan, std::int64_t elements, std::int64_t decayed,
                     Queue queue = Queue::kCompute, bool delayed = false);

// Amends such an update on the compute queue. Slots: the same up to skipped steps, then the squared
// norm and the count that the update used.
Block AmendBlock(const Plan& plan, std::int64_t elements, std::int64_t decayed);

// Moves a router's biases to balance the loads of its experts. Slots: loads, bias.
Block BalanceBiasBlock(std::int64_t experts, double rate);

// The host waits for the loss; for the squared norm if the plan clips (of gradients still
// multiplied by loss_scale); and for the loss scale if it is dynamic.
Block HostReadBlock(const Plan& plan);

}  // namespace foretrain
