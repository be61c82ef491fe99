// The one seam between the program's executor and a device: a C struct of function pointers with
// plain data only. kernels/cpu fills it statically, a plugin fills it for CUDA, tests fill it with
// a mock that fails the n-th call. Leaves out order, memory plans and ids: they lie above the
// table, once for every device. Longer than other headers, because a plugin's whole contract stands
// in one file.
//
// Every entry returns FT_OK or another FtStatus and, when it fails, a sentence in `queue`'s text
// buffer or in the caller's. Pointers are device pointers. Tensors are dense row-major; a row
// stride is given in elements where a tensor is a slice of a wider one. No entry allocates, throws
// or keeps a pointer after the work is done.
#ifndef FORETRAIN_BASE_DEVICE_API_H_
#define FORETRAIN_BASE_DEVICE_API_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { FT_DEVICE_API_VERSION = 14 };

typedef enum FtStatus {
  FT_OK = 0,
  FT_UNSUPPORTED = 1,
  FT_OUT_OF_MEMORY = 2,
  FT_FAILED = 3
} FtStatus;

// FT_FP8 (e4m3), FT_I8 and FT_NF4 are formats of storage: see FtAdamW and FtQuantize; FT_U8 that of
// masks. FT_E5M2 is that of gradients in 8 bits. FT_TF32 is what products read of fp32, 10 bits of
// mantissa: no tensor is stored in it. `supports` is asked of it, and of FT_FP8 and FT_E5M2, for
// products that compute in them.
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

// Numbers that share one fp32 scale in FT_FP8 and FT_I8; the last block of a tensor may be shorter.
enum { FT_SCALE_BLOCK = 256 };

// Which codes of a matrix [rows, cols], as it is stored, share an fp32 scale: all of them, or each
// FT_SCALE_SIDE of a row (scales [rows, cols / side]), of a column (scales [rows / side, cols]), or
// each square of so many (scales [rows / side, cols / side]); quotients are rounded up.
typedef enum FtScaling {
  FT_SCALE_TENSOR = 0,
  FT_SCALE_ROWS = 1,
  FT_SCALE_COLUMNS = 2,
  FT_SCALE_TILES = 3
} FtScaling;
enum { FT_SCALE_SIDE = 128 };

// One per kernel entry below, in the same order: the argument of `supports`.
typedef enum FtKernel {
  FT_KERNEL_GEMM,
  FT_KERNEL_BIAS_GRAD,
  FT_KERNEL_EMBEDDING_FORWARD,
  FT_KERNEL_EMBEDDING_BACKWARD,
  FT_KERNEL_NORM_FORWARD,
  FT_KERNEL_NORM_BACKWARD_INPUT,
  FT_KERNEL_NORM_BACKWARD_WEIGHT,
  FT_KERNEL_ROPE,
  FT_KERNEL_ATTENTION_FORWARD,
  FT_KERNEL_ATTENTION_BACKWARD,
  FT_KERNEL_GELU_FORWARD,
  FT_KERNEL_GELU_BACKWARD,
  FT_KERNEL_SWIGLU_FORWARD,
  FT_KERNEL_SWIGLU_BACKWARD,
  FT_KERNEL_ADD,
  FT_KERNEL_ADD_NORM_FORWARD,
  FT_KERNEL_CROSS_ENTROPY_FORWARD,
  FT_KERNEL_CROSS_ENTROPY_BACKWARD,
  FT_KERNEL_VOCAB_MAX,
  FT_KERNEL_VOCAB_SUMS,
  FT_KERNEL_VOCAB_LOSS,
  FT_KERNEL_ROUTE,
  FT_KERNEL_ROUTE_BACKWARD,
  FT_KERNEL_EXPERT_GATHER,
  FT_KERNEL_EXPERT_COMBINE,
  FT_KERNEL_EXPERT_DOTS,
  FT_KERNEL_GROUPED_GEMM,
  FT_KERNEL_SQUARED_NORM,
  FT_KERNEL_ADAMW,
  FT_KERNEL_SGD,
  FT_KERNEL_ADAMW_AMEND,
  FT_KERNEL_SGD_AMEND,
  FT_KERNEL_COUNT_NOT_FINITE,
  FT_KERNEL_COUNT_SKIPPED,
  FT_KERNEL_QUANTIZE,
  FT_KERNEL_DEQUANTIZE,
  FT_KERNEL_SUM_RANKS,
  FT_KERNEL_ATTENTION_PART_FORWARD,
  FT_KERNEL_ATTENTION_PART_BACKWARD,
  FT_KERNEL_COPY_ROWS,
  FT_KERNEL_HEAD_NORM_FORWARD,
  FT_KERNEL_HEAD_NORM_BACKWARD_INPUT,
  FT_KERNEL_HEAD_NORM_BACKWARD_WEIGHT,
  FT_KERNEL_SOFTCAP,
  FT_KERNEL_LATENT_HEADS,
  FT_KERNEL_SINK_FORWARD,
  FT_KERNEL_SINK_BACKWARD,
  FT_KERNEL_SHIFT_TARGETS,
  FT_KERNEL_EXPERT_BIAS,
  FT_KERNEL_EXPERT_BIAS_GRAD,
  FT_KERNEL_DROPOUT,
  FT_KERNEL_DROPOUT_BACKWARD,
  FT_KERNEL_STANDARD_ATTENTION_FORWARD,
  FT_KERNEL_STANDARD_ATTENTION_BACKWARD,
  FT_KERNEL_GATE_FORWARD,
  FT_KERNEL_GATE_BACKWARD,
  FT_KERNEL_COUNT_CHOICES,
  FT_KERNEL_BALANCE_BIAS,
  FT_KERNEL_SCALE_LOSS,
  FT_KERNEL_QUANTIZE_TENSOR,
  FT_KERNEL_COUNT
} FtKernel;

typedef struct FtQueue FtQueue;  // a stream, or the scratch memory of a host thread
typedef struct FtEvent FtEvent;
typedef struct FtShare FtShare;  // some of a device's multiprocessors
typedef struct FtGraph FtGraph;  // work of a queue that is given as one

// ---- kernels: arguments. `accumulate` != 0 adds to the output, 0 overwrites it. `dtype` is that
// of all tensors but those that have one of their own (`c_dtype`, ...) and those of a C type.
// Kernels compute in fp32 and round what they store to nearest, halves to even.
// -------------------------------------

// `rows` rows from `row` on, at positions of their sequence from `position` on: a piece of a
// sequence that is shared out. Arrays of runs lie in host memory.
typedef struct FtRun {
  int64_t row, position, rows;
} FtRun;

// What dropout keeps: the number at column c of row r of head h of sample s where word c % 4 of the
// Philox4x32-10 block (Salmon et al. 2011) of counter (c / 4, r, s, h) and of `key` is at least
// probability * 2^32. What is kept is divided by 1 - probability. Positions of tokens are rows, and
// of keys columns; samples and heads are counted from the first ones of the call, so that whoever
// has a number draws the same for it. probability 0: all is kept.
typedef struct FtRandomMask {
  uint64_t key;
  int64_t first_sample, first_head;
  float probability;
} FtRandomMask;

// What FtGelu and the epilogues of FtGemm compute: GELU in its tanh form or with erf, max(x, 0), or
// its square.
typedef enum FtActivation {
  FT_GELU_TANH = 0,
  FT_GELU_ERF = 1,
  FT_RELU = 2,
  FT_SQUARED_RELU = 3
} FtActivation;

// What becomes of y = scale * op(a) op(b) + bias, in fp32, before it is stored.
typedef enum FtEpilogue {
  FT_EPILOGUE_NONE = 0,      // c (+)= y
  FT_EPILOGUE_ACTIVATE = 1,  // aux = y, c = f(y)
  FT_EPILOGUE_SLOPE = 2      // c = y * f'(aux)
} FtEpilogue;

// c[m, n] (+)= scale * op(a)[m, k] * op(b)[k, n] + bias[n]; op transposes where trans_* != 0; bias
// may be NULL; a scale of 0 is 1.
//
// compute: FT_F32; or, with dtype FT_F32, FT_TF32: 10 bits of the operands' mantissas are read, the
// nearest, halves to even. A library of the device may read them otherwise: at most the last of the
// 10 is lost. Sums are fp32.
//
// dtype FT_FP8, FT_E5M2: a is in that format and b in FT_FP8; a number is its code times its scale,
// of a_scale or b_scale, which lie with the tensors; NULL: 1. a_scaling and b_scaling say which it
// is; with another than FT_SCALE_TENSOR the matrix is dense.
//
// epilogue: f is `activation`; aux[m, n] of c_dtype, ld_aux its row stride; NULL with ACTIVATE: y
// is not kept. With one, accumulate must be 0.
//
// row_sums[m] (+)= sum over k of op(a), as it is stored; NULL: not wanted. Where c is the gradient
// of a weight, these are that of its bias. Without bias, epilogue and scales alone.
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

// out[rows, cols] = scale * table[ids[row]] + positions[(first_row + row) % sequence]; positions
// may be NULL; a scale of 0 is 1. Where `runs` is not NULL they hold the `sequence` rows of a
// sample in order, and the positions count. With all_ids > 0 the table holds ids [first_id,
// first_id + vocab) of that many, and a row of another id is 0.
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
  FtDtype table_dtype;  // of positions too
  float scale;
} FtEmbeddingForward;

// table_grad[vocab, cols] (+)= scale * scatter of dy by ids; positions_grad[sequence, cols] (+)=
// sum over batch, NULL if none. With `runs`, as in the forward, it is added to at their positions
// and must be accumulated to. first_id, all_ids: as above; rows of other ids leave the table alone.
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
} FtEmbeddingBackward;

// LayerNorm (rms == 0): y = (x - mean) * rstd * weight + bias. RMSNorm (rms == 1): y = x * rstd *
// weight; mean, bias NULL. mean, rstd: [rows] fp32.
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
  FtDtype weight_dtype;  // of bias too
} FtNormForward;

// dx[rows, cols] = gradient of the norm's input + residual[rows, cols]; residual may be NULL, and
// may be dx itself.
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

// weight_grad[cols], bias_grad[cols] (+)= ...; bias_grad NULL for RMSNorm and where there is no
// bias.
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

// RMSNorm of each head of the queries, `heads` of head_dim at the start of a row, and of the keys,
// the kv_heads behind them, in place: x = x * rstd * weight with one weight [head_dim] for queries
// and one for keys. kept [rows, (heads + kv_heads) * head_dim] gets what was there before, rstd
// [rows, heads + kv_heads].
typedef struct FtHeadNormForward {
  void* data;
  const void* q_weight;
  const void* k_weight;
  void* kept;
  float* rstd;
  int64_t rows, row_stride;
  int32_t heads, kv_heads, head_dim;
  float epsilon;
  FtDtype dtype;
} FtHeadNormForward;

// The gradient of the forward's output becomes that of its input, in place. x: what the forward
// kept. kept_grad, laid out like x, gets what was there before; NULL: nothing does.
typedef struct FtHeadNormBackwardInput {
  void* grad;
  const void* x;
  const float* rstd;
  const void* q_weight;
  const void* k_weight;
  void* kept_grad;
  int64_t rows, row_stride;
  int32_t heads, kv_heads, head_dim;
  FtDtype dtype;
} FtHeadNormBackwardInput;

// q_weight_grad[head_dim] (+)= sum over rows and heads of dy * x * rstd; keys alike. dy: kept_grad.
typedef struct FtHeadNormBackwardWeight {
  const void* dy;
  const void* x;
  const float* rstd;
  void* q_weight_grad;
  void* k_weight_grad;
  int64_t rows;
  int32_t heads, kv_heads, head_dim, accumulate;
  FtDtype dtype;
} FtHeadNormBackwardWeight;

// How rotary frequencies f of pairs i are stretched:
//   LINEAR  f / factor
//   YARN    f / factor * r + f (1 - r), r = (i - low) / (high - low) clamped to [0, 1]
//   LLAMA3  with w = 2 pi / f: f / factor where w > original / low, f where w < original / high,
//           else f / factor * (1 - r) + f r, r = (original / w - low) / (high - low)
typedef enum FtRopeStretch {
  FT_ROPE_PLAIN = 0,
  FT_ROPE_LINEAR = 1,
  FT_ROPE_YARN = 2,
  FT_ROPE_LLAMA3 = 3
} FtRopeStretch;

// Rotates the first `heads` heads of each row in place, halves split as in Llama: (x1, x2) -> (x1 c
// - x2 s, x2 c + x1 s) with angle (row % sequence) * theta^(-2 i / head_dim). inverse != 0 rotates
// back (the backward pass). Where `runs` is not NULL they hold the `sequence` rows of a sample in
// order, and their positions count. Heads lie head_stride elements apart, 0: head_dim; where that
// is more, the rest of a head stays as it is. Sines and cosines are multiplied by magnitude, 0: 1.
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
} FtRope;

// Heads of latent attention, put together: q [rows, heads * head_dim], kv [rows, heads * (head_dim
// - rotary + value_dim)], by head what is not turned of its key and then its value, and the turned
// key [rows, rotary] of all heads, to qkv [rows, heads * (2 head_dim + value_dim)] of all queries,
// keys and values; the last `rotary` of a head's head_dim are turned. inverse != 0: from the
// gradient of qkv to those of the three, the turned key's summed over the heads.
typedef struct FtLatentHeads {
  void* q;
  void* kv;
  void* turned_key;
  void* qkv;
  int64_t rows;
  int32_t heads, head_dim, rotary, value_dim, inverse;
  FtDtype dtype;
} FtLatentHeads;

// A learned score a head, sinks[heads], that takes part in the softmax with a value of 0. Forward,
// behind attention without it: out [rows, heads * head_dim] *= 1 / (1 + e^(sink - lse)), lse [rows,
// heads] = log(e^lse + e^sink). Backward, with those: sinks_grad[heads] (+)= - sum over rows of
// e^(sink - lse) * (dout . out).
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

// Causal attention over packed rows: q, k, v are slices of [batch * sequence, row_stride]; out
// [rows, heads * head_dim]; lse [rows, heads] fp32 (log of the sum of exponentials of the scaled
// scores). Query head h reads key head h / (heads / kv_heads). A scale of 0 is 1 / sqrt(head_dim).
// With window > 0 a query sees that many keys, itself and those before it; 0: all before it. Heads
// of v and out have value_dim elements, 0: head_dim. With softcap > 0 a score s becomes softcap *
// tanh(s / softcap). With alibi_heads > 0 the distance times the slope of head first_head + h of so
// many (Press et al. 2022, s. 3) is taken from each score.
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
  FtRandomMask random;  // of the weights
} FtAttentionForward;

// dq, dk, dv: slices laid out like q, k, v (same row_stride), overwritten.
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
  FtRandomMask random;  // of the weights
} FtAttentionBackward;

// One part of causal attention: queries of some runs of rows against keys of others, each against
// those at its own position and before. q [rows, q_stride], k and v [rows, kv_stride], out and lse
// as above, by query row, `window` too. Runs name the rows of the first sample; those of sample b
// lie b * sample_rows further on. Forward with merge != 0: out and lse hold the result of earlier
// parts over other keys, and get that of both. A query without a key here keeps them, or has 0 and
// lse -inf.
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
  FtRandomMask random;  // of the weights
} FtAttentionPartForward;

// What flows to the queries and keys of a part; out and lse are those of all parts together. dq is
// laid out like q and added to where accumulate_dq != 0; dk, dv [rows, dkv_stride] are overwritten.
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
  FtRandomMask random;  // of the weights
} FtAttentionPartBackward;

// Causal attention whose scores are written out: scores, weights (their softmax, 0 past the query)
// and dropped (weights that `random` keeps, divided) [batch, heads, sequence, sequence], mask of
// bytes likewise. mask and dropped NULL: nothing is dropped; out NULL: the weights alone. All else
// as FtAttentionForward has it.
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
} FtStandardAttentionForward;

// dq, dk, dv from what the forward left; d_scores, as large as the weights, is written.
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

// to[row * to_stride + col] = from[row * from_stride + col] for rows x cols; they do not overlap.
typedef struct FtCopyRows {
  const void* from;
  void* to;
  int64_t rows, cols, from_stride, to_stride;
  FtDtype dtype;
} FtCopyRows;

// What FtSwiglu computes of the gate: silu, or GELU in its tanh form. CLAMPED is gpt-oss's, of
// both: g sigmoid(1.702 g) (u + 1), g = min(gate, 7) and u = up clamped to [-7, 7].
typedef enum FtGate { FT_GATE_SILU = 0, FT_GATE_GELU_TANH = 1, FT_GATE_CLAMPED = 2 } FtGate;

// Forward: y = f(x). Backward: dx = dy * f'(x); dx may be dy.
typedef struct FtGelu {
  const void* x;
  const void* dy;
  void* out;
  int64_t elements;
  FtDtype dtype;
  FtActivation activation;
} FtGelu;

// x[rows, 2 cols] holds gate then up. Forward: out[rows, cols] = f(gate) * up. Backward: out[rows,
// 2 cols] = dx.
typedef struct FtSwiglu {
  const void* x;
  const void* dy;
  void* out;
  int64_t rows, cols;
  FtDtype dtype;
  FtGate gate;
} FtSwiglu;

// x = cap * tanh(x / cap), in place.
typedef struct FtSoftcap {
  void* x;
  int64_t elements;
  float cap;
  FtDtype dtype;
} FtSoftcap;

// out[rows, cols] = residual + kept(x + bias[cols]), mask[rows, cols] = 1 where `random` keeps,
// else 0. Row r is that of token first_row + r of the call's samples, `sequence` tokens each; runs
// as in FtEmbeddingForward. bias, residual and mask may be NULL; out may be x or residual. Without
// x the mask alone is written.
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

// dx = dy / (1 - probability) where the mask is 1, else 0; dx may be dy.
typedef struct FtDropoutBackward {
  const void* dy;
  const uint8_t* mask;
  void* dx;
  int64_t elements;
  float probability;
  FtDtype dtype;
} FtDropoutBackward;

// out[rows, cols] = a + b + bias[cols]; bias may be NULL; out may be a or b.
typedef struct FtAdd {
  const void* a;
  const void* b;
  const void* bias;
  void* out;
  int64_t rows, cols;
  FtDtype dtype;
  FtDtype bias_dtype;
} FtAdd;

// sum[rows, cols] = a + b + bias, and the norm of sum as FtNormForward has it; bias may be NULL,
// sum may be a or b. Equal to the bit to the two kernels it stands for.
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
  FtDtype weight_dtype;  // of both biases too
} FtAddNormForward;

// loss[0] (+)= scale * sum over rows of (lse - logits[row, target]); lse [rows] fp32 is written. A
// target outside [0, vocab) adds nothing.
typedef struct FtCrossEntropyForward {
  const void* logits;
  const int32_t* targets;
  float* lse;
  float* loss;
  int64_t rows, vocab;
  float scale;
  int32_t accumulate;
  FtDtype dtype;
} FtCrossEntropyForward;

// dlogits = scale * (softmax(logits) - onehot(target)), in place over logits. With all_ids > 0 the
// columns are ids [first_id, first_id + vocab) of that many; columns past the last id become 0.
// With softcap > 0 the logits are those of FtSoftcap and the gradient is that of its input.
typedef struct FtCrossEntropyBackward {
  void* logits;
  const int32_t* targets;
  const float* lse;
  int64_t rows, vocab;
  int64_t first_id, all_ids;
  float scale;
  FtDtype dtype;
  float softcap;
  const float* loss_scale;  // scale is times 2^loss_scale[0]; NULL: 1
} FtCrossEntropyBackward;

// The loss where each rank has the columns of ids [first_id, first_id + vocab) of all_ids; columns
// past the last id count nowhere (Shoeybi et al. 2019, s. 3). Three steps, with collectives
// between. max[row]: of this rank's columns, -infinity where it has none.
typedef struct FtVocabMax {
  const void* logits;
  float* max;
  int64_t rows, vocab, first_id, all_ids;
  FtDtype dtype;
} FtVocabMax;

// sum[row]: of exp(logit - max[row]) over this rank's columns. picked[row]: the target's logit
// where this rank has it, else 0.
typedef struct FtVocabSums {
  const void* logits;
  const int32_t* targets;
  const float* max;
  float* sum;
  float* picked;
  int64_t rows, vocab, first_id, all_ids;
  FtDtype dtype;
} FtVocabSums;

// From max, sum and picked of all ranks: lse = max + log(sum), loss[0] (+)= scale * sum over rows
// of (lse - picked). A target outside [0, all_ids) adds nothing.
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

// out[row] = targets[row + 1], -1 in the last row of each sequence; they do not overlap.
typedef struct FtShiftTargets {
  const int32_t* targets;
  int32_t* out;
  int64_t rows, sequence;
} FtShiftTargets;

// ---- mixture of experts. A pair p = row * per_token + j is a token's j-th expert; an expert row
// is a place in the experts' input. The rows of one expert follow each other, in order of the
// pairs.

// From scores logits[rows, experts]: probs [rows, experts], their softmax; chosen [rows,
// per_token], the experts of the largest scores, the lower number first where they are equal;
// weights [rows, per_token], of the chosen: softmax over them alone, or with softmax_first != 0
// what probs says. With group_limit > 0 the experts are `expert_groups` equal groups, at most 64,
// of which a token's are in group_limit: those with the largest sums of group_top probs, 0:
// per_token / group_limit, at least of one (DeepSeek-AI 2024b, s. 2.1.2). With replay != 0 chosen
// is given. Weights are multiplied by weight_scale, 0: 1.
//
// With sigmoid != 0 probs are sigmoids of the scores, and weights those of the chosen divided by
// their sum; the choice, of groups too, is by probs + choice_bias [experts], which may be NULL.
//
// places [rows, per_token]: the pair's expert row; sources [expert rows]: the row's pair. Expert
// rows lie in `pieces`, and in each piece by expert. capacity 0: piece p has the pairs of rows
// [rows p / pieces, rows (p + 1) / pieces), counts [pieces, experts] are those of each expert.
// capacity > 0: an expert's pairs fill its ceil(capacity / pieces) rows of one piece after the
// other; a pair beyond the capacity has place -1, a row without a pair source -1; counts [experts]
// are all pairs.
//
// balance_counts [rows / balance_rows, experts]: pairs of each expert, of each balance_rows rows.
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

// d_logits [rows, experts] from the gradient d_weights [rows, per_token] of the weights, and from
// the load-balancing loss, the mean over groups of R = balance_rows rows of balance * experts / (R
// per_token) * sum over e of balance_counts[e] * mean over the group's rows of probs[row, e]
// (Fedus et al. 2022, eq. 4 to 6), in which counts are constants; with sigmoid != 0 of each row's
// probs divided by their sum (DeepSeek-AI 2024b, eq. 17 to 20).
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
  const float* loss_scale;  // balance is times 2^loss_scale[0]; NULL: 1
} FtRouteBackward;

// loads[e] += how often `chosen` [rows, per_token] has e; what is outside [0, experts) does not
// count.
typedef struct FtCountChoices {
  const int32_t* chosen;
  float* loads;
  int64_t rows, experts, per_token;
} FtCountChoices;

// bias[e] += rate where loads[e] is below the mean of all, -= rate where it is above; loads = 0
// then (DeepSeek-AI 2024b, s. 2.1.2).
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

// Of FtGateForward without accumulate: dx = dy * s, and d_scores[row] = sum of dy x over the row,
// times s (1 - s), with s = sigmoid(scores[row]).
typedef struct FtGateBackward {
  const void* dy;
  const void* x;
  const float* scores;
  void* dx;
  float* d_scores;
  int64_t rows, cols;
  FtDtype dtype;
} FtGateBackward;

// out[r] = weights[sources[r]] * x[sources[r] / per_token], 0 where sources[r] is -1; weights may
// be NULL: 1. x [tokens, cols], out [expert_rows, cols].
typedef struct FtExpertGather {
  const void* x;
  const int32_t* sources;
  const float* weights;
  void* out;
  int64_t tokens, expert_rows, cols, per_token;
  FtDtype dtype;
} FtExpertGather;

// out[t] = sum over j of weights[t, j] * x[places[t, j]], without those whose place is -1, in order
// of j; weights may be NULL: 1. x [expert_rows, cols], out [tokens, cols].
typedef struct FtExpertCombine {
  const void* x;
  const int32_t* places;
  const float* weights;
  void* out;
  int64_t tokens, expert_rows, cols, per_token;
  FtDtype dtype;
} FtExpertCombine;

// out[t, j] = dot of dy[t] and x[places[t, j]], 0 where the place is -1: the gradient of weights.
typedef struct FtExpertDots {
  const void* dy;
  const void* x;
  const int32_t* places;
  float* out;
  int64_t tokens, expert_rows, cols, per_token;
  FtDtype dtype;
} FtExpertDots;

// A linear of each expert, w[experts, out, in], on consecutive rows: `groups` runs, of which run g
// is expert g % experts's. Without counts runs are of equal length; with them run g has counts[g]
// rows, which add up to `rows`, or with count_stride > 0 counts[g / experts * count_stride + g %
// experts], which may leave the last of `rows` alone.
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
  FtDtype compute;                 // as of FtGemm
  const float* a_scale;            // likewise, of all rows
  const float* b_scale;            // of all rows, or of w as [experts * out, in]
  FtScaling a_scaling, b_scaling;
} FtGroupedGemm;

// Runs of rows as FtGroupedGemm has them. x[rows, cols] += scale * bias[experts, cols] of the run's
// expert; and bias_grad[experts, cols] (+)= sum over the rows of its runs of dy.
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

// out[0] (+)= sum of squares, summed in fp64; out is fp32.
typedef struct FtSquaredNorm {
  const void* x;
  float* out;
  int64_t elements;
  int32_t accumulate;
  FtDtype dtype;
} FtSquaredNorm;

// AdamW with decoupled decay (Loshchilov and Hutter 2019) on elements [0, elements); the first
// `decayed` of them decay. squared_norm: global squared norm of `grad`, or NULL for no clipping.
// With n = sqrt(squared_norm) / loss_scale, g is scaled by min(1, max_norm / (n + 1e-6)) /
// loss_scale. not_finite: nothing is written where it is not 0. skipped: earlier steps that were,
// which bias correction does not count. Both may be NULL. loss_scale_state: loss_scale is times
// 2^loss_scale_state[0], as FtScaleLoss leaves it; NULL: 1.
//
// moments: FT_F32; FT_BF16, rounded to nearest even; or FT_I8 (Dettmers et al. 2022, s. 2), moment1
// in the signed and the root of moment2 in the unsigned dynamic code of base/number_formats.h,
// relative to the largest of each FT_SCALE_BLOCK elements, which absmax1 and absmax2 hold.
//
// noise: where not 0, param becomes numbers of bf16, rounded by StochasticBf16 with it
// (base/number_formats.h): for weights that have no master.
typedef struct FtAdamW {
  void* param;
  const void* grad;
  void* moment1;
  void* moment2;
  float* absmax1;  // [elements / FT_SCALE_BLOCK, rounded up]; FT_I8 alone
  float* absmax2;
  const float* squared_norm;
  const float* not_finite;
  const float* skipped;
  int64_t elements, decayed, step;  // step counts from 1
  float lr, beta1, beta2, epsilon, weight_decay, max_norm;
  float loss_scale;  // 0: as 1
  FtDtype moments;
  FtDtype dtype;  // of param
  FtDtype grad_dtype;
  FtDtype weights_dtype;
  void* weights;  // what param is in weights_dtype, written with it; NULL: nobody wants it
  const float* loss_scale_state;
  uint32_t noise;
} FtAdamW;

// param -= lr * (g + weight_decay * param), decay and the other arguments as of FtAdamW.
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

// Makes of an update that was done as `update` says, but with squared_norm_then and not_finite_then
// in place of its squared_norm and not_finite, what `update` itself would have left; `grad` is
// still there. Nothing is written where both scale the gradients alike. With g the gradient, scaled
// then and now, and u = lr * mean / (root of square + epsilon), in fp32:
//
//   moment1 += (1 - beta1) (g_now - g_then)      moment2 += (1 - beta2) (g_now^2 - g_then^2)
//   param   += u_then - u_now
//
// and where the step is skipped now, each is taken back to what it was, but for rounding. moments:
// FT_F32 alone. An update that was skipped then and is not now is done.
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

// out[0] (+)= how many elements are infinite or NaN.
typedef struct FtCountNotFinite {
  const void* x;
  float* out;
  int64_t elements;
  int32_t accumulate;
  FtDtype dtype;
} FtCountNotFinite;

// skipped[0] += not_finite[0] is not 0.
typedef struct FtCountSkipped {
  const float* not_finite;
  float* skipped;
} FtCountSkipped;

// doublings[0]: how often the loss's scale has doubled less how often it has halved; since[0]:
// steps without infinities since. Where not_finite[0] is not 0, since = 0, and doublings -= 1 if
// that leaves `initial` times 2^doublings at 1 or more. Else since += 1, and at `window` doublings
// += 1 and since = 0 (Micikevicius et al. 2018, s. 3.2; PyTorch's GradScaler).
typedef struct FtScaleLoss {
  const float* not_finite;
  float* doublings;
  float* since;
  float initial;
  int64_t window;
} FtScaleLoss;

// Numbers of `dtype` to `format` and back, in `pieces` pieces of elements / pieces each. A
// quantized piece is its numbers, then, for FT_FP8 and FT_I8, the fp32 scales of its blocks: a
// number is code * scale, and the largest of a block has the largest code, 448 or 127. FT_BF16 and
// FT_F16 have no scales, FT_NF4 is as base/nf4.h says, of one piece. Rounds to nearest, halves to
// even. A block with a number that is not finite has none that is, and one without any above 1e-35
// becomes zeros.
typedef struct FtQuantize {
  const void* x;
  void* out;
  int64_t elements, pieces;
  FtDtype format;
  FtDtype dtype;
} FtQuantize;

// x[rows, cols] to `format`, FT_FP8 or FT_E5M2, with scales as `scaling` has them: a number is code
// times scale, and the largest |x| of those that share one has the largest code, 448 or 57,344.
// Rounds to nearest, halves to even. out [rows, cols] and transposed[cols, rows] get the codes;
// either may be NULL. absmax, which may be NULL, gets the largest |x|. With keep_scale != 0 scale[0]
// is read instead of written, so that it can come from elsewhere, and what lies beyond the largest
// code gets that code. Where a number is not finite, absmax is not and its scale is infinite, and no
// product of the codes is finite. absmax, transposed and keep_scale are of FT_SCALE_TENSOR alone.
// dtype FT_FP8: x are codes with scales of x_scale, as x_scaling says; NULL: 1.
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

// out[i] = sources[0][i] + sources[1][i] + ... in that order, accumulated in fp32, or with maximum
// != 0 the largest of them; out may be one of the sources.
typedef struct FtSumRanks {
  const void* const* sources;
  void* out;
  int64_t elements;
  int32_t count, maximum;
  FtDtype dtype;
} FtSumRanks;

// ---- the table
// -------------------------------------------------------------------------------------------------------

typedef struct FtMemory {
  int64_t free_bytes, total_bytes;
} FtMemory;

// One of the ways in which the device's library can compute a product: opaque, and of one version
// of the library and one kind of device.
typedef struct FtGemmAlgorithm {
  uint64_t words[8];
} FtGemmAlgorithm;

// Which kernels compute attention over whole sequences. ANY_ORDER: the library's, whose backward
// adds to dq as blocks of keys come, so that bits differ from run to run.
typedef enum FtAttentionKernels {
  FT_ATTENTION_OWN = 0,
  FT_ATTENTION_LIBRARY = 1,
  FT_ATTENTION_LIBRARY_ANY_ORDER = 2
} FtAttentionKernels;

// What a device's own recording tells of. The last two have no time: they say for which op calls
// were made.
typedef enum FtActivityKind {
  FT_ACTIVITY_KERNEL = 0,
  FT_ACTIVITY_COPY = 1,
  FT_ACTIVITY_FILL = 2,
  FT_ACTIVITY_LAUNCH = 3,     // on the host: a call that gives the device work
  FT_ACTIVITY_WAIT = 4,       // on the host: a call that waits for the device
  FT_ACTIVITY_OVERHEAD = 5,   // on the host: what the recording itself takes
  FT_ACTIVITY_TAG = 6,        // the call `correlation` was made for op, step and rank
  FT_ACTIVITY_GRAPH_NODE = 7  // node `graph_node` was made for op and rank
} FtActivityKind;

typedef struct FtActivity {
  int64_t start_ns, end_ns;  // on the clock of capture_clock; 0 where no time could be taken
  int64_t op_id;             // of a tag or node
  int64_t bytes;             // of a copy or fill
  uint64_t correlation;      // equal for a call and what the device did for it; 0: none
  uint64_t graph_node;       // of work that a graph launched; 0: none
  const char* name;          // of a kernel or call; lives as long as the device; NULL: not known
  int32_t kind;              // FtActivityKind
  int32_t step, rank;        // of a tag; of a node the rank
  int32_t device, stream;
} FtActivity;

// What a thread is about to launch for.
typedef struct FtOpTag {
  int64_t op_id;
  int32_t step, rank;
  const char* name;  // of the range that other tools show; NULL: none
} FtOpTag;

// LAUNCHES: tags, launches and waits. FULL: kernels, copies and fills too.
typedef enum FtCaptureLevel { FT_CAPTURE_LAUNCHES = 1, FT_CAPTURE_FULL = 2 } FtCaptureLevel;

typedef struct FtDeviceApi {
  int32_t version;       // FT_DEVICE_API_VERSION
  int32_t asynchronous;  // 0: an entry has done its work when it returns, and the caller provides
                         // the queue's thread
  const char* name;      // "cpu", "cuda"

  // device: `why` receives a sentence of at most n bytes when the status is not FT_OK
  FtStatus (*device_count)(int32_t* count, char* why, size_t n);
  FtStatus (*memory)(int32_t device, FtMemory* out, char* why, size_t n);
  FtStatus (*allocate)(int32_t device, int64_t bytes, void** out, char* why, size_t n);
  FtStatus (*release)(int32_t device, void* pointer, char* why, size_t n);
  FtStatus (*queue_create)(int32_t device, FtQueue** out, char* why, size_t n);
  void (*queue_destroy)(FtQueue* queue);
  const char* (*queue_error)(const FtQueue* queue);  // of its last failed call; at one address
  FtStatus (*queue_synchronize)(FtQueue* queue);
  // timed != 0: event_elapsed takes it.
  FtStatus (*event_create)(int32_t device, int32_t timed, FtEvent** out, char* why, size_t n);
  void (*event_destroy)(FtEvent* event);
  FtStatus (*event_record)(FtQueue* queue, FtEvent* event);
  FtStatus (*event_wait)(FtQueue* queue, FtEvent* event);
  FtStatus (*copy)(FtQueue* queue, void* to, const void* from, int64_t bytes);
  FtStatus (*fill)(FtQueue* queue, void* to, int32_t byte_value, int64_t bytes);

  // device, of those that are asynchronous; NULL elsewhere, and where the device lacks it
  //
  // Whether all that came before the event's last record has ended: *done is 1, else 0. Fails where
  // the device has failed since.
  FtStatus (*event_query)(FtEvent* event, int32_t* done, char* why, size_t n);
  // Nanoseconds from the one's last record to the other's, which both have ended; may be negative.
  FtStatus (*event_elapsed)(FtEvent* from, FtEvent* to, int64_t* ns, char* why, size_t n);
  // Memory of the host that copies reach beside other work; plain memory where these are NULL.
  FtStatus (*host_allocate)(int32_t device, int64_t bytes, void** out, char* why, size_t n);
  FtStatus (*host_release)(int32_t device, void* pointer, char* why, size_t n);
  // The queue as libraries of the device know it: a cudaStream_t.
  void* (*native_queue)(FtQueue* queue);
  // `count` shares of at least `multiprocessors` each, apart from each other; *each gets how many
  // a share has, by the device's grain. Queues that are made in a share run there alone.
  FtStatus (*shares_create)(int32_t device, int32_t count, int32_t multiprocessors, FtShare** out,
                            int32_t* each, char* why, size_t n);
  void (*share_destroy)(FtShare* share);
  FtStatus (*queue_create_in)(FtShare* share, FtQueue** out, char* why, size_t n);

  // kernels
  int32_t (*supports)(FtKernel kernel, FtDtype dtype);
  FtStatus (*gemm)(FtQueue*, const FtGemm*);
  FtStatus (*bias_grad)(FtQueue*, const FtBiasGrad*);
  FtStatus (*embedding_forward)(FtQueue*, const FtEmbeddingForward*);
  FtStatus (*embedding_backward)(FtQueue*, const FtEmbeddingBackward*);
  FtStatus (*norm_forward)(FtQueue*, const FtNormForward*);
  FtStatus (*norm_backward_input)(FtQueue*, const FtNormBackwardInput*);
  FtStatus (*norm_backward_weight)(FtQueue*, const FtNormBackwardWeight*);
  FtStatus (*rope)(FtQueue*, const FtRope*);
  FtStatus (*attention_forward)(FtQueue*, const FtAttentionForward*);
  FtStatus (*attention_backward)(FtQueue*, const FtAttentionBackward*);
  FtStatus (*gelu_forward)(FtQueue*, const FtGelu*);
  FtStatus (*gelu_backward)(FtQueue*, const FtGelu*);
  FtStatus (*swiglu_forward)(FtQueue*, const FtSwiglu*);
  FtStatus (*swiglu_backward)(FtQueue*, const FtSwiglu*);
  FtStatus (*add)(FtQueue*, const FtAdd*);
  FtStatus (*add_norm_forward)(FtQueue*, const FtAddNormForward*);
  FtStatus (*cross_entropy_forward)(FtQueue*, const FtCrossEntropyForward*);
  FtStatus (*cross_entropy_backward)(FtQueue*, const FtCrossEntropyBackward*);
  FtStatus (*vocab_max)(FtQueue*, const FtVocabMax*);
  FtStatus (*vocab_sums)(FtQueue*, const FtVocabSums*);
  FtStatus (*vocab_loss)(FtQueue*, const FtVocabLoss*);
  FtStatus (*route)(FtQueue*, const FtRoute*);
  FtStatus (*route_backward)(FtQueue*, const FtRouteBackward*);
  FtStatus (*expert_gather)(FtQueue*, const FtExpertGather*);
  FtStatus (*expert_combine)(FtQueue*, const FtExpertCombine*);
  FtStatus (*expert_dots)(FtQueue*, const FtExpertDots*);
  FtStatus (*grouped_gemm)(FtQueue*, const FtGroupedGemm*);
  FtStatus (*squared_norm)(FtQueue*, const FtSquaredNorm*);
  FtStatus (*adamw)(FtQueue*, const FtAdamW*);
  FtStatus (*sgd)(FtQueue*, const FtSgd*);
  FtStatus (*adamw_amend)(FtQueue*, const FtAdamWAmend*);
  FtStatus (*sgd_amend)(FtQueue*, const FtSgdAmend*);
  FtStatus (*count_not_finite)(FtQueue*, const FtCountNotFinite*);
  FtStatus (*count_skipped)(FtQueue*, const FtCountSkipped*);
  FtStatus (*quantize)(FtQueue*, const FtQuantize*);
  FtStatus (*dequantize)(FtQueue*, const FtQuantize*);
  FtStatus (*sum_ranks)(
      FtQueue*, const FtSumRanks*);  // what collectives among threads of one process compute
  FtStatus (*attention_part_forward)(FtQueue*, const FtAttentionPartForward*);
  FtStatus (*attention_part_backward)(FtQueue*, const FtAttentionPartBackward*);
  FtStatus (*copy_rows)(FtQueue*, const FtCopyRows*);
  FtStatus (*head_norm_forward)(FtQueue*, const FtHeadNormForward*);
  FtStatus (*head_norm_backward_input)(FtQueue*, const FtHeadNormBackwardInput*);
  FtStatus (*head_norm_backward_weight)(FtQueue*, const FtHeadNormBackwardWeight*);
  FtStatus (*softcap)(FtQueue*, const FtSoftcap*);
  FtStatus (*latent_heads)(FtQueue*, const FtLatentHeads*);
  FtStatus (*sink_forward)(FtQueue*, const FtSinkForward*);
  FtStatus (*sink_backward)(FtQueue*, const FtSinkBackward*);
  FtStatus (*shift_targets)(FtQueue*, const FtShiftTargets*);
  FtStatus (*expert_bias)(FtQueue*, const FtExpertBias*);
  FtStatus (*expert_bias_grad)(FtQueue*, const FtExpertBiasGrad*);
  FtStatus (*dropout)(FtQueue*, const FtDropout*);
  FtStatus (*dropout_backward)(FtQueue*, const FtDropoutBackward*);
  FtStatus (*standard_attention_forward)(FtQueue*, const FtStandardAttentionForward*);
  FtStatus (*standard_attention_backward)(FtQueue*, const FtStandardAttentionBackward*);
  FtStatus (*gate_forward)(FtQueue*, const FtGateForward*);
  FtStatus (*gate_backward)(FtQueue*, const FtGateBackward*);
  FtStatus (*count_choices)(FtQueue*, const FtCountChoices*);
  FtStatus (*balance_bias)(FtQueue*, const FtBalanceBias*);
  FtStatus (*scale_loss)(FtQueue*, const FtScaleLoss*);
  FtStatus (*quantize_tensor)(FtQueue*, const FtQuantizeTensor*);

  // algorithms of products, of devices whose library has several; all three NULL elsewhere
  //
  // The library and its version as one word of at most n - 1 letters: "cublasLt-130100".
  FtStatus (*gemm_library)(char* name, size_t n);
  // At most `capacity` algorithms for products like `g`, the library's own choice first. Pointers
  // of `g` say which parts it has and how they are aligned; nothing is read or written.
  FtStatus (*gemm_algorithms)(FtQueue*, const FtGemm* g, FtGemmAlgorithm* out, int32_t capacity,
                              int32_t* count);
  // The queue's products like `g` are computed by it from here on. FT_UNSUPPORTED, with a sentence,
  // where the library refuses it for them, which leaves its own choice in place.
  FtStatus (*gemm_use)(FtQueue*, const FtGemm* g, const FtGemmAlgorithm* algorithm);

  // attention by a library that the device looks for when it is asked for; all three NULL elsewhere
  //
  // The library and its version as one word of at most n - 1 letters: "cudnn-91900".
  // FT_UNSUPPORTED, with a sentence of at most why_n bytes: there is none that can be used.
  FtStatus (*attention_library)(char* name, size_t n, char* why, size_t why_n);
  // The queue's calls like `g` (sizes, format, scale) are computed by these kernels from here on;
  // the library's may be compiled meanwhile, which takes seconds. Pointers are not looked at.
  // FT_UNSUPPORTED, with a sentence, where the library does not compute them, which changes
  // nothing.
  FtStatus (*attention_forward_use)(FtQueue*, const FtAttentionForward* g,
                                    FtAttentionKernels kernels);
  FtStatus (*attention_backward_use)(FtQueue*, const FtAttentionBackward* g,
                                     FtAttentionKernels kernels);

  // capture: NULL where the host's clock is the measurement. push and pop by the threads that
  // launch, the others by one thread at a time.
  //
  // capture_open comes first, before queues are made. FT_UNSUPPORTED: there will be no records, for
  // the reason in `why`; the other entries may be called all the same, so that other tools see
  // windows and ranges.
  FtStatus (*capture_open)(int32_t level, char* why, size_t n);
  FtStatus (*capture_start)(char* why, size_t n);  // a window of steps opens
  FtStatus (*capture_stop)(char* why, size_t n);   // it closes; what ended in it can be drained
  FtStatus (*capture_clock)(int64_t* now_ns, char* why, size_t n);
  int32_t (*capture_wants_names)(void);  // whether a tool is there that shows tags' names
  FtStatus (*capture_push)(const FtOpTag* tag);
  FtStatus (*capture_pop)(void);
  // Moves at most `capacity` records out, in no order; *dropped: records lost since the last call.
  // idle != 0: nothing runs on the device, so that all there is can be had.
  FtStatus (*capture_drain)(int32_t idle, FtActivity* out, int64_t capacity, int64_t* count,
                            int64_t* dropped, char* why, size_t n);

  // graphs: work of one queue that is given again and again; all NULL where the device has none
  //
  // From graph_begin on, kernels, copies and fills that the calling thread gives the queue are
  // noted and not done, until graph_end; the arguments are those of the call. Nothing else is
  // called on the queue meanwhile.
  FtStatus (*graph_begin)(FtQueue* queue);
  // *out gets what was noted, or NULL where it failed; either way the queue does its work again.
  FtStatus (*graph_end)(FtQueue* queue, FtGraph** out);
  // All of it, behind what the queue was given.
  FtStatus (*graph_launch)(FtQueue* queue, FtGraph* graph);
  void (*graph_destroy)(FtGraph* graph);  // what is under way ends all the same
} FtDeviceApi;

#ifdef __cplusplus
}
#endif

#endif  // FORETRAIN_BASE_DEVICE_API_H_
