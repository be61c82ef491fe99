// ContextAttention, the core of attention under context parallelism: from q, k and v of a rank's
// tokens to their outputs, and back.
//
//   all-gather  every rank gathers all keys and values for one attention of its queries; their
//               gradients are reduce-scattered (Dubey et al. 2024, s. 3.3.2)
//   ring        keys and values travel round the ranks, overlapped with attention over those
//               present; partial results are merged; in the backward their gradients travel with
//               them (Liu et al. 2023)
//   all-to-all  heads are split instead of tokens, for whole attention of each head
//               (Jacobs et al. 2023)
//
// The backward gathers or passes keys and values again, so that each rank saves only 1 / cp of a
// layer's activations.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"

namespace foretrain {

class ContextAttention {
 public:
  // Tensors of the core: qkv [rows, q | k | v], out [rows, q], lse [rows, heads]. With all-to-all,
  // qkv and lse cover all tokens and this rank's heads.
  struct Tensors {
    std::int16_t qkv = kNoSlot, out = kNoSlot, lse = kNoSlot;
  };

  // `builder` and `context` outlive it; the plan has cp > 1.
  ContextAttention(const BlockContext& context, BlockBuilder& builder);

  // Sets the tensors to work on. All-to-all keeps one more tensor, with index kSavedIndex: saved
  // under category `saved` or, if that is nullopt, a temporary under `otherwise`.
  static constexpr int kSavedIndex = 64;
  void Bind(const Tensors& tensors, std::optional<Category> saved, Category otherwise);

  // Attention ends at documents. `starts`: where those of this rank's rows begin; kNoSlot: it does
  // not. Forward and Backward read it.
  void EndAtDocuments(std::int16_t starts) { starts_ = starts; }

  // Forward, in this order. Projection: returns the tensor of this rank's tokens that the
  // projection writes and rope rotates. Exchange: moves it to `qkv`. Forward: qkv -> out, lse; a
  // backward that recomputes them calls it again.
  std::int16_t Projection();
  void Exchange(std::int16_t projection);
  void Forward();

  // Backward in three parts, between which the block places ops that overlap with the
  // communication. Prepare: the part that needs no gradient. Backward: d_out -> d_qkv, except for
  // gradients still travelling. Finish: their arrival.
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

  // Share of the sequence that an attention part covers. queries_all, keys_all: all cp shares
  // instead of one. turn: of the ring. heads_split: number of ranks that share the heads.
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

  // Document starts of a part's queries: under all-to-all those of all ranks, gathered; kNoSlot if
  // attention does not end at documents.
  std::int16_t StartsOfPart(const std::string& name, const Share& share);
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
  std::int16_t starts_ = kNoSlot;        // of documents, by this rank's rows
  std::int16_t out_of_heads_ = kNoSlot;  // all-to-all: outputs of this rank's heads, all tokens
  std::int16_t keys_ = kNoSlot;          // backward: [k | v], of all ranks or of this one
  std::int16_t arriving_ = kNoSlot;      // backward: gradients that Finish waits for
};

}  // namespace foretrain
