// The one interface between the program's executor and a device: a C struct of function pointers
// that take plain data only. kernels/cpu fills it statically, a plugin fills it for CUDA, and tests
// fill it with a mock that fails the n-th call. Order, memory plans and ids lie above the table,
// once for every device. The file is long because it holds a plugin's whole contract.
//
// Every entry returns FT_OK or another FtStatus. If it fails, it leaves a sentence in `queue`'s
// text buffer or in the caller's. Pointers are device pointers. Tensors are dense and row-major; if
// a tensor is a slice of a wider one, its row stride is given in elements. No entry allocates,
// throws or keeps a pointer after the work is done.
#ifndef FORETRAIN_BASE_DEVICE_API_H_
#define FORETRAIN_BASE_DEVICE_API_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { FT_DEVICE_API_VERSION = 23 };

typedef enum FtStatus {
  FT_OK = 0,
  FT_UNSUPPORTED = 1,
  FT_OUT_OF_MEMORY = 2,
  FT_FAILED = 3
} FtStatus;

// FT_FP8 (e4m3), FT_I8 and FT_NF4 are storage formats: see FtAdamW and FtQuantize. FT_U8 is the
// format of masks and FT_E5M2 that of 8-bit gradients. FT_TF32 is the part of fp32 that products
// read, with a 10-bit mantissa; no tensor is stored in it. Callers ask `supports` about FT_TF32,
// FT_FP8 and FT_E5M2 for products that compute in them.
typedef enum FtDtype {
  FT_F32 = 0,
  FT_BF16 = 1,
  FT_F16 = 2,
  FT_I32 = 3,
  FT_F64 = 4,
  FT_FP8 = 5,
  FT_I8 = 6,
  FT_U8 = 7,
  FT_NF4 = 8,
  FT_E5M2 = 9,
  FT_TF32 = 10
} FtDtype;

// Number of elements that share one fp32 scale in FT_FP8 and FT_I8; the last block of a tensor may
// be shorter.
enum { FT_SCALE_BLOCK = 256 };

// Selects the codes of a matrix [rows, cols], as stored, that share one fp32 scale. TENSOR: all
// codes. ROWS: FT_SCALE_SIDE codes of a row (scales [rows, cols / side]). COLUMNS: as many of a
// column (scales [rows / side, cols]). TILES: a square of that side (scales [rows / side, cols /
// side]). Quotients are rounded up.
typedef enum FtScaling {
  FT_SCALE_TENSOR = 0,
  FT_SCALE_ROWS = 1,
  FT_SCALE_COLUMNS = 2,
  FT_SCALE_TILES = 3
} FtScaling;
enum { FT_SCALE_SIDE = 128 };

// Every kernel entry of the table: use(NAME, entry, Arguments). Devices and tests go through all
// entries with this list. New ones stand at the end, since plugins count them.
// clang-format off
#define FT_KERNEL_ENTRIES(use)                                                               \
  use(GEMM, gemm, FtGemm)                                                                    \
  use(BIAS_GRAD, bias_grad, FtBiasGrad)                                                      \
  use(EMBEDDING_FORWARD, embedding_forward, FtEmbeddingForward)                              \
  use(EMBEDDING_BACKWARD, embedding_backward, FtEmbeddingBackward)                           \
  use(NORM_FORWARD, norm_forward, FtNormForward)                                             \
  use(NORM_BACKWARD_INPUT, norm_backward_input, FtNormBackwardInput)                         \
  use(NORM_BACKWARD_WEIGHT, norm_backward_weight, FtNormBackwardWeight)                      \
  use(ROPE, rope, FtRope)                                                                    \
  use(ATTENTION_FORWARD, attention_forward, FtAttentionForward)                              \
  use(ATTENTION_BACKWARD, attention_backward, FtAttentionBackward)                           \
  use(GELU_FORWARD, gelu_forward, FtGelu)                                                    \
  use(GELU_BACKWARD, gelu_backward, FtGelu)                                                  \
  use(SWIGLU_FORWARD, swiglu_forward, FtSwiglu)                                              \
  use(SWIGLU_BACKWARD, swiglu_backward, FtSwiglu)                                            \
  use(ADD, add, FtAdd)                                                                       \
  use(ADD_NORM_FORWARD, add_norm_forward, FtAddNormForward)                                  \
  use(CROSS_ENTROPY_FORWARD, cross_entropy_forward, FtCrossEntropyForward)                   \
  use(CROSS_ENTROPY_BACKWARD, cross_entropy_backward, FtCrossEntropyBackward)                \
  use(VOCAB_MAX, vocab_max, FtVocabMax)                                                      \
  use(VOCAB_SUMS, vocab_sums, FtVocabSums)                                                   \
  use(VOCAB_LOSS, vocab_loss, FtVocabLoss)                                                   \
  use(ROUTE, route, FtRoute)                                                                 \
  use(ROUTE_BACKWARD, route_backward, FtRouteBackward)                                       \
  use(EXPERT_GATHER, expert_gather, FtExpertGather)                                          \
  use(EXPERT_COMBINE, expert_combine, FtExpertCombine)                                       \
  use(EXPERT_DOTS, expert_dots, FtExpertDots)                                                \
  use(GROUPED_GEMM, grouped_gemm, FtGroupedGemm)                                             \
  use(SQUARED_NORM, squared_norm, FtSquaredNorm)                                             \
  use(ADAMW, adamw, FtAdamW)                                                                 \
  use(SGD, sgd, FtSgd)                                                                       \
  use(ADAMW_AMEND, adamw_amend, FtAdamWAmend)                                                \
  use(SGD_AMEND, sgd_amend, FtSgdAmend)                                                      \
  use(COUNT_NOT_FINITE, count_not_finite, FtCountNotFinite)                                  \
  use(COUNT_SKIPPED, count_skipped, FtCountSkipped)                                          \
  use(QUANTIZE, quantize, FtQuantize)                                                        \
  use(DEQUANTIZE, dequantize, FtQuantize)                                                    \
  use(SUM_RANKS, sum_ranks, FtSumRanks)                                                      \
  use(ATTENTION_PART_FORWARD, attention_part_forward, FtAttentionPartForward)                \
  use(ATTENTION_PART_BACKWARD, attention_part_backward, FtAttentionPartBackward)             \
  use(COPY_ROWS, copy_rows, FtCopyRows)                                                      \
  use(HEAD_NORM_FORWARD, head_norm_forward, FtHeadNormForward)                               \
  use(HEAD_NORM_BACKWARD_INPUT, head_norm_backward_input, FtHeadNormBackwardInput)           \
  use(HEAD_NORM_BACKWARD_WEIGHT, head_norm_backward_weight, FtHeadNormBackwardWeight)        \
  use(SOFTCAP, softcap, FtSoftcap)                                                           \
  use(LATENT_HEADS, latent_heads, FtLatentHeads)                                             \
  use(SINK_FORWARD, sink_forward, FtSinkForward)                                             \
  use(SINK_BACKWARD, sink_backward, FtSinkBackward)                                          \
  use(SHIFT_TARGETS, shift_targets, FtShiftTargets)                                          \
  use(EXPERT_BIAS, expert_bias, FtExpertBias)                                                \
  use(EXPERT_BIAS_GRAD, expert_bias_grad, FtExpertBiasGrad)                                  \
  use(DROPOUT, dropout, FtDropout)                                                           \
  use(DROPOUT_BACKWARD, dropout_backward, FtDropoutBackward)                                 \
  use(STANDARD_ATTENTION_FORWARD, standard_attention_forward, FtStandardAttentionForward)    \
  use(STANDARD_ATTENTION_BACKWARD, standard_attention_backward, FtStandardAttentionBackward) \
  use(GATE_FORWARD, gate_forward, FtGateForward)                                             \
  use(GATE_BACKWARD, gate_backward, FtGateBackward)                                          \
  use(COUNT_CHOICES, count_choices, FtCountChoices)                                          \
  use(BALANCE_BIAS, balance_bias, FtBalanceBias)                                             \
  use(SCALE_LOSS, scale_loss, FtScaleLoss)                                                   \
  use(QUANTIZE_TENSOR, quantize_tensor, FtQuantizeTensor)                                    \
  use(Z_LOSS, z_loss, FtZLoss)                                                               \
  use(Z_LOSS_BACKWARD, z_loss_backward, FtZLossBackward)                                     \
  use(CROSS_ENTROPY, cross_entropy, FtCrossEntropy)                                          \
  use(MOMENTUM, momentum, FtMomentum)                                                        \
  use(LION, lion, FtMomentum)                                                                \
  use(AVERAGE, average, FtAverage)                                                           \
  use(COMBINE, combine, FtCombine)                                                           \
  use(FACTOR_SUMS, factor_sums, FtFactorSums)                                                \
  use(FACTOR_MOMENTS, factor_moments, FtFactorMoments)                                       \
  use(FACTOR_SIZE, factor_size, FtAdafactor)                                                 \
  use(ADAFACTOR, adafactor, FtAdafactor)                                                     \
  use(RELATIVE_BIAS, relative_bias, FtRelativeBias)                                          \
  use(RELATIVE_BIAS_BACKWARD, relative_bias_backward, FtRelativeBiasBackward)
// clang-format on

// One per kernel entry, in the same order: the argument of `supports`.
typedef enum FtKernel {
#define FT_KERNEL_NAME(NAME, entry, Arguments) FT_KERNEL_##NAME,
  FT_KERNEL_ENTRIES(FT_KERNEL_NAME)
#undef FT_KERNEL_NAME
      FT_KERNEL_COUNT
} FtKernel;

typedef struct FtQueue FtQueue;  // a stream, or the scratch memory of a host thread
typedef struct FtEvent FtEvent;
typedef struct FtShare FtShare;  // a subset of a device's multiprocessors
typedef struct FtGraph FtGraph;  // recorded work of one queue, launched as a unit

// ---- kernels: arguments
// `accumulate` != 0 adds to the output, 0 overwrites it. `dtype` is the format of every tensor,
// except those with a format of their own (`c_dtype`, ...) and those of a C type. Kernels compute
// in fp32 and round results to nearest, ties to even.

// `rows` consecutive rows that start at `row`; their positions in the sequence start at `position`.
// Runs describe a sequence that is split over ranks. Arrays of runs lie in host memory.
typedef struct FtRun {
  int64_t row, position, rows;
} FtRun;

// Decides which elements dropout keeps, from a counter-based generator. The element at row r,
// column c, head h, sample s draws word c % 4 of a Philox4x32-10 block (Salmon et al. 2011). The
// block's counter is (c / 4, r, s, h) and its key is `key`. The element is kept if the word is at
// least probability * 2^32, and is then divided by 1 - probability. In attention, rows are query
// positions and columns key positions. Every rank that holds an element draws the same word: sample
// and head count from first_sample and first_head. If probability is 0, everything is kept.
typedef struct FtRandomMask {
  uint64_t key;
  int64_t first_sample, first_head;
  float probability;
} FtRandomMask;

// Activations of FtGelu and of FtGemm's epilogues: GELU (tanh approximation or erf), max(x, 0), or
// max(x, 0)^2.
typedef enum FtActivation {
  FT_GELU_TANH = 0,
  FT_GELU_ERF = 1,
  FT_RELU = 2,
  FT_SQUARED_RELU = 3
} FtActivation;

// Transforms y = scale * op(a) op(b) + bias, in fp32, before it is stored.
typedef enum FtEpilogue {
  FT_EPILOGUE_NONE = 0,      // c (+)= y
  FT_EPILOGUE_ACTIVATE = 1,  // aux = y, c = f(y)
  FT_EPILOGUE_SLOPE = 2      // c = y * f'(aux)
} FtEpilogue;

// c[m, n] (+)= scale * op(a)[m, k] * op(b)[k, n] + bias[n]. op transposes if trans_* != 0. bias may
// be NULL. A scale of 0 means 1.
//
// compute: FT_F32, or FT_TF32 if dtype is FT_F32. TF32 rounds the operands' mantissas to 10 bits,
// to nearest, ties to even. A device library may read them otherwise and lose the last of the 10
// bits. Sums are fp32.
//
// dtype FT_FP8, FT_E5M2: a has that format and b is FT_FP8. A value is its code times its scale
// from a_scale or b_scale, which lie in device memory; NULL means 1. a_scaling and b_scaling say
// which codes share a scale. With any scaling but FT_SCALE_TENSOR the matrix must be dense.
//
// epilogue: f is `activation`. aux[m, n] has c_dtype and row stride ld_aux. With ACTIVATE, aux may
// be NULL: y is then not kept. An epilogue requires accumulate == 0.
//
// row_sums[m] (+)= sum over k of op(a), as it is stored; NULL: not wanted. If c is a weight
// gradient, row_sums is the bias gradient. It requires no bias, no epilogue and no scales.
typedef struct FtGemm {
  const void* a;
  const void* b;
  const void* bias;
  void* c;
  int64_t m, n, k, lda, ldb, ldc;  // ld*: row strides as stored, before op()
  int32_t trans_a, trans_b, accumulate;
  float scale;
  FtDtype dtype;
  FtDtype bias_dtype, c_dtype;
  FtDtype compute;
  FtEpilogue epilogue;
  FtActivation activation;
  FtDtype row_sums_dtype;
  const float* a_scale;
  const float* b_scale;
  FtScaling a_scaling, b_scaling;
  void* aux;
  int64_t ld_aux;
  void* row_sums;
} FtGemm;

// grad[cols] (+)= sum over rows of dy[rows, cols].
typedef struct FtBiasGrad {
  const void* dy;
  void* grad;
  int64_t rows, cols;
  int32_t accumulate;
  FtDtype dtype;
  FtDtype grad_dtype;
} FtBiasGrad;

// out[rows, cols] = scale * table[ids[row]] + positions[(first_row + row) % sequence]. positions
// may be NULL. A scale of 0 means 1. If `runs` is not NULL, it lists the `sequence` rows of a
// sample in order, and their positions are used. If all_ids > 0, the table holds ids [first_id,
// first_id + vocab) out of all_ids; a row with another id becomes 0. document_starts is as in
// FtAttentionForward, for all rows from row 0 on: positions count from there.
typedef struct FtEmbeddingForward {
  const int32_t* ids;
  const void* table;
  const void* positions;
  void* out;
  int64_t rows, cols, vocab, sequence;
  int64_t first_row, first_id, all_ids;
  FtDtype dtype;
  const FtRun* runs;
  int64_t run_count;
  FtDtype table_dtype;  // also the format of positions
  float scale;
  const int32_t* document_starts;
} FtEmbeddingForward;

// table_grad[vocab, cols] (+)= scale * scatter of dy by ids. positions_grad[sequence, cols] (+)=
// sum over the batch; NULL if the model has no position table. With `runs`, as in the forward, only
// the positions of the runs are added to, and accumulate_positions must be set. first_id and
// all_ids are as in the forward; rows of other ids leave the table alone. With document_starts,
// which is as in the forward, accumulate_positions must be set.
typedef struct FtEmbeddingBackward {
  const int32_t* ids;
  const void* dy;
  void* table_grad;
  void* positions_grad;
  int64_t rows, cols, vocab, sequence;
  int64_t first_id, all_ids;
  int32_t accumulate_table, accumulate_positions;
  FtDtype dtype;
  const FtRun* runs;
  int64_t run_count;
  FtDtype grad_dtype;
  float scale;
  const int32_t* document_starts;
} FtEmbeddingBackward;

// LayerNorm (rms == 0): y = (x - mean) * rstd * weight + bias. RMSNorm (rms == 1): y = x * rstd *
// weight; mean and bias are NULL. mean, rstd: [rows] fp32.
typedef struct FtNormForward {
  const void* x;
  const void* weight;
  const void* bias;
  void* y;
  float* mean;
  float* rstd;
  int64_t rows, cols;
  float epsilon;
  int32_t rms;
  FtDtype dtype;
  FtDtype weight_dtype;  // also the format of bias
} FtNormForward;

// dx[rows, cols] = gradient of the norm's input + residual[rows, cols]. residual may be NULL or
// equal to dx.
typedef struct FtNormBackwardInput {
  const void* dy;
  const void* x;
  const void* weight;
  const float* mean;
  const float* rstd;
  const void* residual;
  void* dx;
  int64_t rows, cols;
  int32_t rms;
  FtDtype dtype;
  FtDtype weight_dtype;
} FtNormBackwardInput;

// weight_grad[cols], bias_grad[cols] (+)= sums over the rows. bias_grad is NULL for RMSNorm and for
// a LayerNorm without bias.
typedef struct FtNormBackwardWeight {
  const void* dy;
  const void* x;
  const float* mean;
  const float* rstd;
  void* weight_grad;
  void* bias_grad;
  int64_t rows, cols;
  int32_t rms, accumulate;
  FtDtype dtype;
  FtDtype grad_dtype;
} FtNormBackwardWeight;

// RMSNorm of each query and key head, in place: x = x * rstd * weight. A row holds `heads` query
// heads of head_dim elements, then kv_heads key heads. Queries share one weight [head_dim], keys
// another. kept [rows, (heads + kv_heads) * head_dim] receives the inputs, rstd is [rows, heads +
// kv_heads]. If whole != 0, there is one norm over all query heads of a row and one over all key
// heads: the weights are [heads * head_dim] and [kv_heads * head_dim], rstd is [rows, 2]. Weights
// that are NULL are 1.
typedef struct FtHeadNormForward {
  void* qkv;
  const void* q_weight;
  const void* k_weight;
  void* kept;
  float* rstd;
  int64_t rows, row_stride;
  int32_t heads, kv_heads, head_dim, whole;
  float epsilon;
  FtDtype dtype;
} FtHeadNormForward;

// Replaces the gradient of the forward's output by that of its input, in place. `kept` is
// the forward's. kept_grad, laid out like it, receives the output gradient that is overwritten;
// NULL: it is not kept.
typedef struct FtHeadNormBackwardInput {
  void* dqkv;
  const void* kept;
  const float* rstd;
  const void* q_weight;
  const void* k_weight;
  void* kept_grad;
  int64_t rows, row_stride;
  int32_t heads, kv_heads, head_dim, whole;
  FtDtype dtype;
} FtHeadNormBackwardInput;

// q_weight_grad[head_dim] (+)= sum over rows and heads of kept_grad * kept * rstd; k_weight_grad
// likewise; both of the forward's shapes if whole != 0. kept_grad is that of the input gradient.
typedef struct FtHeadNormBackwardWeight {
  const void* kept_grad;
  const void* kept;
  const float* rstd;
  void* q_weight_grad;
  void* k_weight_grad;
  int64_t rows;
  int32_t heads, kv_heads, head_dim, whole, accumulate;
  FtDtype dtype;
} FtHeadNormBackwardWeight;

// Rescaling of the rotary frequency f of pair i for longer contexts:
//   LINEAR  f / factor
//   YARN    f / factor * r + f (1 - r), r = (i - low) / (high - low) clamped to [0, 1]
//   LLAMA3  with w = 2 pi / f: f / factor where w > original / low, f where w < original / high,
//           else f / factor * (1 - r) + f r, r = (original / w - low) / (high - low)
//   QUERY_GROWTH  rotates nothing: the elements of a head at position p are multiplied by
//           1 + factor * ln(1 + floor((p + 1) / original)), in the backward pass too
typedef enum FtRopeStretch {
  FT_ROPE_PLAIN = 0,
  FT_ROPE_LINEAR = 1,
  FT_ROPE_YARN = 2,
  FT_ROPE_LLAMA3 = 3,
  FT_ROPE_QUERY_GROWTH = 4
} FtRopeStretch;

// Rotates the first `heads` heads of each row in place, with halves split as in Llama: (x1, x2) ->
// (x1 c - x2 s, x2 c + x1 s), c and s the cosine and sine of (row % sequence) * theta^(-2 i /
// head_dim).
// inverse != 0 rotates back (the backward pass). If `runs` is not NULL, it lists the `sequence`
// rows of a sample in order, and their positions are used. Heads lie head_stride elements apart; 0
// means head_dim. If head_stride is larger, the rest of a head stays as it is. Sines and cosines
// are multiplied by magnitude; 0 means 1. document_starts is as in FtAttentionForward: positions
// count from there.
typedef struct FtRope {
  void* data;
  int64_t rows, row_stride, sequence;
  int32_t heads, head_dim, inverse;
  float theta;
  FtDtype dtype;
  const FtRun* runs;
  int64_t run_count;
  int32_t head_stride;
  FtRopeStretch stretch;
  float factor, low, high, original, magnitude;
  const int32_t* document_starts;
} FtRope;

// Assembles the heads of multi-head latent attention. Inputs: q [rows, heads * head_dim]; kv [rows,
// heads * (head_dim - rotary + value_dim)]; turned_key [rows, rotary]. For each head, kv holds the
// part of the key without rotary embedding, then the value. turned_key is the rotary part of the
// key, shared by all heads. Output: qkv [rows, heads * (2 head_dim + value_dim)], all queries, then
// all keys, then all values. The last `rotary` elements of a head's head_dim are the rotated ones.
// inverse != 0 maps the gradient of qkv to those of the three inputs; turned_key's is summed over
// the heads.
typedef struct FtLatentHeads {
  void* q;
  void* kv;
  void* turned_key;
  void* qkv;
  int64_t rows;
  int32_t heads, head_dim, rotary, value_dim, inverse;
  FtDtype dtype;
} FtLatentHeads;

// Attention sinks: one learned score per head, sinks[heads], that joins the softmax with a value of
// 0. The forward corrects the result of attention without sinks: out [rows, heads * head_dim] *= 1
// / (1 + e^(sink - lse)), lse [rows, heads] = log(e^lse + e^sink).
// The backward reads the corrected out and lse: sinks_grad[heads] (+)= - sum over rows of e^(sink -
// lse) * (dout . out).
typedef struct FtSinkForward {
  void* out;
  float* lse;
  const void* sinks;
  int64_t rows;
  int32_t heads, head_dim;
  FtDtype dtype;
  FtDtype sinks_dtype;
} FtSinkForward;

typedef struct FtSinkBackward {
  const void* out;
  const void* dout;
  const float* lse;
  const void* sinks;
  void* sinks_grad;
  int64_t rows;
  int32_t heads, head_dim, accumulate;
  FtDtype dtype;
  FtDtype sinks_dtype;
  FtDtype grad_dtype;
} FtSinkBackward;

// Causal attention over packed rows. q, k, v are slices of [batch * sequence, row_stride]; out is
// [rows, heads * head_dim]. lse [rows, heads] fp32 is the log of the sum of exponentials of the
// scaled scores. Query head h reads key head h / (heads / kv_heads). A scale of 0 means 1 /
// sqrt(head_dim). With window > 0 a query sees that many keys, itself included; 0: all keys up to
// its own. Heads of v and out have value_dim elements; 0 means head_dim. With softcap > 0 a score s
// becomes softcap * tanh(s / softcap). With alibi_heads > 0, slope * distance is subtracted from
// each score (ALiBi; Press et al. 2022, s. 3). The slope is that of head first_head + h out of
// alibi_heads.
// document_starts [batch * sequence] is the position in the sample at which the document of each
// row begins: a query sees no key before it. It never falls within a sample, and is at most the
// row's own position. NULL: a sample is one document.
typedef struct FtAttentionForward {
  const void* q;
  const void* k;
  const void* v;
  void* out;
  float* lse;
  int64_t batch, sequence, row_stride;
  int32_t heads, kv_heads, head_dim;
  FtDtype dtype;
  int64_t window;
  float scale;
  int32_t value_dim, alibi_heads, first_head;
  float softcap;
  FtRandomMask random;  // dropout of the attention weights
  const int32_t* document_starts;
} FtAttentionForward;

// Overwrites dq, dk and dv, which are laid out like q, k and v (same row_stride).
typedef struct FtAttentionBackward {
  const void* q;
  const void* k;
  const void* v;
  const void* out;
  const float* lse;
  const void* dout;
  void* dq;
  void* dk;
  void* dv;
  int64_t batch, sequence, row_stride;
  int32_t heads, kv_heads, head_dim;
  FtDtype dtype;
  int64_t window;
  float scale;
  int32_t value_dim, alibi_heads, first_head;
  float softcap;
  FtRandomMask random;  // dropout of the attention weights
  const int32_t* document_starts;
} FtAttentionBackward;

// One part of causal attention, for context parallelism and for keys of another tensor: queries of
// some runs of rows against keys of other runs. A query sees the keys at positions up to its own. q
// is [rows, q_stride], k and v are [rows, kv_stride]; out, lse and `window` are as above, by query
// row. Runs name the rows of the first sample; those of sample b lie b * sample_rows further on,
// keys b * key_sample_rows (0: sample_rows). If merge != 0, out and lse hold the result of earlier
// parts over other keys, and receive the combined result. A query with no key in this part keeps
// its out and lse; without merge it gets 0 and -inf. document_starts, by query row, is as above,
// and so at most the query's position.
//
// bias [heads, bias_stride], if not NULL, has a number for each distance, which the scaled score
// gets added: element bias_zero + key position - query position of a head's row.
typedef struct FtAttentionPartForward {
  const void* q;
  const void* k;
  const void* v;
  void* out;
  float* lse;
  const FtRun* query_runs;
  const FtRun* key_runs;
  int64_t query_run_count, key_run_count;
  int64_t batch, sample_rows, q_stride, kv_stride;
  int32_t heads, kv_heads, head_dim, merge;
  FtDtype dtype;
  int64_t window;
  float scale;
  int32_t value_dim, alibi_heads, first_head;
  float softcap;
  FtRandomMask random;  // dropout of the attention weights
  const int32_t* document_starts;
  int64_t key_sample_rows;
  const float* bias;
  int64_t bias_stride, bias_zero;
} FtAttentionPartForward;

// Gradients of one part's queries and keys; out and lse are those of all parts together. dq is laid
// out like q and added to if accumulate_dq != 0; dk and dv [rows, dkv_stride] are overwritten, and
// so is bias_grad, laid out like bias.
typedef struct FtAttentionPartBackward {
  const void* q;
  const void* k;
  const void* v;
  const void* out;
  const float* lse;
  const void* dout;
  void* dq;
  void* dk;
  void* dv;
  const FtRun* query_runs;
  const FtRun* key_runs;
  int64_t query_run_count, key_run_count;
  int64_t batch, sample_rows, q_stride, kv_stride, dkv_stride;
  int32_t heads, kv_heads, head_dim, accumulate_dq;
  FtDtype dtype;
  int64_t window;
  float scale;
  int32_t value_dim, alibi_heads, first_head;
  float softcap;
  FtRandomMask random;  // dropout of the attention weights
  const int32_t* document_starts;
  int64_t key_sample_rows;
  const float* bias;
  float* bias_grad;
  int64_t bias_stride, bias_zero;
} FtAttentionPartBackward;

// Spreads T5's table of relative positions [buckets, heads] over the distances of attention (Raffel
// et al. 2020, s. 2.1): bias[h, queries - 1 + d] = table[bucket of d, h] for each distance d = key
// position - query position, from 1 - queries to keys - 1; base/numeric/relative_buckets.h has the
// buckets. bias is [heads, queries + keys - 1].
typedef struct FtRelativeBias {
  const void* table;
  float* bias;
  int64_t queries, keys;
  int32_t heads, buckets, max_distance, bidirectional;
  FtDtype dtype;  // of table
} FtRelativeBias;

// dx[buckets, heads] = dy[buckets, heads] + the sums of bias_grad over the distances of each
// bucket.
typedef struct FtRelativeBiasBackward {
  const float* bias_grad;
  const void* dy;
  void* dx;
  int64_t queries, keys;
  int32_t heads, buckets, max_distance, bidirectional;
  FtDtype dtype;  // of dy and dx
} FtRelativeBiasBackward;

// Causal attention that materializes its scores. scores, weights and dropped are [batch, heads,
// sequence, sequence]; mask has one byte per element. weights is the softmax, 0 above the diagonal;
// dropped holds the weights after dropout. If mask and dropped are NULL, there is no dropout. If
// out is NULL, only the weights are computed. Everything else is as in FtAttentionForward.
typedef struct FtStandardAttentionForward {
  const void* q;
  const void* k;
  const void* v;
  void* scores;
  void* weights;
  uint8_t* mask;
  void* dropped;
  void* out;
  int64_t batch, sequence, row_stride;
  int32_t heads, kv_heads, head_dim;
  FtDtype dtype;
  int64_t window;
  float scale;
  FtRandomMask random;
  const int32_t* document_starts;
} FtStandardAttentionForward;

// Computes dq, dk and dv from the forward's results. d_scores is scratch, as large as the weights.
typedef struct FtStandardAttentionBackward {
  const void* q;
  const void* k;
  const void* v;
  const void* weights;
  const uint8_t* mask;
  const void* dropped;
  const void* dout;
  void* d_scores;
  void* dq;
  void* dk;
  void* dv;
  int64_t batch, sequence, row_stride;
  int32_t heads, kv_heads, head_dim;
  FtDtype dtype;
  float scale;
  float probability;
} FtStandardAttentionBackward;

// to[row * to_stride + col] = from[row * from_stride + col] for rows x cols. The tensors must not
// overlap.
typedef struct FtCopyRows {
  const void* from;
  void* to;
  int64_t rows, cols, from_stride, to_stride;
  FtDtype dtype;
} FtCopyRows;

// Gate function of FtSwiglu: silu or GELU (tanh approximation). CLAMPED is gpt-oss's and also
// changes `up`: g sigmoid(1.702 g) (u + 1), with g = min(gate, 7) and u = up clamped to [-7, 7].
typedef enum FtGate { FT_GATE_SILU = 0, FT_GATE_GELU_TANH = 1, FT_GATE_CLAMPED = 2 } FtGate;

// Forward: out = f(x). Backward: out = dy * f'(x); out may be dy.
typedef struct FtGelu {
  const void* x;
  const void* dy;
  void* out;
  int64_t elements;
  FtDtype dtype;
  FtActivation activation;
} FtGelu;

// x[rows, 2 cols] holds gate, then up. Forward: out[rows, cols] = f(gate) * up. Backward: out[rows,
// 2 cols] = dx.
typedef struct FtSwiglu {
  const void* x;
  const void* dy;
  void* out;
  int64_t rows, cols;
  FtDtype dtype;
  FtGate gate;
} FtSwiglu;

// x = softcap * tanh(x / softcap), in place.
typedef struct FtSoftcap {
  void* x;
  int64_t elements;
  float softcap;
  FtDtype dtype;
} FtSoftcap;

// out[rows, cols] = residual + dropout(x + bias[cols]). mask[rows, cols] is 1 for a kept element,
// else 0. Row r belongs to token first_row + r of the call's samples, `sequence` tokens each. runs
// are as in FtEmbeddingForward. bias, residual and mask may be NULL. out may be x or residual. If x
// is NULL, only the mask is written.
typedef struct FtDropout {
  const void* x;
  const void* bias;
  const void* residual;
  void* out;
  uint8_t* mask;
  int64_t rows, cols, sequence, first_row;
  FtRandomMask random;
  const FtRun* runs;
  int64_t run_count;
  FtDtype dtype;
  FtDtype bias_dtype;
} FtDropout;

// dx = dy / (1 - probability) if the mask is 1, else 0. dx may be dy.
typedef struct FtDropoutBackward {
  const void* dy;
  const uint8_t* mask;
  void* dx;
  int64_t elements;
  float probability;
  FtDtype dtype;
} FtDropoutBackward;

// out[rows, cols] = a + b + bias[cols]. bias may be NULL; out may be a or b.
typedef struct FtAdd {
  const void* a;
  const void* b;
  const void* bias;
  void* out;
  int64_t rows, cols;
  FtDtype dtype;
  FtDtype bias_dtype;
} FtAdd;

// sum[rows, cols] = a + b + bias, then the norm of sum as in FtNormForward. bias may be NULL; sum
// may be a or b. The result equals FtAdd followed by FtNormForward bit for bit.
typedef struct FtAddNormForward {
  const void* a;
  const void* b;
  const void* bias;
  const void* weight;
  const void* norm_bias;
  void* sum;
  void* y;
  float* mean;
  float* rstd;
  int64_t rows, cols;
  float epsilon;
  int32_t rms;
  FtDtype dtype;
  FtDtype weight_dtype;  // also the format of both biases
} FtAddNormForward;

// loss[0] (+)= scale * sum over rows of (lse - logits[row, target]). Writes lse [rows] fp32. A
// target outside [0, vocab) adds nothing. If all_ids > 0, columns from all_ids on are padding.
typedef struct FtCrossEntropyForward {
  const void* logits;
  const int32_t* targets;
  float* lse;
  float* loss;
  int64_t rows, vocab;
  float scale;
  int32_t accumulate;
  FtDtype dtype;
  int64_t all_ids;
} FtCrossEntropyForward;

// dlogits = scale * (softmax(logits) - onehot(target)), in place over logits. If all_ids > 0, the
// columns are ids [first_id, first_id + vocab) out of all_ids; columns past the last id become 0.
// If softcap > 0, the logits are FtSoftcap's output and the gradient is that of its input.
typedef struct FtCrossEntropyBackward {
  void* logits;
  const int32_t* targets;
  const float* lse;
  int64_t rows, vocab;
  int64_t first_id, all_ids;
  float scale;
  FtDtype dtype;
  float softcap;
  const float* loss_scale;  // scale is multiplied by 2^loss_scale[0]; NULL: by 1
} FtCrossEntropyBackward;

// FtCrossEntropyForward with `scale`, then FtCrossEntropyBackward with `gradient_scale`, for a
// whole vocabulary: the same numbers, but the logits are read once. The contents of terms [rows]
// fp32 afterwards are unspecified.
typedef struct FtCrossEntropy {
  void* logits;
  const int32_t* targets;
  float* terms;
  float* loss;
  int64_t rows, vocab, all_ids;
  float scale, gradient_scale;
  int32_t accumulate;
  FtDtype dtype;
  float softcap;
  const float* loss_scale;  // gradient_scale is multiplied by 2^loss_scale[0]; NULL: by 1
} FtCrossEntropy;

// loss[0] += scale * weight * sum of lse^2 over rows whose target lies in [0, vocabulary): a
// penalty that keeps the logits' normalizer near 1 (Chowdhery et al. 2022, s. 5).
typedef struct FtZLoss {
  const float* lse;
  const int32_t* targets;
  float* loss;
  int64_t rows, vocabulary;
  float scale, weight;
} FtZLoss;

// Adds the gradient of FtZLoss to that of the cross-entropy, which `logits` holds: scale * (softmax
// - onehot). Softmax follows from it, so that the logits are not needed. Arguments are those of
// FtCrossEntropyBackward, without a cap of logits.
typedef struct FtZLossBackward {
  void* logits;
  const int32_t* targets;
  const float* lse;
  int64_t rows, vocab;
  int64_t first_id, all_ids;
  float scale, weight;
  FtDtype dtype;
  const float* loss_scale;
} FtZLossBackward;

// Vocabulary-parallel loss (Shoeybi et al. 2019, s. 3), in three kernels with collectives between
// them. Each rank holds the columns of ids [first_id, first_id + vocab) out of all_ids; columns
// past the last id are ignored. max[row] is the maximum over this rank's columns, -infinity if it
// has none.
typedef struct FtVocabMax {
  const void* logits;
  float* max;
  int64_t rows, vocab, first_id, all_ids;
  FtDtype dtype;
} FtVocabMax;

// sum[row] is the sum of exp(logit - max[row]) over this rank's columns. picked[row] is the
// target's logit if this rank holds its column, else 0.
typedef struct FtVocabSums {
  const void* logits;
  const int32_t* targets;
  const float* max;
  float* sum;
  float* picked;
  int64_t rows, vocab, first_id, all_ids;
  FtDtype dtype;
} FtVocabSums;

// Inputs are max, sum and picked after the collectives: lse = max + log(sum), loss[0] (+)= scale *
// sum over rows of (lse - picked). A target outside [0, all_ids) adds nothing.
typedef struct FtVocabLoss {
  const int32_t* targets;
  const float* max;
  const float* sum;
  const float* picked;
  float* lse;
  float* loss;
  int64_t rows, all_ids;
  float scale;
  int32_t accumulate;
  FtDtype dtype;
} FtVocabLoss;

// out[row] = targets[row + 1]; -1 in the last row of each sequence. The tensors must not overlap.
typedef struct FtShiftTargets {
  const int32_t* targets;
  int32_t* out;
  int64_t rows, sequence;
} FtShiftTargets;

// ---- mixture of experts
// Pair p = row * per_token + j is a token's j-th expert. An expert row is a row of the experts'
// input. The rows of one expert are consecutive, in the order of their pairs.

// Routes tokens to experts by their scores, logits[rows, experts]. Outputs:
//   probs [rows, experts]       softmax of the scores
//   chosen [rows, per_token]    experts with the largest scores; on a tie the lower number first
//   weights [rows, per_token]   softmax over the chosen alone, or if softmax_first != 0 their probs
//   places [rows, per_token]    the pair's expert row
//   sources [expert rows]       the row's pair
//   balance_counts [rows / balance_rows, experts]  pairs of each expert, per balance_rows rows
//
// With group_limit > 0 the experts form `expert_groups` equal groups, at most 64. A token then uses
// experts of group_limit groups only: those with the largest sums of their group_top largest probs
// (DeepSeek-AI 2024b, s. 2.1.2). A group_top of 0 means max(1, per_token / group_limit). With
// replay != 0 `chosen` is an input. Weights are multiplied by weight_scale; 0 means 1.
//
// With sigmoid != 0 probs are sigmoids of the scores, and weights are those of the chosen divided
// by their sum. Experts and groups are then chosen by probs + choice_bias [experts], which may be
// NULL. With sigmoid 2 weights are not divided.
//
// Expert rows lie in `pieces` pieces, sorted by expert inside each. Capacity 0: piece p holds the
// pairs of rows [rows p / pieces, rows (p + 1) / pieces), and counts [pieces, experts] are its
// pairs per expert. Capacity > 0: each expert has ceil(capacity / pieces) rows in every piece, and
// its pairs fill them piece by piece. A pair beyond the capacity has place -1 and a row without a
// pair has source -1. counts [experts] include the dropped pairs.
typedef struct FtRoute {
  const void* logits;
  float* probs;
  float* weights;
  int32_t* chosen;
  int32_t* places;
  int32_t* sources;
  int32_t* counts;
  int32_t* balance_counts;
  int64_t rows, experts, per_token, capacity, pieces, balance_rows;
  int64_t expert_groups, group_limit;
  int32_t softmax_first, replay;
  FtDtype dtype;
  const void* choice_bias;
  FtDtype choice_bias_dtype;
  int64_t group_top;
  int32_t sigmoid;
  float weight_scale;
} FtRoute;

// d_logits [rows, experts] from the gradient d_weights [rows, per_token] and from the
// load-balancing loss. That loss is the mean over groups of R = balance_rows rows of balance *
// experts / (R per_token) * sum over e of balance_counts[e] * mean over the group's rows of
// probs[row, e]
// (Fedus et al. 2022, eq. 4 to 6). Counts are constants in it. With sigmoid != 0 each row's probs
// are first divided by their sum (DeepSeek-AI 2024b, eq. 17 to 20).
typedef struct FtRouteBackward {
  const float* probs;
  const float* weights;
  const int32_t* chosen;
  const int32_t* balance_counts;
  const float* d_weights;
  void* d_logits;
  int64_t rows, experts, per_token, balance_rows;
  float balance;
  int32_t softmax_first;
  FtDtype dtype;
  int32_t sigmoid;
  float weight_scale;
  const float* loss_scale;  // balance is multiplied by 2^loss_scale[0]; NULL: by 1
} FtRouteBackward;

// loads[e] += number of times that `chosen` [rows, per_token] contains e. Values outside [0,
// experts) are ignored.
typedef struct FtCountChoices {
  const int32_t* chosen;
  float* loads;
  int64_t rows, experts, per_token;
} FtCountChoices;

// bias[e] += rate if loads[e] is below the mean load, -= rate if it is above. Then sets loads to 0
// (DeepSeek-AI 2024b, s. 2.1.2).
typedef struct FtBalanceBias {
  float* loads;
  float* bias;
  int64_t experts;
  float rate;
} FtBalanceBias;

// y[rows, cols] (+)= x * sigmoid(scores[row]); scores are fp32.
typedef struct FtGateForward {
  const void* x;
  const float* scores;
  void* y;
  int64_t rows, cols;
  int32_t accumulate;
  FtDtype dtype;
} FtGateForward;

// Gradient of FtGateForward without accumulate: dx = dy * s and d_scores[row] = s (1 - s) * sum
// over the row of dy x, with s = sigmoid(scores[row]).
typedef struct FtGateBackward {
  const void* dy;
  const void* x;
  const float* scores;
  void* dx;
  float* d_scores;
  int64_t rows, cols;
  FtDtype dtype;
} FtGateBackward;

// out[r] = weights[sources[r]] * x[sources[r] / per_token]; 0 if sources[r] is -1. weights NULL: 1.
// x [tokens, cols], out [expert_rows, cols].
typedef struct FtExpertGather {
  const void* x;
  const int32_t* sources;
  const float* weights;
  void* out;
  int64_t tokens, expert_rows, cols, per_token;
  FtDtype dtype;
} FtExpertGather;

// out[t] = sum over j of weights[t, j] * x[places[t, j]], in order of j, without pairs whose place
// is -1. weights NULL: 1. x [expert_rows, cols], out [tokens, cols].
typedef struct FtExpertCombine {
  const void* x;
  const int32_t* places;
  const float* weights;
  void* out;
  int64_t tokens, expert_rows, cols, per_token;
  FtDtype dtype;
} FtExpertCombine;

// out[t, j] = dot product of dy[t] and x[places[t, j]]; 0 if the place is -1. This is the gradient
// of the weights.
typedef struct FtExpertDots {
  const void* dy;
  const void* x;
  const int32_t* places;
  float* out;
  int64_t tokens, expert_rows, cols, per_token;
  FtDtype dtype;
} FtExpertDots;

// One linear per expert, w[experts, out, in], on consecutive rows. The rows form `groups` runs, and
// run g belongs to expert g % experts. If counts is NULL, all runs have equal length. Otherwise run
// g has counts[g] rows, and the runs add up to `rows`. If count_stride > 0, run g has counts[g /
// experts * count_stride + g % experts] rows, and rows after the last run are left alone.
//   FT_GROUPED_FORWARD  y[rows, out] = x[rows, in] w^T     a = x, b = w, c = y
//   FT_GROUPED_INPUT    dx[rows, in] = dy[rows, out] w     a = dy, b = w, c = dx
//   FT_GROUPED_WEIGHT   dw (+)= dy^T x                     a = dy, b = x, c = dw
typedef enum FtGroupedMode {
  FT_GROUPED_FORWARD = 0,
  FT_GROUPED_INPUT = 1,
  FT_GROUPED_WEIGHT = 2
} FtGroupedMode;
typedef struct FtGroupedGemm {
  const void* a;
  const void* b;
  void* c;
  const int32_t* counts;
  int64_t rows, out, in, experts, groups, count_stride;
  FtGroupedMode mode;
  int32_t accumulate;
  FtDtype dtype;
  FtDtype c_dtype;
  FtDtype compute;       // as in FtGemm
  const float* a_scale;  // as in FtGemm, for all rows
  const float* b_scale;  // for all rows, or for w as [experts * out, in]
  FtScaling a_scaling, b_scaling;
} FtGroupedGemm;

// x[rows, cols] += scale * bias[experts, cols] of the run's expert. The gradient is
// bias_grad[experts, cols] (+)= sum over the rows of its runs of dy. Runs are as in FtGroupedGemm.
typedef struct FtExpertBias {
  void* x;
  const void* bias;
  const int32_t* counts;
  int64_t rows, cols, experts, groups, count_stride;
  float scale;
  FtDtype dtype;
  FtDtype bias_dtype;
} FtExpertBias;

typedef struct FtExpertBiasGrad {
  const void* dy;
  void* bias_grad;
  const int32_t* counts;
  int64_t rows, cols, experts, groups, count_stride;
  int32_t accumulate;
  FtDtype dtype;
  FtDtype grad_dtype;
} FtExpertBiasGrad;

// out[0] (+)= sum of squares. The sum is in fp64, out is fp32.
typedef struct FtSquaredNorm {
  const void* x;
  float* out;
  int64_t elements;
  int32_t accumulate;
  FtDtype dtype;
} FtSquaredNorm;

// AdamW with decoupled weight decay (Loshchilov and Hutter 2019) on `elements` elements; only the
// first `decayed` of them decay. squared_norm is the global squared norm of `grad`; NULL: no
// clipping. With n = sqrt(squared_norm) / loss_scale, g is scaled by min(1, max_norm / (n + 1e-6))
// / loss_scale. not_finite is found_inf: if it is not 0, or if squared_norm is infinite or NaN,
// nothing is written. skipped is the number of earlier skipped steps, which bias correction does
// not count. Both may be NULL. loss_scale is multiplied by 2^loss_scale_state[0], as FtScaleLoss
// leaves it; NULL: by 1.
//
// moments: FT_F32; FT_BF16, rounded to nearest even; or FT_I8, block-wise 8-bit (Dettmers et al.
// 2022, s. 2). FT_I8 stores moment1 in the signed and sqrt(moment2) in the unsigned dynamic code of
// base/numeric/number_formats.h. Codes are relative to the largest value of each FT_SCALE_BLOCK
// elements, which absmax1 and absmax2 hold.
//
// noise: if not 0, param is rounded to bf16 values by StochasticBf16 with this seed
// (base/numeric/number_formats.h). It is for weights without a master copy.
typedef struct FtAdamW {
  void* param;
  const void* grad;
  void* moment1;
  void* moment2;
  float* absmax1;  // [elements / FT_SCALE_BLOCK, rounded up]; FT_I8 only
  float* absmax2;
  const float* squared_norm;
  const float* not_finite;
  const float* skipped;
  int64_t elements, decayed, step;  // step counts from 1
  float lr, beta1, beta2, epsilon, weight_decay, max_norm;
  float loss_scale;  // 0 means 1
  FtDtype moments;
  FtDtype dtype;  // format of param
  FtDtype grad_dtype;
  FtDtype weights_dtype;
  void* weights;  // copy of param in weights_dtype, written with it; NULL: not wanted
  const float* loss_scale_state;
  uint32_t noise;
} FtAdamW;

// param -= lr * (g + weight_decay * param). Decay and the other arguments are as in FtAdamW.
typedef struct FtSgd {
  void* param;
  const void* grad;
  const float* squared_norm;
  const float* not_finite;
  int64_t elements, decayed;
  float lr, weight_decay, max_norm, loss_scale;
  FtDtype dtype;
  FtDtype grad_dtype;
  FtDtype weights_dtype;
  void* weights;
  const float* loss_scale_state;
  uint32_t noise;
} FtSgd;

// Updates with one moment. With g the gradient, scaled as in FtAdamW, and u the step:
//
//   momentum   moment1 = beta1 moment1 + g                             u = moment1
//   lion       u = sign(beta1 moment1 + (1 - beta1) g)                 (Chen et al. 2023, alg. 2)
//              moment1 = beta2 moment1 + (1 - beta2) g
//
// then param -= lr * (u + weight_decay * param): the decay stays out of the moment (Loshchilov and
// Hutter 2019). sign(0) is 0, sign(NaN) is NaN. moments: FT_F32 or FT_BF16. Decay and the other
// arguments are as in FtAdamW.
typedef struct FtMomentum {
  void* param;
  const void* grad;
  void* moment1;
  const float* squared_norm;
  const float* not_finite;
  int64_t elements, decayed;
  float lr, beta1, beta2, weight_decay, max_norm, loss_scale;
  FtDtype moments;
  FtDtype dtype;
  FtDtype grad_dtype;
  FtDtype weights_dtype;
  void* weights;
  const float* loss_scale_state;
  uint32_t noise;
} FtMomentum;

// An exponential moving average of parameters: average += rate (param - average). The rate is 1
// minus the decay: a decay near 1 would lose it in fp32.
typedef struct FtAverage {
  const void* param;
  float* average;
  int64_t elements;
  float rate;
  FtDtype dtype; /* of param */
} FtAverage;

// out = alpha f x + beta out. With beta 0, out is not read. With n = sqrt(squared_norm[0]), f is
//
//   1                             without squared_norm (NULL)
//   min(1, max_norm / (n + 1e-6)) with max_norm > 0: clips, as in FtAdamW
//   1 / (n + 1e-7)                with max_norm 0: normalizes
//
// With max_norm and beta above 0, a squared_norm that is not finite leaves `out` as it was.
typedef struct FtCombine {
  const void* x;
  float* out;
  const float* squared_norm;
  int64_t elements;
  float alpha, beta, max_norm;
  FtDtype x_dtype;
} FtCombine;

// Adafactor (Shazeer and Stern 2018) as in PyTorch's torch.optim.Adafactor, in four calls, because
// a tensor may lie on several ranks in parts. A part is `rows` x `cols` consecutive numbers: whole
// rows, or a range of one row. moment1 and moment2 are the factored second moment: means of squared
// gradients of each row and of each column of the whole tensor. A vector has one row and no moments
// of rows (NULL): moment2 holds its second moment. With t = `step`, counted from 1, and rms(x) =
// sqrt(mean of x^2), over the whole tensor:
//
//   alpha = max(1e-3, rms(param)) min(lr, 1 / sqrt(t))
//   moment += t^-0.8 (mean of g^2 - moment)          of rows, columns, or a vector's elements
//   v = moment1 moment2 / max(mean of moment1, e)    e = 2^-23; a vector: v = moment2
//   u = g / sqrt(max(v, e^2))
//   param = (1 - lr weight_decay) param - alpha u / max(1, rms(u))
//
// g is the gradient, clipped by squared_norm and max_norm as in FtAdamW. If squared_norm is
// infinite or NaN, nothing is written.
//
// factor_sums, on each part: row_sums[rows] and col_sums[cols] += g^2, param_squares[0] += param^2.
typedef struct FtFactorSums {
  const void* param;
  const void* grad;
  float* row_sums;
  float* col_sums;
  float* param_squares;
  const float* squared_norm;
  int64_t rows, cols;
  float max_norm;
  FtDtype dtype;
  FtDtype grad_dtype;
} FtFactorSums;

// The new moments of a whole tensor of `rows` x `cols`, from the sums over all its parts.
// row_mean[0] becomes the mean of moment1.
typedef struct FtFactorMoments {
  const float* row_sums;
  const float* col_sums;
  float* moment1;
  float* moment2;
  float* row_mean;
  const float* squared_norm;
  int64_t rows, cols, step;
} FtFactorMoments;

// factor_size, on each part: update_squares[0] += u^2; it reads grad and moments alone. adafactor:
// the update of a part, once update_squares is the sum over all parts. moment1 and moment2 are
// those of the part's rows and columns; the whole tensor has `inner` elements. The decay applies if
// `decays` != 0. noise and weights are as in FtAdamW.
typedef struct FtAdafactor {
  void* param;
  const void* grad;
  const float* moment1;
  const float* moment2;
  const float* row_mean;
  const float* param_squares;
  float* update_squares;
  const float* squared_norm;
  int64_t rows, cols, inner, step;
  float lr, weight_decay, max_norm;
  int32_t decays;
  FtDtype dtype;
  FtDtype grad_dtype;
  FtDtype weights_dtype;
  void* weights;
  uint32_t noise;
} FtAdafactor;

// Corrects an optimizer update that ran early, before the global norm was known. The update ran as
// `update` says, but with squared_norm_then and not_finite_then in place of its squared_norm and
// not_finite. The result is what `update` itself would have left; `grad` must be unchanged. If both
// scale the gradients alike, nothing is written. With g the scaled gradient, then and now, and u =
// lr * mean / (root of square + epsilon), in fp32:
//
//   moment1 += (1 - beta1) (g_now - g_then)      moment2 += (1 - beta2) (g_now^2 - g_then^2)
//   param   += u_then - u_now
//
// A step that must now be skipped is undone, up to rounding. A step that was skipped then and is
// not now is executed. moments must be FT_F32.
typedef struct FtAdamWAmend {
  FtAdamW update;
  const float* squared_norm_then;
  const float* not_finite_then;
} FtAdamWAmend;

typedef struct FtSgdAmend {
  FtSgd update;
  const float* squared_norm_then;
  const float* not_finite_then;
} FtSgdAmend;

// out[0] (+)= number of elements that are infinite or NaN.
typedef struct FtCountNotFinite {
  const void* x;
  float* out;
  int64_t elements;
  int32_t accumulate;
  FtDtype dtype;
} FtCountNotFinite;

// skipped[0] += 1 if not_finite[0] is not 0.
typedef struct FtCountSkipped {
  const float* not_finite;
  float* skipped;
} FtCountSkipped;

// Dynamic loss scaling (Micikevicius et al. 2018, s. 3.2; PyTorch's GradScaler). loss_scale[0] is
// the number of doublings of the scale minus the number of halvings. since[0] is the number of
// steps without infinities since the last change. If not_finite[0] is not 0: since = 0, and
// loss_scale -= 1 if `initial` times 2^loss_scale stays at 1 or more. Otherwise since += 1; when it
// reaches growth_interval, loss_scale += 1 and since = 0.
typedef struct FtScaleLoss {
  const float* not_finite;
  float* loss_scale;
  float* since;
  float initial;
  int64_t growth_interval;
} FtScaleLoss;

// Converts elements of `dtype` to `format` and back, in `pieces` pieces of elements / pieces each.
// A quantized piece holds its codes and, for FT_FP8 and FT_I8, then the fp32 scales of its blocks.
// A value is code * scale; the largest |x| of a block gets the largest code, 448 or 127. FT_BF16
// and FT_F16 have no scales. FT_NF4 is one piece in the layout of base/numeric/nf4.h. Rounds to
// nearest, ties to even. If a block has a value that is not finite, none of its values is finite.
// If a block has none above 1e-35, it becomes zeros.
typedef struct FtQuantize {
  const void* x;
  void* out;
  int64_t elements, pieces;
  FtDtype format;
  FtDtype dtype;
} FtQuantize;

// Quantizes x[rows, cols] to `format`, FT_FP8 or FT_E5M2, with scales as in `scaling`. A value is
// code * scale; the largest |x| that shares a scale gets the largest code, 448 or 57,344. Rounds to
// nearest, ties to even. out [rows, cols] and transposed[cols, rows] receive the codes; either may
// be NULL. absmax receives the largest |x|; NULL: not wanted. With keep_scale != 0, scale[0] is
// read instead of written (delayed scaling), and larger values saturate at the largest code. If a
// value is not finite, absmax is not finite and the scale is infinite, so that no product of the
// codes is finite. absmax, transposed and keep_scale require FT_SCALE_TENSOR. If dtype is FT_FP8, x
// holds codes with scales x_scale, shared as x_scaling says; NULL: 1.
typedef struct FtQuantizeTensor {
  const void* x;
  void* out;
  void* transposed;
  float* scale;
  float* absmax;
  int64_t rows, cols;
  int32_t keep_scale;
  FtDtype format;
  FtDtype dtype;
  FtScaling scaling, x_scaling;
  const float* x_scale;
} FtQuantizeTensor;

// out[i] = sources[0][i] + sources[1][i] + ... in that order, accumulated in fp32. With maximum !=
// 0 it is their maximum. out may be one of the sources.
typedef struct FtSumRanks {
  const void* const* sources;
  void* out;
  int64_t elements;
  int32_t count, maximum;
  FtDtype dtype;
} FtSumRanks;

// ---- the table

typedef struct FtMemory {
  int64_t free_bytes, total_bytes;
} FtMemory;

// One way in which the device's library can compute a product. The words are opaque and valid for
// one library version and one kind of device.
typedef struct FtGemmAlgorithm {
  uint64_t words[8];
} FtGemmAlgorithm;

// Kernels that compute attention over whole sequences. ANY_ORDER is the library's backward that
// adds blocks of keys to dq in order of arrival: bits differ from run to run.
typedef enum FtAttentionKernels {
  FT_ATTENTION_OWN = 0,
  FT_ATTENTION_LIBRARY = 1,
  FT_ATTENTION_LIBRARY_ANY_ORDER = 2
} FtAttentionKernels;

// Own kernels for tensor cores. WGMMA: those with bulk copies and products of warpgroups, for
// compute capability 9.0.
typedef enum FtTensorKernels { FT_TENSOR_MMA = 0, FT_TENSOR_WGMMA = 1 } FtTensorKernels;

// Kinds of records in the device's own recording. TAG and GRAPH_NODE have no time: they link calls
// to ops.
typedef enum FtActivityKind {
  FT_ACTIVITY_KERNEL = 0,
  FT_ACTIVITY_COPY = 1,
  FT_ACTIVITY_FILL = 2,
  FT_ACTIVITY_LAUNCH = 3,     // on the host: a call that gives the device work
  FT_ACTIVITY_WAIT = 4,       // on the host: a call that waits for the device
  FT_ACTIVITY_OVERHEAD = 5,   // on the host: time that the recording itself takes
  FT_ACTIVITY_TAG = 6,        // call `correlation` was made for this op, step and rank
  FT_ACTIVITY_GRAPH_NODE = 7  // node `graph_node` was made for this op and rank
} FtActivityKind;

// How a kernel was launched. All fields are 0 for other activities.
typedef struct FtKernelLaunch {
  int32_t grid[3], block[3];                          // blocks and threads in x, y, z
  int32_t registers;                                  // of a thread
  int32_t static_shared_bytes, dynamic_shared_bytes;  // of a block
} FtKernelLaunch;

typedef struct FtActivity {
  int64_t start_ns, end_ns;  // on the clock of capture_clock; 0 if no time was taken
  int64_t op_id;             // tags and nodes only
  int64_t bytes;             // copies and fills only
  uint64_t correlation;      // equal for a call and the device work it started; 0: none
  uint64_t graph_node;       // for work that a graph launched; 0: none
  const char* name;          // kernel or call; lives as long as the device; NULL if unknown
  int32_t kind;              // FtActivityKind
  int32_t step, rank;        // tags: both; nodes: the rank only
  int32_t device, stream;
  FtKernelLaunch launch;
} FtActivity;

// A hardware counter's value over one interval of its sampling.
typedef struct FtCounterSample {
  int64_t start_ns;  // of the interval, on the clock of capture_clock
  double value;      // in the unit that the name ends in
  const char* name;  // lives as long as the device
  int32_t device;
} FtCounterSample;

// Names the op that a thread is about to launch work for.
typedef struct FtOpTag {
  int64_t op_id;
  int32_t step, rank;
  const char* name;  // range name for other tools; NULL: no range
} FtOpTag;

// LAUNCHES records tags, launches and waits. FULL adds kernels, copies and fills.
typedef enum FtCaptureLevel { FT_CAPTURE_LAUNCHES = 1, FT_CAPTURE_FULL = 2 } FtCaptureLevel;

typedef struct FtDeviceApi {
  int32_t version;       // FT_DEVICE_API_VERSION
  int32_t asynchronous;  // 0: an entry's work is done when it returns; the caller provides the
                         // queue's thread
  const char* name;      // "cpu", "cuda"

  // device: if the status is not FT_OK, `why` receives a sentence of at most n bytes.
  FtStatus (*device_count)(int32_t* count, char* why, size_t n);
  FtStatus (*memory)(int32_t device, FtMemory* out, char* why, size_t n);
  FtStatus (*allocate)(int32_t device, int64_t bytes, void** out, char* why, size_t n);
  FtStatus (*release)(int32_t device, void* pointer, char* why, size_t n);
  FtStatus (*queue_create)(int32_t device, FtQueue** out, char* why, size_t n);
  void (*queue_destroy)(FtQueue* queue);
  // Text of its last failed call; the address is fixed.
  const char* (*queue_error)(const FtQueue* queue);
  FtStatus (*queue_synchronize)(FtQueue* queue);
  // timed != 0: event_elapsed accepts the event.
  FtStatus (*event_create)(int32_t device, int32_t timed, FtEvent** out, char* why, size_t n);
  void (*event_destroy)(FtEvent* event);
  FtStatus (*event_record)(FtQueue* queue, FtEvent* event);
  FtStatus (*event_wait)(FtQueue* queue, FtEvent* event);
  FtStatus (*copy)(FtQueue* queue, void* to, const void* from, int64_t bytes);
  FtStatus (*fill)(FtQueue* queue, void* to, int32_t byte_value, int64_t bytes);

  // Entries of asynchronous devices only; NULL elsewhere and if the device lacks the feature.
  //
  // Allocates what kernel entries of this queue need besides their tensors, so that none of them
  // allocates later, beside other queues' work.
  FtStatus (*queue_reserve)(FtQueue* queue);
  // *done = 1 if all work before the event's last record has ended, else 0. Fails if the device has
  // failed since.
  FtStatus (*event_query)(FtEvent* event, int32_t* done, char* why, size_t n);
  // Nanoseconds from the last record of `from` to that of `to`; may be negative. Both must have
  // ended.
  FtStatus (*event_elapsed)(FtEvent* from, FtEvent* to, int64_t* ns, char* why, size_t n);
  // Pinned host memory, which copies reach while other work runs. If NULL, plain memory is used.
  FtStatus (*host_allocate)(int32_t device, int64_t bytes, void** out, char* why, size_t n);
  FtStatus (*host_release)(int32_t device, void* pointer, char* why, size_t n);
  // The queue's handle for device libraries: a cudaStream_t.
  void* (*native_queue)(FtQueue* queue);
  // Splits the device into `count` disjoint shares of at least `multiprocessors` each. *each
  // receives the size of a share, rounded up to the device's granularity. A queue made in a share
  // runs only there.
  FtStatus (*shares_create)(int32_t device, int32_t count, int32_t multiprocessors, FtShare** out,
                            int32_t* each, char* why, size_t n);
  void (*share_destroy)(FtShare* share);
  FtStatus (*queue_create_in)(FtShare* share, FtQueue** out, char* why, size_t n);

  // kernels
  int32_t (*supports)(FtKernel kernel, FtDtype dtype);
#define FT_KERNEL_MEMBER(NAME, entry, Arguments) FtStatus (*entry)(FtQueue*, const Arguments*);
  FT_KERNEL_ENTRIES(FT_KERNEL_MEMBER)
#undef FT_KERNEL_MEMBER

  // GEMM algorithms, for devices whose library offers several; all three are NULL elsewhere.
  //
  // Library and version as one word of at most n - 1 characters: "cublasLt-130100".
  FtStatus (*gemm_library)(char* name, size_t n);
  // At most `capacity` algorithms for products like `g`, the library's own choice first. `g`'s
  // pointers only tell which operands exist and how they are aligned; nothing is read or written.
  FtStatus (*gemm_algorithms)(FtQueue*, const FtGemm* g, FtGemmAlgorithm* out, int32_t capacity,
                              int32_t* count);
  // Makes the queue compute products like `g` with this algorithm from now on. FT_UNSUPPORTED, with
  // a sentence, if the library refuses it; the library's own choice then stays.
  FtStatus (*gemm_use)(FtQueue*, const FtGemm* g, const FtGemmAlgorithm* algorithm);

  // Makes the queue compute calls of an entry with these kernels from now on, where they can.
  // FT_UNSUPPORTED, with a sentence, if the device or the entry has none. NULL if there is no
  // choice.
  FtStatus (*tensor_use)(FtQueue*, FtKernel kernel, FtTensorKernels kernels);

  // Library attention: the device looks for the library on the first call. All three are NULL
  // elsewhere.
  //
  // Library and version as one word of at most n - 1 characters: "cudnn-91900". FT_UNSUPPORTED,
  // with a sentence of at most why_n bytes, if no usable library is found.
  FtStatus (*attention_library)(char* name, size_t n, char* why, size_t why_n);
  // Makes the queue compute calls like `g` (sizes, format, scale) with these kernels from now on.
  // The library may compile its kernels first, which takes seconds. Pointers are ignored.
  // FT_UNSUPPORTED, with a sentence, if the library cannot compute them; nothing changes then.
  FtStatus (*attention_forward_use)(FtQueue*, const FtAttentionForward* g,
                                    FtAttentionKernels kernels);
  FtStatus (*attention_backward_use)(FtQueue*, const FtAttentionBackward* g,
                                     FtAttentionKernels kernels);

  // capture: NULL if host clocks are the measurement. Launching threads call push and pop; one
  // thread at a time calls the others.
  //
  // capture_open comes first, before any queue is made. FT_UNSUPPORTED: there will be no records,
  // for the reason in `why`. The other entries may still be called, so that other tools see windows
  // and ranges.
  FtStatus (*capture_open)(int32_t level, char* why, size_t n);
  FtStatus (*capture_start)(char* why, size_t n);  // opens a window of steps
  FtStatus (*capture_stop)(char* why,
                           size_t n);  // closes it; records that ended in it can be drained
  FtStatus (*capture_clock)(int64_t* now_ns, char* why, size_t n);
  int32_t (*capture_wants_names)(void);  // 1 if a tool that shows tag names is attached
  FtStatus (*capture_push)(const FtOpTag* tag);
  FtStatus (*capture_pop)(void);
  // Moves at most `capacity` records out, unordered. *dropped is the number of records lost since
  // the last call. idle != 0 promises that nothing runs on the device, so that all records are
  // complete.
  FtStatus (*capture_drain)(int32_t idle, FtActivity* out, int64_t capacity, int64_t* count,
                            int64_t* dropped, char* why, size_t n);

  // counters: hardware counters that devices sample by themselves; all NULL if they cannot. Called
  // only after capture_open returned FT_OK, by one thread at a time.
  //
  // Prepares sampling of `count` devices every interval_ns. Once in a process. FT_UNSUPPORTED:
  // there will be no samples, for the reason in `why`, and no other entry may be called.
  FtStatus (*counters_open)(const int32_t* devices, int32_t count, int64_t interval_ns, char* why,
                            size_t n);
  FtStatus (*counters_start)(char* why, size_t n);
  FtStatus (*counters_stop)(char* why, size_t n);  // samples taken before it can be drained
  // Moves at most `capacity` values out, those of a device in order of time.
  FtStatus (*counters_drain)(FtCounterSample* out, int64_t capacity, int64_t* count, char* why,
                             size_t n);

  // graphs: work of one queue that is launched repeatedly; all NULL if the device has none.
  //
  // From graph_begin to graph_end, kernels, copies and fills that this thread gives the queue are
  // recorded, not executed. Their arguments are fixed at the call. Nothing else may be called on
  // the queue meanwhile.
  FtStatus (*graph_begin)(FtQueue* queue);
  // *out receives the recorded graph, or NULL on failure. Either way the queue executes work again.
  FtStatus (*graph_end)(FtQueue* queue, FtGraph** out);
  // Runs the whole graph after the work already in the queue.
  FtStatus (*graph_launch)(FtQueue* queue, FtGraph* graph);
  void (*graph_destroy)(FtGraph* graph);  // work that is running still ends
} FtDeviceApi;

#ifdef __cplusplus
}
#endif

#endif  // FORETRAIN_BASE_DEVICE_API_H_
