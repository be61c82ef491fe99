// The core of attention where a sequence is shared out among context-parallel ranks: from q, k and
// v of a rank's tokens to their outputs, and back.
//
//   all-gather  every rank gets all keys and values, for one attention of its queries; gradients of
//               keys and values are summed and scattered (Dubey et al. 2024, s. 3.3.2)
//   ring        keys and values go round, beside the attention over those that are here; parts
//               merge; on the way back their gradients go round with them (Liu et al. 2023)
//   all-to-all  heads instead of tokens are shared out, for whole attention of each
//               (Jacobs et al. 2023)
//
// The backward gathers or passes keys and values again: what is kept of a layer is 1 / cp of a
// whole one's.
#pragma once

#include <cstdint>
#include <string>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"

namespace foretrain {

class ContextAttention {
 public:
  // Tensors of this rank's tokens: qkv [rows, q | k | v], out [rows, q], lse [rows, heads].
  struct Tensors {
    std::int16_t qkv = kNoSlot, out = kNoSlot, lse = kNoSlot;
  };

  // `builder` and `context` outlive it; the plan has cp > 1.
  ContextAttention(const BlockContext& context, BlockBuilder& builder);

  // Slots of what the backward reads. `role`, `category`: of saved tensors. Indices from
  // kFirstSavedIndex on are taken beside the given ones.
  struct SavedIndices {
    int qkv = 0, out = 0, lse = 0;
  };
  static constexpr int kFirstSavedIndex = 48;
  Tensors MakeSaved(SlotRole role, Category category, const SavedIndices& indices);

  // What the projection writes and rotary positions turn: qkv, or a tensor that only the forward
  // has.
  std::int16_t ForwardQkv();

  // qkv -> out, lse.
  void Forward(std::int16_t qkv);

  // The backward in three parts, between which a block puts what runs beside the communication.
  // Prepare: what needs no gradient. Core: d_out -> d_qkv, but for what is still on its way.
  // Finish: its arrival.
  void Prepare();
  void Core(std::int16_t d_out, std::int16_t d_qkv);
  void Finish(std::int16_t d_qkv);

 private:
  // Sizes of one rank's share, in elements.
  std::int64_t Rows() const { return context_.Rows(); }
  std::int64_t QkvElements() const;
  std::int64_t OutElements() const;
  std::int64_t KeyElements() const;
  OpShape Shape() const;

  // A copy, part or collective with its sizes; `all` stands for all cp shares of a sequence.
  struct Share {
    bool queries_all = false, keys_all = false;
    int turn = 0;
    int heads_split = 1;
  };
  OpShape PartShape(const Share& share) const;
  void PartForward(const std::string& name, std::int16_t q, std::int16_t kv, std::int16_t out,
                   const Share& share, bool merges);
  struct PartGradients {
    std::int16_t q = kNoSlot, kv = kNoSlot;
  };
  void PartBackward(const std::string& name, std::int16_t kv, std::int16_t d_out,
                    const PartGradients& to, const Share& share, bool adds);
  void KeyColumns(const std::string& name, std::int16_t from, std::int16_t to, bool inverse);
  void HeadParts(const std::string& name, std::int16_t from, std::int16_t to, bool qkv,
                 bool inverse);
  void Communicate(OpKind kind, const std::string& name, std::int16_t in, std::int16_t out,
                   std::int64_t elements);

  void ForwardRing(std::int16_t qkv);
  void BackwardRing(std::int16_t d_out, std::int16_t d_qkv);
  void ForwardAllToAll(std::int16_t qkv);
  void BackwardAllToAll(std::int16_t d_out);

  const BlockContext& context_;
  BlockBuilder& b_;
  ContextParallelKind kind_;
  int cp_, tp_;
  Tensors saved_;
  std::int16_t out_of_heads_ = kNoSlot;  // all-to-all: outputs of this rank's heads, all tokens
  std::int16_t keys_ = kNoSlot;          // backward: [k | v], of all ranks or of this one
  std::int16_t arriving_ = kNoSlot;      // backward: what Finish waits for
};

}  // namespace foretrain
