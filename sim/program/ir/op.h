// Op, one kernel or transfer on one queue, and Block, the list of ops that an instruction executes.
// Each kind's operands and sizes are in sim/program/ops/, buffers in program.h, durations in
// sim/cost.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/program/ir/number_format.h"
#include "sim/program/ir/op_shape.h"
#include "sim/program/ir/rope_stretch.h"
#include "sim/program/ops/op_kind.h"
#include "traces/kinds.h"

namespace foretrain {

// Which ranks a communication op joins (groups.h).
enum class GroupKind : std::uint8_t {
  kNone,
  kTp,
  kKvCopies,  // ranks of kTp with copies of the same key and value heads
  kCp,
  kDp,        // ranks that hold the same parameters: dp x cp
  kShard,     // ranks of kDp that share state (ZeRO)
  kReplica,   // ranks of kDp that hold the same shard (HSDP)
  kEp,        // ranks that share experts
  kExpertDp,  // ranks that hold the same experts
  kEnds,      // first and last stage
  kDpPp,      // ranks with this tp coordinate
  kTpPp,      // ranks with these dp and cp coordinates
  kWorld,
  kNext,  // a pair: this rank and its neighbour in the pipeline
  kPrev,
};
inline constexpr int kGroupKindCount = 15;

// True if all members issue the same instructions in the same order, so that a collective has the
// same key on all of them.
constexpr bool MembersAreAlike(GroupKind group) {
  return group >= GroupKind::kTp && group <= GroupKind::kExpertDp;
}

// Function of an activation op. For kGelu* and kGemmActivation*: GELU (tanh form or erf), ReLU or
// squared ReLU. For kSwiglu*, the function applied to the gate: SiLU or GELU (tanh form), or all of
// MlpKind kClampedSwiglu.
enum class ActivationKind : std::uint8_t {
  kGeluTanh,
  kGeluErf,
  kRelu,
  kSquaredRelu,
  kSilu,
  kClampedSilu,
};

enum class Access : std::uint8_t { kRead, kWrite, kReadWrite };

// A tensor that an op accesses: an index into the block's slots, or kNoSlot for an optional operand
// that is absent.
inline constexpr std::int16_t kNoSlot = -1;
struct Operand {
  std::int16_t slot = kNoSlot;
  Access access = Access::kRead;
};

// Formats of an op's operands, in operand order; fp32 for absent operands and for integers.
inline constexpr std::size_t kMaxOperands = 12;
using OperandFormats = std::array<NumberFormat, kMaxOperands>;

struct Op {
  OpKind kind = OpKind::kOpaque;
  Queue queue = Queue::kCompute;
  OpClass op_class = OpClass::kMemoryBound;
  GroupKind group = GroupKind::kNone;
  bool accumulate = false;     // adds to its output instead of overwriting it
  bool trans_a = false;        // products
  bool trans_b = false;        // products
  bool rms = false;            // norms: RMSNorm, not LayerNorm
  bool whole = false;          // head norms: one norm over all heads of q, one over those of k
  bool inverse = false;        // rope, row and column copies: the inverse direction
  bool maximum = false;        // all-reduce: the maximum, not the sum
  bool softmax_first = false;  // route: softmax before the top-k choice of experts
  bool sigmoid = false;        // route: sigmoid of each score, normalized over the chosen
  bool undivided = false;      // route: sigmoids of the chosen are not normalized
  bool bidirectional = false;  // attention: a query sees all keys of its sequence
  // Embedding, dropout: the op works on rows [t * rows, (t + 1) * rows), t the tp coordinate.
  bool own_rows = false;
  bool delayed = false;  // update: uses the previous step's gradients; step 0 updates nothing
  ActivationKind activation = ActivationKind::kGeluTanh;  // kGelu*, kGemmActivation*, kSwiglu*
  bool state = false;           // copy: moves fp32 state, whatever the model computes in
  Space from = Space::kDevice;  // copy
  Space to = Space::kDevice;    // copy
  // Products, attention: format of the arithmetic. Updates: format of the moments. (De)quantize:
  // format of the narrow side with its scales, wherever they lie. Gathers: format of the data that
  // moves, if it is not the parameters' own.
  NumberFormat format = NumberFormat::kFp32;
  OperandFormats formats{};
  std::int32_t updates = 1;  // AdamW: updates of the parameters in a step; the instruction's
                             // micro-batch says which this one is
  std::array<float, kAttributePlaces> attributes = kUnsetAttributes;  // by PlaceOf
  RopeStretch stretch;                                                // rope
  // Dropout, attention: probability that a number is dropped, and the dropout's index in the block
  // (dropout_sites.h).
  float dropout = 0.0F;
  std::int32_t dropout_site = 0;
  double duration_s = 0.0;  // kOpaque only
  OpShape shape;
  std::int32_t first_operand = 0;  // into Block::operands
  std::int32_t operand_count = 0;
  std::string name;                      // "mlp.up"; dotted, unique in its block
  std::vector<std::string> covers = {};  // names of the ops that this one was fused from

  // Reads or sets an attribute; FT_CHECK that the table of ops gives it to this kind.
  float Get(Attribute attribute) const;
  void Set(Attribute attribute, double value);
};

// Role of a slot: which tensor it is bound to when an instruction is made from its block.
enum class SlotRole : std::uint8_t {
  kTemporary,       // lives inside the instruction only
  kCarried,         // written by one piece of a pass and read by a later one (pieces.h)
  kInput,           // activations from the block before: [rows, hidden]
  kOutput,          // activations to the block after
  kOutputGradient,  // gradient that comes from the block after
  kInputGradient,   // gradient that goes to the block before
  kSaved,           // written by one pass and read by a later one; `index` names it
  kParameter,       // `index`: the parameter's number in the block
  kGradient,        // `index`: the same number
  kIds,             // [rows] i32
  kTargets,         // [rows] i32
  kDocumentStarts,  // [rows] i32, position at which the document of each row begins
  kLoss,            // [1] f32, this rank's sum over micro-batches
  kLossScale,       // [1] f32, the current scale of the loss (kScaleLoss)
  kLoads,           // [experts] f32, tokens routed to each expert in this step
  kOther,           // bound by the pass that makes the instruction, in order of `index`
};

struct TensorSlot {
  std::string name;
  std::int64_t bytes = 0;
  Category category = Category::kWorkspace;
  SlotRole role = SlotRole::kTemporary;
  std::int32_t index = 0;
  NumberFormat format = NumberFormat::kFp32;
  // A view is a part of an earlier slot's tensor: it begins `offset` bytes from the start, plus
  // `rank_offset` times the tp coordinate. It lives as long as that tensor. `base` is kNoSlot for a
  // slot that is no view.
  std::int16_t base = kNoSlot;
  std::int64_t offset = 0;
  std::int64_t rank_offset = 0;
};

// Template shared by all instructions of one shape: ops in issue order over named tensors.
struct Block {
  std::string name;  // "layer.forward"
  std::vector<TensorSlot> slots;
  std::vector<Op> ops;
  std::vector<Operand> operands;
};

// The op's operands; FT_CHECK that they lie inside the block's operand list.
std::span<const Operand> OperandsOf(const Block& block, const Op& op);
// Formats of the slots that the op's operands name.
OperandFormats FormatsOf(const Block& block, const Op& op);

std::string_view Name(GroupKind group);

}  // namespace foretrain
