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
#include <optional>
#include <string>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"

namespace foretrain {

class ContextAttention {
 public:
  // What the core reads and makes: qkv [rows, q | k | v], out [rows, q], lse [rows, heads]. With
  // all-to-all, qkv and lse are of all tokens and this rank's heads.
  struct Tensors {
    std::int16_t qkv = kNoSlot, out = kNoSlot, lse = kNoSlot;
  };

  // `builder` and `context` outlive it; the plan has cp > 1.
  ContextAttention(const BlockContext& context, BlockBuilder& builder);

  // The tensors to work on. All-to-all keeps one more beside `out`, under kSavedIndex: saved with
  // that category or, without one, a temporary of `otherwise`.
  static constexpr int kSavedIndex = 64;
  void Bind(const Tensors& tensors, std::optional<Category> saved, Category otherwise);

  // Forward, in order. Projection: the tensor of this rank's tokens that the projection writes and
  // rotary positions turn. Exchange: from there to `qkv`. Forward: qkv -> out, lse; also again in a
  // backward that does not have them.
  std::int16_t Projection();
  void Exchange(std::int16_t projection);
  void Forward();

  // The backward in three parts, between which a block puts what runs beside the communication.
  // Prepare: what needs no gradient. Backward: d_out -> d_qkv, but for what is still on its way.
  // Finish: its arrival.
  void Prepare();
  void Backward(std::int16_t d_out, std::int16_t d_qkv);
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

  std::int16_t GatheredKeys(const std::string& suffix);
  void ForwardRing();
  void BackwardRing(std::int16_t d_out, std::int16_t d_qkv);
  void ForwardAllToAll();
  void BackwardAllToAll(std::int16_t d_out);

  const BlockContext& context_;
  BlockBuilder& b_;
  ContextParallelKind kind_;
  int cp_, tp_;
  Tensors at_;
  std::int16_t out_of_heads_ = kNoSlot;  // all-to-all: outputs of this rank's heads, all tokens
  std::int16_t keys_ = kNoSlot;          // backward: [k | v], of all ranks or of this one
  std::int16_t arriving_ = kNoSlot;      // backward: what Finish waits for
};

}  // namespace foretrain
