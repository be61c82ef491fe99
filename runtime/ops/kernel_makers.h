// Lists of KernelMaker, one for each family of ops whose arguments need more than their names
// (bind_arguments.h). kernel_call.h finds an op's maker and checks its operands.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/ops/kernel_call.h"

namespace foretrain {

// Makes the calls of one kind of op.
struct KernelMaker {
  OpKind kind;
  KernelCall (*make)(const BoundOp& op);
};

std::span<const KernelMaker> ActivationMakers();
std::span<const KernelMaker> AttentionMakers();
std::span<const KernelMaker> ContextAttentionMakers();
std::span<const KernelMaker> EmbeddingMakers();
std::span<const KernelMaker> LinearMakers();
std::span<const KernelMaker> MoeMakers();
std::span<const KernelMaker> OptimizerMakers();
std::span<const KernelMaker> QuantizeMakers();
std::span<const KernelMaker> StackAttentionMakers();

// Attention of an encoder-decoder, for the makers of its kinds (stack_attention.cc).
KernelCall MakeStackAttentionForward(const BoundOp& op);
KernelCall MakeStackAttentionBackward(const BoundOp& op);

// The device table's name for the activation of kGelu* and kGemmActivation*.
FtActivation PlainActivationOf(ActivationKind kind);

// Dropout mask of rows or attention weights, without the step; probability 0 if the op drops
// nothing.
FtRandomMask RandomMaskOf(const BoundOp& op);

// Arguments of an AdamW launch: update number `update` of `updates` in a step.
struct AdamWCall {
  FtAdamW adamw;
  std::int64_t update;
  std::int64_t updates;
};

struct FillCall {
  void* to;
  std::int64_t bytes;
};

// Arguments of a head exchange: rows [q | k | v] of `widths`, and `count` parts of them, one after
// the other.
struct HeadPartsCall {
  std::byte* whole;
  std::byte* parts;
  std::int64_t rows;
  std::int64_t widths[3];
  std::int64_t count;
  std::int64_t each;  // bytes of a number
  FtDtype dtype;
  bool inverse;
};

// Arguments of a column split: rows [left | right], and each of the two as a tensor of its own.
struct SplitColumnsCall {
  std::byte* whole;
  std::byte* left;
  std::byte* right;
  std::int64_t rows, left_cols, right_cols;
  std::int64_t each;  // bytes of a number
  FtDtype dtype;
  bool inverse;
};

}  // namespace foretrain
