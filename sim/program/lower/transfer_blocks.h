// Blocks of one or a few ops that move or update: loads, sends, collectives, norm, optimizer, host
// read. Every tensor is bound by the pass that makes the instruction, in the order of the slots.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/program/op.h"
#include "sim/spec/plan.h"

namespace foretrain {

// Number formats that the plan names. Of gathers: of what is on the wire where it is not the
// parameters themselves, else fp32.
NumberFormat MomentFormatOf(const Plan& plan);
NumberFormat GatherFormatOf(const Plan& plan);
// "" for fp32, ".bf16": tells blocks apart that differ by a format.
std::string SuffixOf(NumberFormat format);

Block LoadBatchBlock(std::int64_t rows, bool ids, bool targets);
// `to_next`: along the pipeline; the receiving side of it comes from the previous rank.
Block SendBlock(std::int64_t elements, bool to_next, NumberFormat format = NumberFormat::kFp32);
Block RecvBlock(std::int64_t elements, bool from_previous, Category category,
                NumberFormat format = NumberFormat::kFp32);

// kAllReduce: slots in, out (one slot when in place). kReduceScatter: whole, shard. kAllGather:
// shard, whole. `elements`: of the whole; `shards`: members of the group.
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
};
Block CollectiveBlock(const CollectiveSpec& spec);

// One copy a tensor, on the queue of the route. `state`: see Op.
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
// A copy of parameters on the device, by `compute`: slots from, to.
Block KeepBlock(std::int64_t elements, NumberFormat format = NumberFormat::kFp32);
// To or from a disk: kNvme; to the device: kH2d; from it: kD2h; else kCpu.
Queue QueueOfCopy(Space from, Space to);

// An all-reduce, in place, of a tensor that lies in pinned memory: copied in, summed, copied back.
// Slots: the tensor, its copy on the device.
Block SumAwayBlock(const CollectiveSpec& spec);

// All-reduces over kKvCopies, in place and one behind the other, of so many elements each. Slots:
// each tensor, with `away` followed by its copy on the device.
Block HeadSumBlock(const std::vector<std::int64_t>& range_elements, NumberFormat format, bool away);

// The host's processors add a tensor to another: slots sum, arrived.
Block HostAddBlock(std::int64_t elements, NumberFormat format = NumberFormat::kFp32);

// Adds up the squares of each range into one number: slots are the ranges, then the number. `away`:
// the ranges lie in pinned memory, and the host's processors make the number there; one more slot
// is its copy on the device.
Block SquaredNormBlock(const std::vector<std::int64_t>& range_elements, NumberFormat format,
                       bool away = false);

// Counts what is not finite in each range: slots are the ranges, then the count; `away` likewise.
Block CountNotFiniteBlock(const std::vector<std::int64_t>& range_elements, NumberFormat format,
                          bool away = false);
// Slots not_finite, skipped.
Block CountSkippedBlock();
// Slots not_finite, loss_scale, since.
Block ScaleLossBlock(const Plan& plan);

// A gather of `elements` in another format: slots shard, own, quantized whole, whole; `shard` and
// `whole` are in formats of their own.
struct QuantizedGatherSpec {
  GroupKind group = GroupKind::kShard;
  std::int64_t elements = 0;
  int shards = 1;
  NumberFormat format = NumberFormat::kInt8;
  NumberFormat shard = NumberFormat::kFp32;
  NumberFormat whole = NumberFormat::kFp32;
};
Block QuantizedGatherBlock(const QuantizedGatherSpec& spec);
// The same where the whole stays in the format that is sent, which has no scales: slots shard, own,
// whole.
Block CastGatherBlock(GroupKind group, std::int64_t elements, int shards, NumberFormat format);

// The plan's update of one shard of a bucket: slots param, grad, moment1?, moment2?, squared norm
// if it clips, numbers that are not finite and (AdamW) skipped steps if it scales the loss, what
// the scale has become if that changes, scales of moments1? and moments2?, weights? of which param
// is the master. `delayed`: see Op.
Block OptimizerBlock(const Plan& plan, std::int64_t elements, std::int64_t decayed,
                     Queue queue = Queue::kCompute, bool delayed = false);

// Amends such an update on `compute`: the same slots but scales of moments, then the squared norm
// and the numbers that are not finite which the update went by.
Block AmendBlock(const Plan& plan, std::int64_t elements, std::int64_t decayed);

// The biases by which a router chooses follow the loads of its experts: slots loads, bias.
Block BalanceBiasBlock(std::int64_t experts, double rate);

// The host waits for the loss, if the plan clips for the squared norm of gradients that are
// loss_scale times too large, and for what that has become where it changes.
Block HostReadBlock(const Plan& plan);

}  // namespace foretrain
