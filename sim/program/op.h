// One piece of work on one queue, and the block that issues several of them: the intra-layer level
// of a program. Leaves out where tensors lie (program.h) and how long an op takes (sim/cost).
// Longer than other headers, because what an op's kind says of its operands and shape stands in one
// list.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "traces/kinds.h"

namespace foretrain {

enum class OpKind : std::uint8_t {
  // arithmetic: one kernel of base/device_api.h each, operands in the order given
  kGemm,  // a, b, bias?, c, a_scales?, b_scales?
  // with what follows, before the product y is stored: c is f(y); the same, and y is kept; c is
  // y f'(x); or sums of a's columns beside c, the gradients of a bias where c are those of its
  // weight
  kGemmActivation,          // a, b, bias?, c
  kGemmActivationKept,      // a, b, bias?, c, y
  kGemmActivationBackward,  // a, b, none, c, x
  kGemmBiasGrad,            // a, b, none, c, grad
  kBiasGrad,                // dy, grad
  kEmbeddingForward,        // ids, table, positions?, out
  kEmbeddingBackward,       // ids, dy, table_grad, positions_grad? (added to)
  kNormForward,             // x, weight, bias?, y, mean?, rstd
  kNormBackwardInput,       // dy, x, weight, mean?, rstd, residual?, dx
  kNormBackwardWeight,      // dy, x, mean?, rstd, weight_grad, bias_grad?
  // norms of the heads of q and k, in place; `kept` is what was there before
  kHeadNormForward,         // qkv, q_weight, k_weight, kept, rstd
  kHeadNormBackwardInput,   // dqkv, kept, rstd, q_weight, k_weight, kept_grad?
  kHeadNormBackwardWeight,  // kept_grad, kept, rstd, q_weight_grad, k_weight_grad
  kRope,                    // qkv (in place)
  kAttentionForward,        // qkv, out, lse
  kAttentionBackward,       // qkv, out, lse, dout, dqkv
  // with scores [batch, heads, sequence, sequence] that are written out; weights: their softmax,
  // dropped: what dropout leaves of it, where there is any
  kStandardAttentionForward,   // qkv, scores, weights, mask?, dropped?, out?
  kStandardAttentionBackward,  // qkv, weights, mask?, dropped?, dout, d_scores, dqkv
  // context parallelism: queries against keys that come from other ranks. Rows are [q | k | v], or
  // [k | v] where the keys' tensor is another one than the queries'
  kAttentionPartForward,   // q, kv, out, lse
  kAttentionPartBackward,  // q, kv, out, lse, dout, dq, dkv
  kKeyColumns,             // qkv, kv: takes out [k | v]; inverse: kv, qkv: puts it back
  kHeadParts,  // x, parts: heads of each row dealt to cp parts, one behind the other; inverse: back
  // latent attention: rows of [left | right] to a tensor each, or (inverse) back; and heads put
  // together, of queries, of [k | v] by head without what is turned, and of the one turned key
  kSplitColumns,  // x, left, right; inverse: left, right, x
  kLatentHeads,   // q, kv, turned_key, qkv; inverse: dqkv, dq, dkv, dturned_key
  // a score a head that takes part in the softmax and in nothing else, behind attention without it
  kSinkForward,           // out (in place), lse (in place), sinks
  kSinkBackward,          // out, dout, lse, sinks, sinks_grad
  kGeluForward,           // x, y
  kGeluBackward,          // x, dy, dx
  kSwigluForward,         // x, y
  kSwigluBackward,        // x, dy, dx
  kAdd,                   // a, b, bias?, out
  kDropout,               // x, bias?, residual?, out, mask?
  kDropoutMask,           // mask: again
  kDropoutBackward,       // dy, mask, dx
  kSoftcap,               // x (in place)
  kAddNormForward,        // a, b, bias?, weight, norm_bias?, sum, y, mean?, rstd
  kCrossEntropyForward,   // logits, targets, lse, loss
  kCrossEntropyBackward,  // logits (in place), targets, lse, loss_scale?
  kVocabMax,              // logits, max: of this rank's share of the vocabulary
  kVocabSums,             // logits, targets, max, sum, picked
  kVocabLoss,             // targets, max, sum, picked, lse, loss
  kShiftTargets,          // targets, out: of the token behind each, -1 at a sequence's end
  // logits, probs, weights, chosen, places, sources, counts, balance_counts, choice_bias?
  kRoute,
  // probs, weights, chosen, balance_counts, d_weights, d_logits, loss_scale?
  kRouteBackward,
  kCountChoices,    // chosen, loads (added to): tokens of each expert
  kBalanceBias,     // loads (in place: 0 then), bias (in place)
  kExpertGather,    // x, sources, weights?, out
  kExpertCombine,   // x, places, weights?, out
  kExpertDots,      // dy, x, places, out
  kGroupedGemm,     // a, b, counts?, c, a_scales?, b_scales?
  kExpertBias,      // x (in place), bias, counts?
  kExpertBiasGrad,  // dy, counts?, grad
  kGateForward,     // x, scores, y: rows times the sigmoid of a score each
  kGateBackward,    // dy, x, scores, dx, d_scores
  kSquaredNorm,     // x, out
  // param, grad, moment1, moment2, squared_norm?, not_finite?, skipped?, absmax1?, absmax2?,
  // weights?: what param becomes in a shorter format, loss_scale?
  kAdamW,
  kSgd,  // param, grad, squared_norm?, not_finite?, weights?, loss_scale?
  // the same operands (but scales of moments and weights), squared_norm_then?, not_finite_then?
  kAdamWAmend,
  kSgdAmend,
  kCountNotFinite,  // x, out
  kCountSkipped,    // not_finite, skipped (in place)
  // not_finite, loss_scale (in place): how often the scale has doubled less how often it has
  // halved,
  // since (in place): good steps since
  kScaleLoss,
  // x, out?, scales?, x_scales?, counts?: of codes with scales apart. Scales that are read are
  // those
  // of an earlier op, without out they alone are made
  kQuantize,
  kDequantize,  // x, out
  kFill,        // out: set to zero
  // communication: every member of the group takes part
  kAllReduce,      // in, out: may be the same tensor
  kReduceScatter,  // in [whole], out [shard]: out may lie inside in
  kAllGather,      // in [shard], out [whole]: in may lie inside out
  kAllToAll,       // in, out [whole]: part j of in goes to member j, part i of out is member i's
  kAllToAllV,      // in, out, counts: of as many rows as those say; `inverse`: rows go home
  kRotate,         // in, out [whole]: in goes to the next member, out is the one before's
  kSend,           // tensor
  kRecv,           // tensor
  // copies
  kCopy,  // from, to: of equal bytes, in the spaces that the op names
  // host
  kLoadBatch,   // ids?, targets?
  kHostRead,    // loss, squared_norm?, loss_scale?
  kReadCounts,  // counts (in place): the host learns how many rows go where
  // work of a given length, for tests of schedules and executors
  kOpaque,  // any operands
};
inline constexpr int kOpKindCount = 79;

// Which ranks a communication op joins (groups.h).
enum class GroupKind : std::uint8_t {
  kNone,
  kTp,
  kKvCopies,  // of kTp, those that have the same head of keys and values
  kCp,
  kDp,        // all that hold the same parameters: dp x cp
  kShard,     // of kDp, those that share out state (ZeRO)
  kReplica,   // of kDp, those that hold the same shard (HSDP)
  kEp,        // those that share out experts
  kExpertDp,  // those that hold the same experts
  kEnds,      // first and last stage
  kDpPp,      // all with this rank's tp coordinate
  kTpPp,      // all with its dp and cp coordinates
  kWorld,
  kNext,  // a pair: this rank and its neighbour in the pipeline
  kPrev,
};
inline constexpr int kGroupKindCount = 15;

// Members issue the same instructions in the same order, so that a collective's key is the same on
// all of them.
constexpr bool MembersAreAlike(GroupKind group) {
  return group >= GroupKind::kTp && group <= GroupKind::kExpertDp;
}

// How numbers of a tensor are stored, or what an op computes in.
//   kFp8, kInt8  e4m3, integers: one fp32 scale a block of kScaleBlock elements
//   kTf32        fp32 of which products read 10 bits of mantissa
//   kE4m3, kE5m2  codes of 8 bits (OCP 2023), whose scales are another operand
//   kFp8Tensor   such codes, and behind them one fp32 scale for all
//   kFp8Block    likewise, one each 128 numbers of a row (DeepSeek-AI 2024, s. 3.3.2)
//   kFp8Columns  likewise, one each 128 numbers of a column
//   kFp8Tile     likewise, one each 128 x 128
//   kFp4         e2m1, one e4m3 scale each 16 elements (NVFP4)
//   kMask        a byte, 1 of what dropout keeps
//   kNf4         one of 16 quantiles of a normal distribution, a code each 64 numbers of the
//   largest
//                of them, and an fp32 scale each 256 such codes, which count from a mean (Dettmers
//                et al. 2023, s. 3; base/nf4.h)
//   kByte        of tensors that are moved whole, whatever their numbers
enum class NumberFormat : std::uint8_t {
  kFp32,
  kBf16,
  kFp8,
  kInt8,
  kTf32,
  kFp16,
  kFp8Tensor,
  kFp8Block,
  kFp4,
  kMask,
  kNf4,
  kByte,
  kE4m3,
  kE5m2,
  kFp8Columns,
  kFp8Tile,
};
inline constexpr int kNumberFormatCount = 16;
std::string_view Name(NumberFormat format);  // "fp32", ...

// Bits of a number, and the scales that lie behind them: one of `scale_bytes` each `block` numbers,
// and of those one of `outer_bytes` each `outer_block`; and what a tensor has once.
struct FormatLayout {
  std::int64_t bits = 32;
  std::int64_t block = 0;  // 0: no scales
  std::int64_t scale_bytes = 0;
  std::int64_t outer_block = 0;  // 0: scales have none
  std::int64_t outer_bytes = 0;
  std::int64_t once_bytes = 0;
};
inline constexpr std::int64_t kScaleBlock = 256;
inline constexpr std::int64_t kFp8Side = 128;  // of kFp8Block, kFp8Columns, kFp8Tile
constexpr FormatLayout LayoutOf(NumberFormat format) {
  switch (format) {
    case NumberFormat::kFp32:
    case NumberFormat::kTf32:
      return {32};
    case NumberFormat::kBf16:
    case NumberFormat::kFp16:
      return {16};
    case NumberFormat::kFp8:
    case NumberFormat::kInt8:
      return {8, kScaleBlock, 4};
    case NumberFormat::kMask:
    case NumberFormat::kByte:
    case NumberFormat::kE4m3:
    case NumberFormat::kE5m2:
      return {8};
    case NumberFormat::kFp8Tensor:
      return {.bits = 8, .once_bytes = 4};
    case NumberFormat::kNf4:
      return {4, 64, 1, 256, 4, 4};
    case NumberFormat::kFp8Block:
    case NumberFormat::kFp8Columns:
      return {8, kFp8Side, 4};
    case NumberFormat::kFp8Tile:
      return {8, kFp8Side * kFp8Side, 4};
    case NumberFormat::kFp4:
      return {4, 16, 1};
  }
  return {};
}
// Bytes of `elements` numbers with their scales. For elements >= 0 below 2^56.
constexpr std::int64_t BytesIn(NumberFormat format, std::int64_t elements) {
  const FormatLayout layout = LayoutOf(format);
  const std::int64_t numbers = (elements * layout.bits + 7) / 8;
  if (layout.block == 0 && layout.once_bytes == 0) return numbers;
  if (layout.block == 0) return (numbers + 3) / 4 * 4 + layout.once_bytes;
  const std::int64_t blocks = (elements + layout.block - 1) / layout.block;
  const std::int64_t scales = blocks * layout.scale_bytes;
  if (layout.outer_block == 0) return numbers + scales;
  const std::int64_t outer = (blocks + layout.outer_block - 1) / layout.outer_block;
  return numbers + scales + outer * layout.outer_bytes + layout.once_bytes;
}
// Numbers in so many bytes, of a format without scales.
constexpr std::int64_t ElementsIn(NumberFormat format, std::int64_t bytes) {
  return bytes * 8 / LayoutOf(format).bits;
}
// Whether the same bytes are the same numbers.
constexpr bool AreStoredAlike(NumberFormat a, NumberFormat b) {
  const auto stored = [](NumberFormat format) {
    return format == NumberFormat::kTf32 ? NumberFormat::kFp32 : format;
  };
  return stored(a) == stored(b);
}
// Codes of 8 bits with fp32 scales behind them, which ops read as two tensors.
constexpr bool HasScalesApart(NumberFormat format) {
  return format == NumberFormat::kFp8Tensor || format == NumberFormat::kFp8Block ||
         format == NumberFormat::kFp8Columns || format == NumberFormat::kFp8Tile;
}
constexpr bool IsCodes(NumberFormat format) {
  return format == NumberFormat::kE4m3 || format == NumberFormat::kE5m2;
}
// Bytes of one number of many, with its part of the scales.
constexpr double BytesEach(NumberFormat format) {
  const FormatLayout layout = LayoutOf(format);
  const double numbers = static_cast<double>(layout.bits) / 8;
  if (layout.block == 0) return numbers;
  const auto block = static_cast<double>(layout.block);
  const double scales = numbers + static_cast<double>(layout.scale_bytes) / block;
  if (layout.outer_block == 0) return scales;
  return scales + static_cast<double>(layout.outer_bytes) /
                      (block * static_cast<double>(layout.outer_block));
}

// What an activation op computes: of kGelu* and kGemmActivation* GELU in its tanh form, with erf,
// max(x, 0) or its square; of kSwiglu* the function of the gate, silu or GELU in its tanh form, or
// all of MlpKind kClampedSwiglu.
enum class ActivationKind : std::uint8_t {
  kGeluTanh,
  kGeluErf,
  kRelu,
  kSquaredRelu,
  kSilu,
  kClampedSilu,
};

// How rotary frequencies are stretched: 1 / factor of each (linear, Chen et al. 2023); of pairs
// below `low` none, from `high` on all, between them a share that grows evenly (yarn, Peng et al.
// 2023, s. 3.2); or by their wavelength (llama3, Dubey et al. 2024, s. 3.4): above original / low
// all, below original / high none. Sines and cosines are multiplied by `magnitude`.
enum class RopeStretchKind : std::uint8_t { kNone, kLinear, kYarn, kLlama3 };
struct RopeStretch {
  RopeStretchKind kind = RopeStretchKind::kNone;
  float factor = 1.0F;
  float low = 0.0F;
  float high = 0.0F;
  float original = 0.0F;  // positions of the unstretched model
  float magnitude = 1.0F;

  auto operator<=>(const RopeStretch&) const = default;
};

enum class Access : std::uint8_t { kRead, kWrite, kReadWrite };

// `slot` indexes the block's slots; kNoSlot leaves an optional operand out.
inline constexpr std::int16_t kNoSlot = -1;
struct Operand {
  std::int16_t slot = kNoSlot;
  Access access = Access::kRead;
};

// Formats of an op's operands, in their order; of one that is left out fp32. Integers count as
// fp32.
inline constexpr std::size_t kMostOperands = 12;
using OperandFormats = std::array<NumberFormat, kMostOperands>;

// Sizes of an op; which fields count depends on the kind. Elements, not bytes.
//   gemm                            c[rows, cols] over inner
//   norm, bias, add, activation     rows x cols (SwiGLU: cols = ffn width)
//   attention, rope, head norms     rows = batch * sequence, heads, kv_heads, head_dim, value_dim
//                                   of values where not 0; rope: `rotary` elements of a head alone,
//                                   from rotary_first on, where not 0
//   split columns                   rows x (cols + inner)
//   latent heads                    rows, heads, head_dim, of which the last `rotary` are turned,
//                                   value_dim
//   sinks                           rows, heads, head_dim of out
//   shift targets                   rows, sequence
//   standard attention              as attention; inner: keys that the weights are multiplied with
//                                   the values of, 0: weights alone
//   attention parts                 rows queries against inner keys; batch, sequence: of one
//                                   rank's share; either side is that share or all cp ones
//   key columns, head parts         rows, heads, kv_heads (0: rows [q] alone), head_dim, cp
//   dropout                         rows x cols; batch, sequence: of one rank's share; cp
//   embedding, cross-entropy        rows, cols (hidden), vocab, sequence
//   gates                           rows x cols
//   count choices, balance bias     rows, experts, per_token
//   route and backward              rows x experts, per_token, capacity; elements: of expert rows;
//                                   pieces, balance_rows, expert_groups, group_limit, group_top
//   expert gather, combine, dots    rows of the output, cols, per_token; elements: other rows
//   grouped gemm                    as gemm, of all experts' rows; experts; capacity of a run
//                                   of rows, 0: counts say; expert bias: rows x cols, likewise
//   ops that follow counts          sizes as if all experts had as many; members, all_experts,
//                                   pieces, piece
//   norm², updates, copies, softcap elements: of the tensor
//   collectives, p2p                elements: of the whole tensor; exchange of experts: per_token
//   (de)quantize                    elements in all, in `rows` pieces that lie one after the other,
//                                   each its numbers and then its scales; with scales apart rows
//                                   of `cols`
struct OpShape {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t inner = 0;
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::int64_t vocab = 0;
  std::int64_t elements = 0;
  std::int64_t decayed = 0;  // updates: leading elements that decay
  // Where `vocab` is one rank's share: the whole vocabulary. The share of tp coordinate t begins at
  // t * vocab; the last ones may be short or empty.
  std::int64_t vocab_total = 0;
  std::int32_t heads = 0;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t rotary = 0;
  std::int32_t rotary_first = 0;
  std::int32_t value_dim = 0;    // 0: head_dim
  std::int32_t alibi_heads = 0;  // attention: heads of the model whose slopes it takes; 0: none
  std::int32_t experts = 0;
  std::int32_t per_token = 0;  // experts of a token
  std::int64_t capacity = 0;   // rows of an expert; 0: as many as it is sent
  std::int64_t balance_rows = 0;
  std::int32_t expert_groups = 0;
  std::int32_t group_limit = 0;  // groups of a token; 0: any
  std::int32_t group_top = 0;    // experts that make a group's score; 0: per_token / group_limit
  // Counts [members, pieces, all_experts] of pairs, where more rows may come than are expected;
  // 0 members: nothing follows them.
  std::int32_t members = 0;
  std::int32_t all_experts = 0;
  std::int32_t pieces = 0;
  std::int32_t piece = 0;
  std::int32_t cp = 0;      // ranks that share out each sequence (context_parallel.h); 0: none do
  std::int32_t turn = 0;    // attention part: the keys are those of the rank `turn` before this one
  std::int64_t window = 0;  // attention: tokens that one sees, itself included; 0: all before it

  std::int32_t ValueDim() const { return value_dim > 0 ? value_dim : head_dim; }
  auto operator<=>(const OpShape&) const = default;
};

struct Op {
  OpKind kind = OpKind::kOpaque;
  Queue queue = Queue::kCompute;
  OpClass op_class = OpClass::kMemoryBound;
  GroupKind group = GroupKind::kNone;
  bool accumulate = false;     // adds to its output
  bool trans_a = false;        // gemm
  bool trans_b = false;        // gemm
  bool rms = false;            // norm
  bool inverse = false;        // rope
  bool maximum = false;        // all-reduce: the largest, not the sum
  bool softmax_first = false;  // route: before the choice of experts
  bool sigmoid = false;        // route: of each score, divided by their sum over the chosen
  // embedding, dropout: rows [t * rows, (t + 1) * rows) of tp coordinate t
  bool own_rows = false;
  bool delayed = false;  // AdamW: of the gradients of the step before; none in the first step
  ActivationKind activation = ActivationKind::kGeluTanh;  // kGelu*, kGemmActivation*, kSwiglu*
  bool state = false;           // copy: of fp32 state, whatever the model computes in
  Space from = Space::kDevice;  // copy
  Space to = Space::kDevice;    // copy
  // GEMM, attention: what it computes in; AdamW: of the moments; (de)quantize: of the short side
  // with its scales, wherever they lie;
  // gathers: of what is moved, where that is not the parameters' own
  NumberFormat format = NumberFormat::kFp32;
  OperandFormats formats{};
  std::int32_t updates = 1;  // AdamW: of the parameters in a step; the instruction's micro-batch
                             // says which this one is
  float scale = 1.0F;  // cross-entropy: 1 / tokens of the global batch, times the loss scale in
                       // the backward; updates, host read: gradients are this times
                       // too large; route backward: of the balance; embedding: of the
                       // table's rows
  // norm: epsilon; rope: theta; updates: clip norm, 0 = none; attention: scale of scores, 0 = 1 /
  // sqrt(head_dim); softcap and cross-entropy backward: cap, 0 = none; route and backward: factor
  // of the weights, 0 = 1; scale loss: steps after which it doubles; balance bias: what is added
  float parameter = 0.0F;
  float cap = 0.0F;     // attention: of scores, 0 = none
  RopeStretch stretch;  // rope
  // dropout, attention: probability with which a number is dropped, and which of the block's
  // dropouts it is
  float dropout = 0.0F;
  std::int32_t dropout_site = 0;
  double duration_s = 0.0;  // kOpaque alone
  OpShape shape;
  std::int32_t first_operand = 0;  // into Block::operands
  std::int32_t operand_count = 0;
  std::string name;                      // "mlp.up"; dotted, unique in its block
  std::vector<std::string> covers = {};  // names of the ops that this one was fused from
};

// What a tensor of a block is bound to when an instruction is made of it.
enum class SlotRole : std::uint8_t {
  kTemporary,       // made and dead inside the instruction
  kCarried,         // made by one piece of a block's pass and read by a later one (pieces.h)
  kInput,           // activations from the block before: [rows, hidden]
  kOutput,          // activations to the block after
  kOutputGradient,  // gradient that comes from the block after
  kInputGradient,   // gradient that goes to the block before
  kSaved,           // made by one pass of this block and read by a later one; `index` says which
  kParameter,       // `index`: number of the parameter in the block
  kGradient,        // likewise
  kIds,             // [rows] i32
  kTargets,         // [rows] i32
  kLoss,            // [1] f32, this rank's sum over micro-batches
  kLossScale,       // [1] f32, what the loss's scale has become (kScaleLoss)
  kLoads,           // [experts] f32, tokens of the step that each expert of the layer has got
  kOther,           // bound by the pass that makes the instruction, in order of `index`
};

struct TensorSlot {
  std::string name;
  std::int64_t bytes = 0;
  Category category = Category::kWorkspace;
  SlotRole role = SlotRole::kTemporary;
  std::int32_t index = 0;
  NumberFormat format = NumberFormat::kFp32;
  // A view: part of the tensor of an earlier slot, `offset` bytes from its start and `rank_offset`
  // more for each tp coordinate. Lives as long as that tensor.
  std::int16_t base = kNoSlot;
  std::int64_t offset = 0;
  std::int64_t rank_offset = 0;
};

// A template that all instructions of one shape share: ops in issue order over named tensors.
struct Block {
  std::string name;  // "layer.forward"
  std::vector<TensorSlot> slots;
  std::vector<Op> ops;
  std::vector<Operand> operands;
};

// The operands of an op of the block, which must lie in its table (FT_CHECK).
std::span<const Operand> OperandsOf(const Block& block, const Op& op);
// The formats of their slots.
OperandFormats FormatsOf(const Block& block, const Op& op);

std::string_view Name(OpKind kind);
std::string_view Name(GroupKind group);
constexpr bool IsCommunication(OpKind kind) {
  return kind >= OpKind::kAllReduce && kind <= OpKind::kRecv;
}
constexpr bool IsCollective(OpKind kind) {
  return kind >= OpKind::kAllReduce && kind <= OpKind::kRotate;
}
// One product, with what follows it or alone.
constexpr bool IsGemm(OpKind kind) {
  return kind >= OpKind::kGemm && kind <= OpKind::kGemmBiasGrad;
}

// Arithmetic and traffic of one op: what every rate is measured against.
//
// `bytes` counts each operand once for a read and once for a write, in its own format (moments
// without their scales), so that what is changed in place or added to counts twice. Operands that
// may be left out do not count (a bias, learned positions), but the residual of a norm's backward
// does.
// `flop`: GEMM 2 rows cols inner, and nothing for what follows it in one op; causal attention
// counts the lower triangle, T (T + 1) / 2 pairs of a query and a key, or those of its window:
// forward 2 GEMMs, B heads T (T + 1) (head_dim + value_dim), backward 5 (Dao 2023, s. 3.1); an
// attention part the pairs that it has, as many on every rank or, with a window, their mean over
// the ranks; norms, activations and AdamW a few an element. Communication: flop 0, bytes = the
// tensor this rank brings (all-gather: the whole that it ends with). kLoadBatch, kHostRead: bytes =
// 4 * elements. kOpaque: 0, its time is given.
struct OpWork {
  double flop = 0;
  double bytes = 0;
};
OpWork WorkOf(const Op& op);

}  // namespace foretrain
